"""Suites, checkpoints and pandas: run by `make test-gx`, in an environment that has them.

The pipelines run as a user's do, by `Pipeline.run()`.
"""

# What it imports is in an environment of its own.
# pyright: reportMissingImports=false

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import great_expectations as gx
import great_expectations.expectations as gxe
import pandas as pd
import pandera.pandas as pa
import pytest

import headgate as hg

GOOD = "station,mm\noslo,1\nbern,2.5\n"
BAD = "station,mm\noslo,1\noslo,-2\nrome,-1\n"
SAID = "SELECT convert_from(doc, 'UTF8') FROM headgate.journal ORDER BY entry DESC LIMIT 1"


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="hg-suites-", dir="/tmp"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def checked(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run files through a pipeline with one check; the class of each end, and what was said."""
    monkeypatch.setenv("HEADGATE_HOME", str(home / tmp_path.name))
    monkeypatch.setenv("HEADGATE_DATABASE_URL", "embedded")

    def run(check: Any, **files: str) -> dict[str, list[dict[str, Any]]]:
        folder = tmp_path / "incoming"
        folder.mkdir()
        p = hg.Pipeline(
            "p",
            sources=[hg.Directory(folder, settle=0)],
            store=str(tmp_path / "lake"),
            dataset="soil",
        )
        p.validate(check)
        said: dict[str, list[dict[str, Any]]] = {}
        for name, text in files.items():
            (folder / f"{name}.csv").write_text(text)
            p.run(max_wait_seconds=0)
            told = subprocess.run(
                [sys.executable, "-m", "headgate", "db", "psql", "--", "-Atc", SAID],
                capture_output=True,
                text=True,
                check=True,
            )
            said[name] = json.loads(told.stdout)["checks"]
        return said

    return run


def suite() -> Any:
    return gx.ExpectationSuite(
        name="rain",
        expectations=[
            gxe.ExpectColumnValuesToBeBetween(column="mm", min_value=0),
            gxe.ExpectColumnValuesToBeUnique(column="station"),
            gxe.ExpectTableRowCountToBeBetween(min_value=1),
            gxe.ExpectColumnMeanToBeBetween(column="mm", min_value=0),
        ],
    )


def test_a_suite_says_what_each_expectation_found(
    checked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts and observed values, by expectation; and nobody is called meanwhile."""

    def refuse(*given: Any, **said: Any) -> Any:
        raise AssertionError(f"it looked up {given}")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    said = checked(suite(), good=GOOD, bad=BAD, other="town,mm\noslo,1\n")
    assert [c["passed"] for c in said["good"]] == [True] * 4
    assert {c["name"]: (c["passed"], c.get("examined"), c.get("failed")) for c in said["bad"]} == {
        "rain: expect_column_values_to_be_between mm": (False, 3, 2),
        "rain: expect_column_values_to_be_unique station": (False, 3, 2),
        "rain: expect_table_row_count_to_be_between": (True, None, None),
        "rain: expect_column_mean_to_be_between mm": (False, None, None),
    }
    assert {(c.get("kind"), c.get("reason")) for c in said["bad"]} == {
        ("great_expectations", "contract"),
        ("great_expectations", None),
    }
    missing = next(c for c in said["other"] if "unique" in c["name"])
    assert 'column "station" in BatchData does not exist' in missing["text"]


def test_a_checkpoint_is_asked_and_none_of_its_actions_taken(checked: Any) -> None:
    """A check does nothing outside: whoever wants a message has the incident hook."""
    taken: list[Any] = []

    class Tell(gx.checkpoint.actions.ValidationAction):
        type: str = "tell"

        def run(self, *given: Any, **said: Any) -> dict[str, Any]:
            taken.append(given)
            return {}

    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_pandas("p").add_dataframe_asset("a")
    whole = asset.add_batch_definition_whole_dataframe("w")
    definition = context.validation_definitions.add(
        gx.ValidationDefinition(name="v", data=whole, suite=context.suites.add(suite()))
    )
    checkpoint = gx.Checkpoint(
        name="c", validation_definitions=[definition], actions=[Tell(name="tell")]
    )
    said = checked(checkpoint, good=GOOD, bad=BAD)
    assert [c["passed"] for c in said["good"]] == [True] * 4
    assert next(c["name"] for c in said["bad"] if not c["passed"]).startswith("c: expect_column")
    assert taken == []


def test_a_suite_is_known_by_what_it_expects() -> None:
    """Ids are made anew in every process; the contract is the same."""

    def digest(check: Any) -> bytes:
        p = hg.Pipeline("p")
        p.validate(check, name="x")
        return p.code_digest()

    context = gx.get_context(mode="ephemeral")
    assert digest(suite()) == digest(context.suites.add(suite()))
    assert digest(suite()) != digest(gxe.ExpectColumnToExist(column="mm"))


def test_pandera_checks_tables_of_pandas(checked: Any) -> None:
    """The same counts as with polars."""
    schema = pa.DataFrameSchema(
        {
            "station": pa.Column(str, unique=True),
            "mm": pa.Column(float, pa.Check.ge(0), coerce=True),
        },
        name="rain",
    )
    said = checked(schema, good=GOOD, bad=BAD, other="town,mm\noslo,1\n")
    assert said["good"] == [
        {"kind": "pandera", "name": "rain", "passed": True, "examined": 2, "failed": 0}
    ]
    (bad,) = said["bad"]
    assert (bad["examined"], bad["failed"], bad["reason"]) == (3, 3, "contract")
    (other,) = said["other"]
    assert "column_in_dataframe" in other["text"]


def test_what_numpy_says_counts() -> None:
    """The answer of a whole column is numpy's and no bool of Python's."""
    from headgate.model.validation.outcomes import outcomes_of

    frame = pd.DataFrame({"mm": [1, -1]})
    assert [c.passed for c in outcomes_of((frame["mm"] > 0).all(), "x")] == [False]
    assert [c.passed for c in outcomes_of((frame["mm"] > -2).all(), "x")] == [True]
