"""The JSON Schemas: generated, up to date, and never less than they promised."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest
from referencing import Registry, Resource
from tests.model.parse.documents import cloudevent as some_event
from tests.model.parse.documents import grid, one, pushed, record, records

from headgate.model import cloudevent
from headgate.model.envelope import Envelope
from headgate.model.output import output
from headgate.model.schema import CHANGE, CLOUDEVENT, DERIVED, FIELDS, schemas

ROOT = Path(__file__).parents[2] / "schemas"
# What v1 was when it was first written. It is never generated anew.
FIRST = json.loads(Path(__file__).with_name("object-change-event-v1.json").read_text())
NOW = json.loads((ROOT / CHANGE).read_text())


def breaks(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What somebody who relies on the old schema would stumble over."""
    found = [f"{name} is gone" for name in old["properties"] if name not in new["properties"]]
    found += [f"{n} became required" for n in new["required"] if n not in old["required"]]
    found += [f"{n} may be missing now" for n in old["required"] if n not in new["required"]]
    for name, was in old["properties"].items():
        if name in new["properties"]:
            found += [f"{name}: {text}" for text in narrower(was, new["properties"][name])]
    return found


def forms(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return schema.get("anyOf", [schema])


def narrower(was: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The forms a value had and may have no more."""
    return [json.dumps(form) for form in forms(was) if not any(fits(form, n) for n in forms(now))]


def fits(form: dict[str, Any], within: dict[str, Any]) -> bool:
    """May every value of the one form have the other?"""
    if "enum" in within:
        return set(form.get("enum", [None])) <= set(within["enum"])
    if "enum" in form:
        return within.get("type") == "string"
    if form.get("type") != within.get("type") or form.get("format") != within.get("format"):
        return False
    lows = all(within.get(n, 0) <= form.get(n, 0) for n in ("minLength", "minimum") if n in within)
    highs = all(
        within[n] >= form.get(n, float("inf")) for n in ("maxLength", "maximum") if n in within
    )
    inner = within.get("additionalProperties", True)
    return lows and highs and (inner is True or not narrower(form["additionalProperties"], inner))


def test_the_files_are_what_the_model_says():
    """After a change: python -m headgate.model.schema"""
    on_disk = {str(p.relative_to(ROOT)) for p in (ROOT / "events").glob("*.json")}
    assert on_disk == set(schemas())
    for name, content in schemas().items():
        assert (ROOT / name).read_bytes() == content, f"schemas/{name} is out of date"


def test_version_one_is_kept():
    """Who reads v1 today reads it tomorrow."""
    assert breaks(FIRST, NOW) == []


def without(name: str) -> Any:
    return lambda s: s["properties"].pop(name)


def put(name: str, **change: Any) -> Any:
    return lambda s: s["properties"][name].update(change)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (without("item"), "item is gone"),
        (lambda s: s["required"].append("size"), "size became required"),
        (lambda s: s["required"].remove("uri"), "uri may be missing now"),
        (put("kind", enum=["created"]), "kind: "),
        (put("etag", anyOf=[{"type": "string"}]), "etag: "),
        (put("uri", maxLength=100), "uri: "),
        (put("uri", minLength=2), "uri: "),
        (put("uri", type="integer"), "uri: "),
        (put("size", anyOf=[{"type": "integer", "minimum": 1}, {"type": "null"}]), "size: "),
        (put("metadata", additionalProperties={"type": "string"}), "metadata: "),
        (put("event_time", format="date"), "event_time: "),
    ],
)
def test_a_breaking_change_would_be_noticed(change: Any, text: str):
    """Each way to break it, once."""
    broken = copy.deepcopy(NOW)
    change(broken)
    assert any(found.startswith(text) for found in breaks(FIRST, broken))


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s["properties"].update(more={"type": "string"}),
        put("kind", enum=["created", "removed", "moved"]),
        put("uri", maxLength=4000),
    ],
)
def test_more_is_no_break(change: Any):
    wider = copy.deepcopy(NOW)
    change(wider)
    assert breaks(FIRST, wider) == []


def test_every_field_is_described():
    assert list(FIELDS) == list(Envelope.__struct_fields__)
    assert set(NOW["properties"]) == {*FIELDS, *DERIVED}


@pytest.mark.parametrize(
    "document",
    [records(record(versionId="v")), records(record()), pushed(), grid(), some_event()],
)
def test_what_is_written_is_what_the_schema_says(document: Any):
    """As a line of `headgate envelope parse`, and as a CloudEvent."""
    registry = Registry().with_resources(
        (name.rpartition("/")[2], Resource.from_contents(json.loads(content)))
        for name, content in schemas().items()
    )
    envelope = one(document)
    for name, written in (
        (CHANGE, output(envelope)),
        (CLOUDEVENT, orjson.loads(cloudevent.structured(envelope))),
    ):
        schema = json.loads(schemas()[name])
        checker = jsonschema.Draft202012Validator(
            schema, registry=registry, format_checker=jsonschema.FormatChecker()
        )
        checker.validate(written)
        del written["event_time" if name == CHANGE else "id"]
        with pytest.raises(jsonschema.ValidationError):
            checker.validate(written)
