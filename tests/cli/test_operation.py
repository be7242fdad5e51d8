"""Looking at operations and deciding about them: list, show, explain, reset, lineage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.catalog import public, rdf
from tests.catalog.test_openlineage import facets, validate
from tests.cli.conftest import Headgate

import headgate as hg


@pytest.fixture
def done(headgate: Headgate, monkeypatch: pytest.MonkeyPatch) -> Headgate:
    """A ledger with an operation that succeeded, one that failed and one that is partial."""
    monkeypatch.setenv("HEADGATE_DATABASE_URL", headgate.env["HEADGATE_DATABASE_URL"])
    with hg.operation("load", key={"day": "mon"}, dataset="sales", checksum_in="ab" * 32) as op:
        op.result = {"rows": 3}
    for name in ("broken", "partial"):
        with pytest.raises(ZeroDivisionError):
            fail(name)
    return headgate


def fail(name: str) -> None:
    with hg.operation(name, key=1) as op:
        if name == "partial":
            op.call("ring", lambda: "rung")
        raise ZeroDivisionError("by zero")


def listed(headgate: Headgate, *options: str) -> dict[str, Any]:
    found = headgate("operation", "list", "--json", *options).json["operations"]
    return {one["task"]: one for one in found}


def test_operations_are_listed_shown_and_explained(done: Headgate) -> None:
    """Who did what, how it ended, and what a call would do now, with the line that proves it."""
    found = listed(done)
    assert {task: one["status"] for task, one in found.items()} == {
        "load": "success", "broken": "failure", "partial": "partial",
    }  # fmt: skip
    assert set(listed(done, "--status", "partial")) == {"partial"}
    assert set(listed(done, "--dataset", "sales")) == {"load"}
    assert "ZeroDivisionError" in done("operation", "list").out
    key = found["load"]["key"]
    for name in (key, key[:10], str(found["load"]["id"]), f"operation/{found['load']['id']}/1"):
        assert done("operation", "show", name, "--json").json["key"] == key
    people = done("operation", "show", key[:10])
    assert "success" in people.out
    assert "by zero" in done("operation", "show", found["broken"]["key"]).out
    said = done("operation", "explain", key, "--json").json
    assert said["made_of"]["key"] == {"day": "mon"}
    assert "version" in said["derived"]
    assert "dataset" not in said["derived"]
    assert said["evidence"] == f"operation/{found['load']['id']}/1"
    assert "stored result" in done("operation", "explain", key).out
    assert done("operation", "show", "ffff").code == 2


def test_a_reset_is_governed_and_the_next_call_runs_again(done: Headgate) -> None:
    """Who and why stay in the journal, the registry and the log; a dry run changes nothing."""
    key = listed(done)["load"]["key"]
    assert done("operation", "reset", key).code == 2
    assert done("operation", "reset", key, "--because", "x", "--dry-run").code == 0
    assert listed(done)["load"]["status"] == "success"
    said = done("operation", "reset", key[:12], "--because", "wrong file", "--json").json
    with hg.operation("load", key={"day": "mon"}, dataset="sales", checksum_in="ab" * 32) as op:
        assert not op.done
        op.result = {"rows": 4}
    psql = (
        "SELECT wal_pointer || kind || because FROM headgate.rollback_registry WHERE kind = 'reset'"
    )
    assert f"{said['pointer']}resetwrong file" in done("db", "psql", "-c", psql).out
    log = "SELECT status || ' ' || dataset_id || ' ' || (result_hash IS NOT NULL)"
    log += " FROM headgate.idempotency_log WHERE task_id = 'load'"
    assert "success sales true" in done("db", "psql", "-c", log).out


@public.NEEDED
def test_lineage_is_valid_and_rendered_on_demand(done: Headgate) -> None:
    """PROV conforms to the shapes and OpenLineage to the public schemas, for every ending."""
    for one in listed(done).values():
        prov = done("operation", "show", one["key"], "--prov").json
        rdf.check(rdf.graph(prov, "prov/x.jsonld"), public.SHAPES / "operation.ttl")
        events = [
            json.loads(text)
            for text in _documents(done("operation", "show", one["key"], "--openlineage").out)
        ]
        kinds = [event["eventType"] for event in events]
        assert kinds == ["START", "COMPLETE" if one["status"] == "success" else "FAIL"]
        for event in events:
            validate(event, event["schemaURL"])
            for _, facet in facets(event):
                validate(facet, facet["_schemaURL"])


def _documents(text: str) -> Iterator[str]:
    decoder, at = json.JSONDecoder(), 0
    while at < len(text.rstrip()):
        _, end = decoder.raw_decode(text, at)
        yield text[at:end]
        at = end + 1


def test_doctor_looks_at_operations_and_indexes(done: Headgate) -> None:
    """What is partial or overdue is a warning; an index that is not sound is a failure."""
    checks = {c["name"]: c for c in done("doctor", "--json").json["checks"]}
    assert checks["operations"]["state"] == "warn"
    assert "1 partial" in checks["operations"]["text"]
    assert checks["indexes"]["state"] == "ok"


PIPELINE = """
import headgate as hg

p = hg.Pipeline("p", sources=[hg.Directory("incoming")], store="lake")

@p.transform
def stamp(obj):
    with hg.operation("stamp", key=obj.digest) as op:
        op.result = op.tx.fetchval("SELECT 41 + 1")
    return {"stamp.txt": str(op.result)}
"""


def test_operations_in_a_rehearsal_use_its_scratch_database(bare: Headgate) -> None:
    """`headgate try` commits nothing anywhere else, and needs no shared database for it."""
    (bare.folder / "p.py").write_text(PIPELINE)
    (bare.folder / "incoming").mkdir()
    (bare.folder / "sample.txt").write_text("x")
    said = bare("try", "p.py", "sample.txt", "--json")
    assert said.code == 0, said.err
    assert said.json["ok"], said.out
    assert not (bare.folder / ".headgate").exists()


def test_importing_the_library_is_quick(tmp_path: Path) -> None:
    """`import headgate` loads next to nothing: names come when they are used."""
    import subprocess
    import sys

    code = "import sys, headgate; print(len([m for m in sys.modules if m.startswith('headgate')]))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(said.stdout) <= 3
