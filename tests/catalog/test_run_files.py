"""The files of a run: complete, the same each time, and without what must not be in them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta, timezone
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tests.catalog import public, rdf, some

from headgate.catalog import dcat, run, stac
from headgate.catalog.hrefs import StaticHrefs
from headgate.catalog.render import dump, iri
from headgate.catalog.summary import code
from headgate.model import delta
from headgate.model.facts import Declared, Facts, File

SCHEMAS = {
    "detector.json": "events/object-change-event-v1.schema.json",
    "wal.json": "wal-v1.schema.json",
    "manifest.json": "io-manifest-v1.schema.json",
    "delta_manifest.json": "delta-manifest-v1.schema.json",
    "run_manifest.json": "run-manifest-v1.schema.json",
    "qa.json": "qa-v1.schema.json",
}


def documents(facts: Facts) -> dict[str, Any]:
    return {
        name: json.loads(text)
        for name, text in run.files(facts).items()
        if name.endswith((".json", ".jsonld"))
    }


def everything(facts: Facts) -> bytes:
    """All that is ever written about a run."""
    made = b"".join(run.files(facts).values())
    if facts.item is not None and facts.version is not None:
        made += dump(stac.item([facts], StaticHrefs())) + dump(dcat.dataset([facts], StaticHrefs()))
    return made


def strict(schema: Any) -> Any:
    """The schema without room for what it does not name."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: strict(part) for name, part in schema.items()}
    return {**made, "additionalProperties": False} if "properties" in made else made


@pytest.mark.parametrize("facts", some.EVERY.values(), ids=some.EVERY)
def test_every_file_is_what_its_schema_says(facts: Facts) -> None:
    """And says nothing that its schema does not name."""
    made = documents(facts)
    for name, schema in SCHEMAS.items():
        if name in made:
            jsonschema.Draft202012Validator(strict(public.ours(schema))).validate(made[name])


@pytest.mark.parametrize("facts", some.EVERY.values(), ids=some.EVERY)
def test_a_run_has_all_its_files(facts: Facts) -> None:
    """Who published nothing has no delta, and everything else."""
    lacking = () if facts.version is not None else ("delta_manifest.json",)
    assert tuple(run.files(facts)) == tuple(n for n in run.NAMES if n not in lacking)


@pytest.mark.parametrize("facts", some.EVERY.values(), ids=some.EVERY)
def test_the_same_facts_are_the_same_bytes(facts: Facts) -> None:
    """Whenever and wherever they are rendered, in whatever zone the machine is."""
    zone = timezone(timedelta(hours=5, minutes=30))
    told = replace(
        facts,
        at=facts.at.astimezone(zone),
        declared=Declared(reversed(list(facts.declared.items()))),
    )
    assert everything(facts) == everything(told)


@pytest.mark.parametrize("facts", some.EVERY.values(), ids=some.EVERY)
def test_no_record_holds_bytes_or_secrets(facts: Facts) -> None:
    """Neither the object, nor what a key's name or a uri gives away."""
    told = replace(
        facts,
        envelope=some.envelope(
            facts.envelope.uri, data=some.BYTES, detector=facts.envelope.detector
        ),
    )
    made = everything(told)
    assert some.SECRET.encode() not in made
    assert some.BYTES not in made
    assert b"dGhlc2UgYXJlIHRoZSBieXRlcw" not in made  # base64 of how the bytes begin


def test_what_comes_later_changes_no_file_of_a_run() -> None:
    """A run is over when it is told. That something replaced it since is told by what did."""
    assert run.files(some.OLD) == run.files(some.FIRST)


def test_the_summary_is_a_page_for_people() -> None:
    """What came, what became of it, what it replaced, how to undo it."""
    told = run.files(some.SECOND)["summary.md"].decode()
    assert told.startswith("# soil: run 2-1 published version 2\n")
    assert "`s3://in/soil/oslo.csv`" in told
    assert "- Version 1 (publication 1, run 1-1)" in told
    assert 'headgate publication revert 2 --because "…" --dry-run' in told
    failed = run.files(some.FAILURE)["summary.md"].decode()
    assert "readers see what they saw before" in failed
    assert "headgate quarantine show 1" in failed
    back = run.files(some.REVERTED)["summary.md"].decode()
    assert "asked for by `anna`" in back


@given(st.text(max_size=30))
def test_nothing_in_a_name_is_taken_for_markdown(text: str) -> None:
    """A name is one span of code, whatever it holds."""
    (line,) = MarkdownIt().parseInline(code(text))
    kinds = [token.type for token in line.children or ()]
    assert kinds == ["code_inline"] or not text.strip()


def test_the_wal_speaks_the_words_of_the_seed() -> None:
    made = documents(some.FAILURE)["wal.json"]
    assert (made["status"], made["status_v0"], made["finalized_at"]) == ("failed", "failed", None)
    assert [s["step"] for s in made["steps"]][-2:] == ["rolled_back", "quarantined"]
    made = documents(some.SECOND)["wal.json"]
    assert (made["status"], made["status_v0"]) == ("finalized", "succeeded")
    assert made["prov_ref"] == "s3://lake/soil/runs/2-1/provenance.prov.jsonld"


def test_a_delta_manifest_can_be_applied_and_taken_back() -> None:
    """What is written can be read: applied to the version before, it gives this one."""
    made = delta.read(documents(some.SECOND)["delta_manifest.json"])
    before = {f.name: f for f in some.version().files}
    after = {f.name: f for f in some.version(2, 2).files}
    assert made.apply(before) == after
    assert made.inverse().apply(after) == before


def test_checks_are_counted_by_reason() -> None:
    made = documents(some.FAILURE)["qa.json"]
    assert made["counts"] == {
        "checks": 1, "passed": 0, "failed": 1, "rows_examined": 2, "rows_failed": 1,
    }  # fmt: skip
    assert made["reasons"] == {"out_of_range": 1}
    assert made["passed"] is False


def test_a_run_manifest_says_what_it_takes_to_do_it_again() -> None:
    made = documents(some.FIRST)["run_manifest.json"]
    assert made["inputs"][0]["digest"] == f"sha256:{some.version().content}"
    assert made["commits"]["code_digest"] == f"sha256:{some.sha('code')}"
    assert made["environment"] == {"headgate": "0.1.0", "python": "3.11.7"}
    assert "environment" not in made["config"]


TEXT = st.text(min_size=1, max_size=40).filter(lambda t: t.isprintable() or "\n" in t)


@settings(max_examples=60, deadline=None)
@given(uri=TEXT, name=TEXT, note=TEXT)
def test_names_of_any_kind_are_rendered(uri: str, name: str, note: str) -> None:
    """No uri, file name or note of a source breaks a record."""
    told = some.envelope(uri, metadata={"note": note}, version_hint=note)
    facts = some.facts(some.version(artifacts=(File(name, some.sha(name), 1),)), envelope=told)
    made = run.files(facts)
    assert json.loads(made["detector.json"])["metadata"].keys() == {"note"}
    rdf.graph(json.loads(made["provenance.prov.jsonld"]), "prov/x")
    stac.item([facts], StaticHrefs())


@settings(max_examples=200, deadline=None)
@given(TEXT)
def test_an_address_is_an_address_whatever_it_was(uri: str) -> None:
    """And what is one already stays as it is."""
    made = iri(uri)
    assert made.isascii()
    assert not set(made) & set(' <>"{}|\\^`')
    assert iri(made) == made
