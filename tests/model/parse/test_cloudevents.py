"""CloudEvents 1.0, read and written; the project's own library is the judge."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

import orjson
import pytest
from cloudevents.core.bindings.http import (
    HTTPMessage,
    from_binary_event,
    from_structured_event,
    to_binary_event,
    to_structured_event,
)
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from msgspec.structs import replace
from tests.model.parse.documents import (
    NOW,
    THEN_AT,
    cloudevent,
    grid,
    one,
    pushed,
    read,
    record,
    records,
    refused,
)

from headgate.model import cloudevent as written
from headgate.model.envelope import Envelope
from headgate.model.identity import change_key
from headgate.model.parse import parse

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def event(**more: Any) -> CloudEvent:
    attributes = {
        "specversion": "1.0",
        "id": "ce-1",
        "source": "https://shop.example/orders",
        "type": "example.order.placed",
        "subject": "17 ü",
        "time": THEN_AT,
        "datacontenttype": "application/json",
        **more,
    }
    return CloudEvent(attributes, {"total": 3})


def test_an_event_that_is_about_no_object_carries_its_own_bytes():
    """Its uri is what it is about; its data is what there is to read."""
    e = one(cloudevent(traceparent=TRACE, partitionkey="p", sequence="5", sequencetype="Integer"))
    assert (e.provider, e.detector, e.source) == ("webhook", "event", "example.order.placed")
    assert (e.uri, e.event_id) == ("cloudevent:https://shop.example/orders/17", "ce-1")
    assert (e.data, e.content_type, e.size) == (b'{"total":3}', "application/json", 11)
    assert (e.event_time, e.clock, e.trace) == (THEN_AT, "producer", TRACE)
    assert (e.partition, e.sequence) == ("p", "0000000000000000005")


def test_source_and_subject_never_run_into_each_other():
    one_way = cloudevent(source="/a/b", subject="c")
    other = cloudevent(source="/a", subject="b/c")
    assert one(one_way).uri != one(other).uri
    assert one(cloudevent(subject=None)).uri.endswith("/ce-1")


@pytest.mark.parametrize(
    ("more", "data"),
    [
        ({"data": None, "data_base64": base64.b64encode(b"\0\xff").decode()}, b"\0\xff"),
        ({"datacontenttype": "text/plain", "data": "häy"}, "häy".encode()),
        ({"datacontenttype": "application/x+json; a=b", "data": "x"}, b'"x"'),
        ({"datacontenttype": None, "data": [1]}, b"[1]"),
        ({"data": None}, None),
    ],
)
def test_data_comes_in_every_form(more: dict[str, Any], data: bytes | None):
    assert one(cloudevent(**more)).data == data


def test_what_the_library_writes_is_read_in_every_mode():
    """Structured, in headers and in an array: the same envelope."""
    structured = to_structured_event(event(), JSONFormat())
    binary = to_binary_event(event(), JSONFormat())
    told = one(structured.body, headers=structured.headers)
    in_headers = one(binary.body, headers=binary.headers)
    assert in_headers.data == binary.body, "a body is kept as it came"
    assert replace(in_headers, data=told.data, size=told.size) == told
    assert told.uri == "cloudevent:https://shop.example/orders/17%20%C3%BC"
    batch = b"[%b,%b]" % (structured.body, structured.body)
    assert read(batch).records == [told, told]


def envelopes() -> list[Envelope]:
    documents = [records(record("a+%C3%BC.csv", versionId="v")), pushed(), grid(), cloudevent()]
    return [one(d) for d in documents] + [one(cloudevent(traceparent=TRACE))]


@pytest.mark.parametrize("envelope", envelopes(), ids=lambda e: e.provider)
def test_what_we_write_the_library_reads(envelope: Envelope):
    """Both modes are CloudEvents by the rules of their own project."""
    from_body = from_structured_event(
        HTTPMessage({"content-type": written.CONTENT_TYPE}, written.structured(envelope)),
        JSONFormat(),
    )
    headers, body = written.binary(envelope)
    from_headers = from_binary_event(HTTPMessage(headers, body), JSONFormat())
    for found in (from_body, from_headers):
        assert found.get_id() == change_key(envelope).hex()
        assert found.get_subject() == envelope.uri
        assert found.get_time() == envelope.event_time
        assert found.get_type() == f"headgate.object.{envelope.kind}.v1"
        data = found.get_data()
        assert isinstance(data, dict)
        assert data["uri"] == envelope.uri


@pytest.mark.parametrize("envelope", envelopes(), ids=lambda e: e.provider)
def test_what_we_write_we_read_back(envelope: Envelope):
    """Another Headgate gets the envelope that was sent, with the time it heard of it."""
    later = datetime.fromisoformat("2026-05-02T00:00:00+00:00")
    headers, body = written.binary(envelope)
    read_back = [
        *parse(written.structured(envelope), received_at=NOW).records,
        *parse(body, headers=headers, received_at=NOW).records,
        *parse(written.batch([envelope, envelope]), received_at=NOW).records,
    ]
    assert read_back == [envelope] * 4
    told = parse(written.structured(envelope), received_at=later).records[0]
    assert isinstance(told, Envelope)
    assert told.received_at == later


@pytest.mark.parametrize(
    ("document", "reason", "field"),
    [
        (cloudevent(specversion="0.3"), "unknown_version", "specversion"),
        (cloudevent(specversion="2.0"), "unknown_version", "specversion"),
        (cloudevent(id=""), "missing_field", "id"),
        (cloudevent(source=None), "missing_field", "source"),
        (cloudevent(time="noon"), "bad_time", "time"),
        (cloudevent(data_base64="e30="), "contradiction", "data_base64"),
        (cloudevent(data=None, data_base64="%"), "bad_base64", "data_base64"),
        (cloudevent(sequence="x", sequencetype="Integer"), "out_of_range", "sequence"),
        (cloudevent(sequence="x" * 300), "too_long", "sequence"),
        (cloudevent(subject="é" * 700), "uri_too_long", "subject"),
        (cloudevent(id="x" * 1025), "too_long", "event_id"),
        (cloudevent("headgate.object.created.v1", data=5), "wrong_type", "data"),
    ],
)
def test_what_is_wrong_is_named(document: Any, reason: str, field: str):
    assert refused(document) == (reason, field)
    first, second = read([document, cloudevent()]).records
    assert not isinstance(first, Envelope)
    assert isinstance(second, Envelope)


def test_headers_are_as_suspect_as_bodies():
    """Half a surrogate, a NUL, bytes that are no UTF-8: none gets in through a header."""
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "/s"}
    assert one(b"x", headers=headers).data == b"x"
    for wrong, reason in (("%00", "nul"), ("%FF", "invalid_utf8"), ("\ud800", "invalid_utf8")):
        assert refused(b"x", headers=headers | {"ce-subject": wrong}) == (reason, "ce-subject")
    assert refused(b"x", headers=headers | {"content-type": "\ud800"})[0] == "invalid_utf8"
    assert refused(b"x" * 9, headers=headers, limit_bytes=8)[0] == "too_large"
    assert refused(b"x", headers=headers, provider="s3")[0] == "unknown_shape"
    assert refused(b"x", headers={**headers, "ce-type": "headgate.object.created.v1"}) == (
        "not_json",
        "data",
    )


def test_one_broken_event_in_a_batch_costs_only_itself():
    broken = orjson.dumps(cloudevent()).replace(b"3}", b"1e400}")
    good = orjson.dumps(cloudevent())
    first, second = read(b"[%b,%b]" % (broken, good)).records
    assert not isinstance(first, Envelope)
    assert (first.reason, first.field) == ("float_too_large", "[0].data.total")
    assert isinstance(second, Envelope)
