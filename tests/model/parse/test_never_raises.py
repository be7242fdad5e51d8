"""Whatever is done to a document, reading it gives records and nothing else happens."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.parse.documents import (
    NOW,
    bridged,
    cloudevent,
    grid,
    one,
    pushed,
    record,
    records,
    resource,
    sns,
)

from headgate.model.envelope import Envelope, Refused
from headgate.model.identity import change_key
from headgate.model.output import output_json
from headgate.model.parse import PROVIDERS, parse
from headgate.model.parse.result import Reason

REASONS = set(Reason.__args__)
DOCUMENTS: list[Any] = [
    records(record(versionId="v1"), record("b+c")),
    sns(records(record())),
    bridged(),
    pushed(),
    [grid(), grid("Microsoft.Storage.BlobDeleted")],
    cloudevent(sequence="5", sequencetype="Integer"),
    cloudevent("google.cloud.storage.object.v1.finalized", data=resource()),
    [cloudevent("Microsoft.Storage.BlobCreated", data=grid()["data"]), cloudevent()],
    orjson.loads(output_json(one(records(record())))),
    {"event_id": "1", "source": "s3", "bucket": "a", "key": "b", "metadata": {"x": 1}},
]
TIMES = ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2016-12-31T23:59:60Z")
TEXTS = (
    "",
    "null",
    "\ufeff",
    "%00",
    "%ff",
    "+",
    "é",
    "1e5",
    "٣",
    "\u2028",
    "x" * 2100,
    "W/",
    "s3://",
)
odd = st.sampled_from(
    [None, True, 0, -1, 2**63, 2**64 - 1, 1.5, 1e308, [], {}, [[]], {"": {}}, *TIMES, *TEXTS]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        found += [p for name in value for p in places(value[name], (*path, name))]
    if isinstance(value, list):
        found += [p for n, item in enumerate(value) for p in places(item, (*path, n))]
    return found


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(copy[path[0]], path[1:], new)
    return copy


def check(raw: bytes, **options: Any) -> None:
    """Read it; everything that comes out can be stored, printed and looked up."""
    told = parse(raw, received_at=NOW, **options)
    for found in told.records:
        if isinstance(found, Refused):
            assert found.reason in REASONS
            assert found.field
            found.field.encode()
            found.text.encode()
        else:
            assert isinstance(found, Envelope)
            assert found.received_at == NOW
            change_key(found)
            assert b"\\u0000" not in output_json(found)
            found.event_time.astimezone(UTC)


@given(st.data(), st.sampled_from(DOCUMENTS), st.sampled_from([None, *PROVIDERS]))
def test_no_document_with_an_odd_value_raises(
    data: st.DataObject, document: Any, provider: str | None
):
    """Any field, any type, any extreme."""
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(document)))
        document = changed(document, path, data.draw(odd))
    check(json.dumps(document).encode(), provider=provider)


@given(st.data(), st.sampled_from(DOCUMENTS))
def test_no_damaged_document_raises(data: st.DataObject, document: Any):
    """Bytes are cut out, put in and swapped."""
    raw = bytearray(orjson.dumps(document))
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(raw)))
        length = data.draw(st.integers(0, 8))
        raw[at : at + length] = data.draw(
            st.binary(max_size=6)
            | st.sampled_from([b'"', b"\\", b"{", b"]", b"\\u0000", b"\\ud800", b"1e999", b"NaN"])
        )
    check(bytes(raw))


@given(
    st.dictionaries(
        st.sampled_from(["ce-specversion", "CE-id", "ce-type", "ce-source", "ce-time", "ce-data"])
        | st.just("content-type"),
        st.text(max_size=8)
        | st.sampled_from(["1.0", "%", "%00", "google.cloud.storage.object.v1"]),
    ),
    st.binary(max_size=40),
)
def test_no_headers_raise(headers: dict[str, str], body: bytes):
    check(body, headers={"ce-specversion": "1.0", "ce-id": "1", **headers})
    check(body, headers=headers)


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("time", TIMES)
def test_a_time_that_is_none_elsewhere_is_refused(document: Any, time: str):
    """The ledger keeps instants: one that has no name in UTC would stop a whole batch."""
    text = orjson.dumps(document).decode()
    for told in ("00.250Z", "00Z", "00.2500000Z", "00.250000Z"):
        text = text.replace(f"2026-05-01T12:00:{told}", time)
    check(text.encode())


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_documents_themselves_are_fine(document: Any):
    told = parse(orjson.dumps(document), received_at=NOW)
    assert told.records
    assert all(isinstance(r, Envelope) for r in told.records)
