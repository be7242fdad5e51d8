"""JSON Schemas of what is written for others, generated from the model.

    python -m headgate.model.schema        writes them into schemas/

A version is a promise: what v1 has stays, with at least the values it may have. A test fails when
the files are not what this module says, and when they break what v1 was.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from .cloudevent import TYPES
from .envelope import Envelope

DIALECT = "https://json-schema.org/draft/2020-12/schema"
CHANGE = "events/object-change-event-v1.schema.json"
CLOUDEVENT = "events/object-change-cloudevent-v1.schema.json"

# What each field of the envelope means; the reference says the same.
FIELDS = {
    "event_id": "the source's id of this event",
    "source": "what happened, in the source's words",
    "provider": "whose object it is",
    "detector": "how the change was noticed",
    "kind": "is the object there, or is it gone",
    "uri": "which object; reserved characters of its key are percent-encoded",
    "etag": "the ETag, without quotes and W/",
    "version_id": "the store's version of the object",
    "md5": "the MD5 that the store told, in hex; a hint",
    "version_hint": "something that changes when the object does",
    "strength": "how far the hint can be trusted",
    "size": "in bytes",
    "content_type": "the media type",
    "event_time": "when it changed",
    "clock": "who told the time",
    "received_at": "when Headgate heard of it",
    "subject": "what it is ordered by, when that is not the uri",
    "sequence": "its place in the source's order; compared as text, byte by byte",
    "generation": "the number the ledger gave to this change of a polled uri",
    "item": "which part of the object",
    "dataset": "the dataset it belongs to",
    "partition": "the partition it belongs to",
    "trace": "the W3C trace context",
    "metadata": "further facts of the source",
    "data": "the bytes themselves, when they came inside the message",
    "idempotency_key": "SHA-256 of the uri and the occurrence, in hex: was this change told before",
}
DERIVED = {
    "bucket": "the bucket or container that the uri names",
    "key": "the object's key as the store has it, not encoded",
    "trace_id": "the id within the trace context",
}


def change_schema() -> dict[str, Any]:
    """What `headgate envelope parse` prints for a record that is an envelope."""
    generated = msgspec.json.schema(Envelope)
    known = generated["$defs"]["Envelope"]
    properties: dict[str, Any] = {
        name: {**known["properties"][name], "description": text} for name, text in FIELDS.items()
    }
    for name, text in DERIVED.items():
        properties[name] = {"type": "string", "description": text}
    return {
        "$schema": DIALECT,
        "$id": CHANGE.rpartition("/")[2],
        "title": "Object change event, version 1",
        "description": "One observed change. It does not claim to be new.",
        "type": "object",
        "properties": properties,
        "required": [*known["required"], "idempotency_key"],
    }


def cloudevent_schema() -> dict[str, Any]:
    """The same as the data of a CloudEvent, in the structured mode."""
    text = {"type": "string", "minLength": 1}
    return {
        "$schema": DIALECT,
        "$id": CLOUDEVENT.rpartition("/")[2],
        "title": "Object change as a CloudEvent, version 1",
        "type": "object",
        "properties": {
            "specversion": {"const": "1.0"},
            "id": {**text, "description": "the change key: told twice, it is the same event"},
            "source": {**text, "format": "uri-reference"},
            "type": {"enum": list(TYPES.values())},
            "subject": {**text, "description": "the uri of the object"},
            "time": {"type": "string", "format": "date-time"},
            "datacontenttype": {"const": "application/json"},
            "sequence": text,
            "traceparent": text,
            "tracestate": text,
            "data": {"$ref": CHANGE.rpartition("/")[2]},
        },
        "required": ["specversion", "id", "source", "type", "subject", "time", "data"],
    }


def schemas() -> dict[str, bytes]:
    """Every schema of the model as its file in `schemas/`."""
    return as_files({CHANGE: change_schema(), CLOUDEVENT: cloudevent_schema()})


def as_files(made: Mapping[str, Any]) -> dict[str, bytes]:
    """Schemas as they are written."""
    return {
        name: msgspec.json.format(msgspec.json.encode(schema), indent=2) + b"\n"
        for name, schema in made.items()
    }


def write(files: Mapping[str, bytes]) -> None:
    """Write schemas into `schemas/`, and say which."""
    for name, content in files.items():
        target = Path("schemas", name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    write(schemas())
