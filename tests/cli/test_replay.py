"""`headgate replay`, as the runbook tells people to use it."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import jsonschema
import pytest
from tests.cli.conftest import Headgate

ROOT = Path(__file__).parents[2]
RUNBOOK = ROOT / "docs" / "runbooks" / "reliability" / "replay.md"
MARCH = 1_772_600_000  # the 4th, 2026
WINDOW = ("--from", "2026-03-02", "--to", "2026-03-09")


@pytest.fixture
def rain(headgate: Headgate) -> Headgate:
    """A folder where the starter's pipeline has run on files of March."""
    assert headgate("init").code == 0
    pipeline = headgate.folder / "rain.py"
    pipeline.write_text(pipeline.read_text().replace('"incoming/")', '"incoming/", settle=0)'))
    for n, file in enumerate(sorted((headgate.folder / "incoming").iterdir())):
        os.utime(file, (MARCH + n, MARCH + n))
    done = headgate("up", "rain.py", "--until-idle", "--workers", "1")
    assert done.code == 0, done.err
    return headgate


def commands(page: Path) -> list[list[str]]:
    """What a page tells its reader to type, in order."""
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    return [shlex.split(line)[2:] for line in lines if line.startswith("$ headgate ")]


def test_the_commands_of_the_runbook_do_what_it_says(rain: Headgate) -> None:
    """Who is on call types them from top to bottom, and each one works."""
    typed = commands(RUNBOOK)
    assert len(typed) > 8
    for words in typed:
        if words[:2] == ["replay", "stop"]:  # the last one is done: ask for another
            assert rain("replay", "rain.py", *WINDOW, "--publish", "--because", "more").code == 0
        last = rain("replay", "list", "--json").json["replays"]
        number = str(last[0]["id"]) if last else "0"
        said = rain(*(number if word == "REPLAY" else word for word in words))
        assert said.code == 0, f"headgate {' '.join(words)}\n{said.out}{said.err}"
    shown = rain("replay", "list", "--json").json["replays"]
    assert {(r["mode"], r["state"]) for r in shown} == {
        ("verify", "done"), ("publish", "done"), ("publish", "stopped"),
    }  # fmt: skip


@pytest.mark.parametrize("mode", [("--verify",), ("--publish", "--because", "why")])
def test_an_empty_window_is_done_at_once_and_proves_nothing(
    rain: Headgate, mode: tuple[str, ...]
) -> None:
    """Nothing stays running, and nothing is said to be the same."""
    said = rain("replay", "rain.py", "--from", "2025-03-02", "--to", "2025-03-09", *mode)
    assert said.code == 0, said.err
    assert "0 inputs" in said.out
    assert "There is nothing to run again." in said.err
    assert "came out the same" not in said.out
    (one,) = rain("replay", "list", "--json").json["replays"]
    assert (one["state"], one["inputs"]) == ("done", 0)


def test_a_window_that_ends_before_it_begins_is_refused(rain: Headgate) -> None:
    """It is a slip of the hand, and would prove nothing."""
    said = rain("replay", "rain.py", "--from", "2026-03-09", "--to", "2026-03-02", "--verify")
    assert said.code == 2
    assert "holds no moment" in said.err
    assert "begins with the earlier time" in said.err
    assert rain("replay", "list", "--json").json["replays"] == []


def test_changed_code_fails_the_proof_and_is_named(rain: Headgate) -> None:
    """Exit 1, and both people and programs are told which; publishing it is asked wrongly."""
    file = rain.folder / "rain.py"
    file.write_text(re.sub(r"(def \w+\(obj.*\n)", r"\1    str(1)\n", file.read_text()))
    said = rain("replay", "rain.py", *WINDOW, "--verify")
    assert said.code == 1
    assert "first run: code" in said.err
    assert "changed: code is" in said.out
    told = rain("replay", "rain.py", *WINDOW, "--verify", "--json").json
    assert [one["aspect"] for one in told["manifest"]["changed"]] == ["code"]
    assert rain("replay", "rain.py", *WINDOW, "--publish", "--because", "x").code == 2
    assert rain("replay", "rain.py", *WINDOW, "--verify", "--accept", "code").code == 0


def test_a_frozen_manifest_has_its_schema_and_can_be_replayed(rain: Headgate) -> None:
    """It is a document of its own: kept, read by others, and given back."""
    assert rain("replay", "rain.py", *WINDOW, "--verify").code == 0
    said = rain("replay", "show", "1", "--manifest")
    schema = json.loads((ROOT / "schemas" / "frozen-manifest-v1.schema.json").read_text())
    jsonschema.validate(said.json, schema)
    (rain.folder / "week.json").write_text(said.out)
    again = rain("replay", "rain.py", "--manifest", "week.json", "--verify", "--json")
    assert again.code == 0
    listed = said.json["inputs"]["list"]
    assert again.json["report"]["same"] == len(listed) > 0


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((), "say --verify or --publish"),
        (("--publish",), "--because is missing"),
        (("--verify", "--unseen"), "--unseen was not"),
        (("--verify", "--from", "yesterday"), "is no date"),
        (("--publish", "--because", "x", "--rate", "fast"), "is no rate"),
        (("--verify", "--accept", "everything"), "there are version, code"),
    ],
)
def test_who_asks_wrongly_is_told_how(headgate: Headgate, args: tuple[str, ...], text: str) -> None:
    """Exit 2, before anything is looked at."""
    said = headgate("replay", "rain.py", *args)
    assert said.code == 2
    assert text in said.err
