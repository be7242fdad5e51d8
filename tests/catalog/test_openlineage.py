"""OpenLineage: what lineage tools are told, checked by its own schemas and ours, offline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource
from tests.catalog import public, some

from headgate.catalog import openlineage
from headgate.catalog.facets import CORE, OURS, STANDARD
from headgate.model.facts import Facts

# What every event has, wherever tests run.
BASE: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": CORE,
    "$defs": {
        kind: {"type": "object", "required": ["_producer", "_schemaURL"]}
        for kind in ("RunFacet", "DatasetFacet")
    },
}


@cache
def registry() -> Registry[Any]:
    """Every schema there is: the public ones, if they are here, and ours."""
    known = [public.ours(name) for name in OURS.values()]
    if public.SHARED.is_dir():
        known.append(public.schema("openlineage/OpenLineage.json"))
        known += [
            public.schema(f"openlineage/facets/{path.name}")
            for path in sorted((public.SHARED / "openlineage" / "facets").glob("*.json"))
        ]
    else:
        known.append(BASE)
    return Registry().with_resources((k["$id"], Resource.from_contents(k)) for k in known)


def validate(document: Any, ref: str) -> None:
    jsonschema.Draft202012Validator({"$ref": ref}, registry=registry()).validate(document)


def facets(event: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every facet of an event, with its name."""
    datasets = [*event["inputs"], *event["outputs"]]
    for holder in (event["run"], event["job"], *datasets):
        yield from holder["facets"].items()
    for dataset in datasets:
        yield from dataset.get("inputFacets", {}).items()
        yield from dataset.get("outputFacets", {}).items()


def facet(facts: Facts, name: str, at: int = 1) -> dict[str, Any]:
    return next(found for n, found in facets(openlineage.events(facts)[at]) if n == name)


@public.NEEDED
@pytest.mark.parametrize("facts", some.EVERY.values(), ids=some.EVERY)
def test_every_event_is_valid(facts: Facts) -> None:
    """Against the schema of OpenLineage, and every facet against the one that it names."""
    for event in json.loads(json.dumps(openlineage.events(facts))):
        validate(event, event["schemaURL"])
        for name, said in facets(event):
            assert name in STANDARD or name in OURS
            validate(said, said["_schemaURL"])


@pytest.mark.parametrize("facts", some.EVERY.values(), ids=some.EVERY)
def test_our_facets_are_what_our_schemas_say(facts: Facts) -> None:
    for event in openlineage.events(facts):
        for name, said in facets(event):
            if name in OURS:
                validate(said, said["_schemaURL"])


@pytest.mark.parametrize(
    ("facts", "end"),
    [
        (some.FIRST, "COMPLETE"),
        (some.REVERTED, "COMPLETE"),
        (some.SKIPPED, "COMPLETE"),
        (some.FAILURE, "FAIL"),
        (some.WAITING, "FAIL"),
        (some.GIVEN_BACK, "ABORT"),
        (some.FENCED, "ABORT"),
        (some.unpublished("waiting", steps=(("claimed", 0), ("waiting", 1))), "ABORT"),
    ],
)
def test_a_run_starts_and_ends_once(facts: Facts, end: str) -> None:
    """Given back without a failure is no failure, even where it had waited before."""
    started, ended = openlineage.events(facts)
    assert (started["eventType"], ended["eventType"]) == ("START", end)
    assert started["eventTime"] <= ended["eventTime"]
    assert started["run"]["runId"] == ended["run"]["runId"] == str(facts.run_uuid)


def test_events_go_by_the_names_of_the_matrix() -> None:
    """`run.start`, `run.metrics`, `run.end` and `event.ingest` can be looked for."""
    assert facet(some.FIRST, "headgate_run", 0)["events"] == ["event.ingest", "run.start"]
    assert facet(some.FIRST, "headgate_run")["events"] == ["run.metrics", "run.end"]
    ingested = facet(some.FIRST, "headgate_source", 0)
    assert (ingested["etag"], ingested["sequence"]) == ("9b1f4a", "0001")


def test_rows_have_the_schema_that_was_declared() -> None:
    _, table = openlineage.events(some.FIRST)[1]["outputs"]
    fields = table["facets"]["schema"]["fields"]
    assert [(f["name"], f["type"]) for f in fields] == [
        ("station", "text"),
        ("value", "double precision"),
    ]
    assert table["outputFacets"]["outputStatistics"]["rowCount"] == 2


def test_a_failure_says_what_failed() -> None:
    assert facet(some.FAILURE, "errorMessage")["message"] == "row 2: value is 900"
    (assertion,) = facet(some.FAILURE, "dataQualityAssertions")["assertions"]
    assert assertion == {
        "assertion": "python",
        "success": False,
        "name": "in_range",
        "description": "1 of 2",
    }
    assert facet(some.FAILURE, "headgate_checks")["checks"][0]["reason"] == "out_of_range"
    assert openlineage.events(some.FAILURE)[1]["outputs"] == []


def test_a_schedule_says_when_it_was_due() -> None:
    assert facet(some.SCHEDULED, "nominalTime")["nominalStartTime"] == "2026-02-28T00:00:00Z"


@pytest.mark.parametrize(
    ("uri", "namespace", "name"),
    [
        ("s3://in/a%20b/c.csv", "s3://in", "a b/c.csv"),
        ("gs://in/c.csv", "gs://in", "c.csv"),
        (
            "abfss://c@acc.dfs.core.windows.net/k.csv",
            "abfss://c@acc.dfs.core.windows.net",
            "k.csv",
        ),
        ("file:///data/x.csv", "file", "/data/x.csv"),
        ("https://host:8443/a?b=c#d", "https://host:8443", "/a?b=c#d"),
        ("https://host", "https://host", "/"),
        ("cron://nightly/2026", "cron://nightly", "/2026"),
        ("just a name", "headgate", "just a name"),
        ("http://[oops/x", "headgate", "http://[oops/x"),
    ],
)
def test_objects_are_named_as_others_name_them(uri: str, namespace: str, name: str) -> None:
    """So that lineage of other tools meets ours at the same dataset."""
    assert openlineage.place(uri) == (namespace, name)
