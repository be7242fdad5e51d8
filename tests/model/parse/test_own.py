"""Our own JSON, and the small envelopes that people write by hand."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.parse.documents import (
    MD5,
    NOW,
    blob,
    grid,
    one,
    pushed,
    read,
    record,
    records,
    refused,
    sns,
)

from headgate.model.envelope import Envelope
from headgate.model.identity import change_key, occurrence
from headgate.model.output import output, output_json

# The two forms of the documents that Headgate was specified by, as they stand there.
BUCKET_AND_KEY = b"""\
{
  "event_id": "<uuid>",
  "source": "s3:ObjectCreated:Put",
  "bucket": "kfm-ingest",
  "key": "datasets/soil/2025/12/06/file.parquet",
  "etag": "abc123",
  "version_id": "3Lg..",
  "size": 1048576,
  "event_time": "2025-12-06T02:15:00Z",
  "idempotency_key": "<sha256(bucket,key,etag,version_id,size)>",
  "trace_id": "<otel-trace-id>"
}
"""
DETECTED = b"""\
{
  "source": "s3|gcs|azure|http",
  "uri": "s3://bucket/key|https://example/data.tif",
  "version_hint": "object-version-or-etag-or-cursor",
  "event_id": "provider-unique-id",
  "detector": "event|etag|manifest",
  "received_at": "2025-12-16T00:00:00Z",
  "metadata": {
    "content_length": 123456,
    "content_type": "image/tiff"
  }
}
"""


def test_an_envelope_with_bucket_and_key_is_read_as_it_stands():
    """The uri follows from bucket and key; the sender's key is kept, ours counts."""
    e = one(BUCKET_AND_KEY)
    assert e.uri == "s3://kfm-ingest/datasets/soil/2025/12/06/file.parquet"
    assert (e.provider, e.source, e.kind) == ("s3", "s3:ObjectCreated:Put", "created")
    assert (e.size, e.etag, occurrence(e)) == (1_048_576, "abc123", ("version", "3Lg.."))
    assert (e.event_time.isoformat(), e.clock) == ("2025-12-06T02:15:00+00:00", "producer")
    assert e.metadata["sender_key"] == "<sha256(bucket,key,etag,version_id,size)>"
    said = output(e)
    assert said["trace_id"] == "<otel-trace-id>"
    assert (said["bucket"], said["key"]) == ("kfm-ingest", "datasets/soil/2025/12/06/file.parquet")


def test_what_a_detector_puts_out_is_read_as_it_stands():
    """The provider follows from the uri, size and type from the metadata."""
    e = one(DETECTED)
    assert (e.provider, e.detector, e.event_id) == ("s3", "event", "provider-unique-id")
    assert (e.size, e.content_type) == (123_456, "image/tiff")
    assert (e.version_hint, e.strength) == ("object-version-or-etag-or-cursor", "none")
    assert (e.event_time.isoformat(), e.clock) == ("2025-12-16T00:00:00+00:00", "notification")
    assert (e.received_at, e.metadata) == (NOW, {"detector": "event|etag|manifest"})


@pytest.mark.parametrize(
    ("told", "provider", "uri"),
    [
        ({"source": "s3", "uri": "s3://a/b c"}, "s3", "s3://a/b%20c"),
        ({"source": "gcs", "uri": "gs://a/b"}, "gcs", "gs://a/b"),
        ({"source": "x", "uri": "gs://a/b"}, "gcs", "gs://a/b"),
        ({"source": "x", "uri": "https://e.example/a?b"}, "http", "https://e.example/a?b"),
        ({"source": "x", "uri": blob()["url"]}, "azure", blob()["url"]),
        ({"source": "x", "uri": "file:///a"}, "file", "file:///a"),
        ({"source": "x", "uri": "order:17"}, "webhook", "order:17"),
        ({"source": "gcs:x", "bucket": "a", "key": "b+c"}, "gcs", "gs://a/b+c"),
        ({"source": "x", "bucket": "a", "key": "b c"}, "s3", "s3://a/b%20c"),
    ],
)
def test_the_small_form_says_who_is_meant(told: dict[str, str], provider: str, uri: str):
    e = one({"event_id": "1", **told})
    assert (e.provider, e.uri, e.clock) == (provider, uri, "received")


def test_the_small_form_knows_a_removal_by_its_name():
    told = {"event_id": "1", "source": "s3:ObjectRemoved:Delete", "uri": "s3://a/b"}
    assert one(told).kind == "removed"
    assert one(told | {"version_id": "v"}).strength == "none"


def test_the_small_form_normalises_its_etag():
    told = {"event_id": "1", "source": "s3", "uri": "s3://a/b", "etag": f'W/"{MD5}"'}
    e = one(told)
    assert (e.etag, e.strength, e.md5, e.metadata) == (
        MD5,
        "weak",
        MD5,
        {"raw_etag": f'W/"{MD5}"'},
    )
    assert one(told | {"version_id": "null"}).version_id is None


DOCUMENTS = [records(record("a+%C3%BC", versionId="v")), pushed(), grid(), BUCKET_AND_KEY, DETECTED]


@pytest.mark.parametrize("document", DOCUMENTS, ids=["s3", "gcs", "azure", "small", "detected"])
def test_what_is_printed_is_read_again_as_the_same(document: Any):
    """With bucket, key, trace id and the key in it."""
    e = one(document)
    assert one(output_json(e)) == e
    assert one(output_json(e), provider="headgate") == e
    assert one(e.json()) == e
    assert output(one(output_json(e)))["idempotency_key"] == change_key(e).hex()


FULL = orjson.loads(output_json(one(records(record()))))


@pytest.mark.parametrize(
    ("change", "reason", "field"),
    [
        ({"etga": "x"}, "unknown_field", "etga"),
        ({"event_id": None}, "missing_field", "event_id"),
        ({"event_id": ""}, "missing_field", "event_id"),
        ({"event_id": "x" * 1025}, "too_long", "event_id"),
        ({"detector": "guess"}, "out_of_range", "detector"),
        ({"provider": "ftp"}, "out_of_range", "provider"),
        ({"provider": None, "source": None}, "missing_field", "source"),
        ({"size": -1}, "out_of_range", "size"),
        ({"size": "1"}, "wrong_type", "size"),
        ({"event_time": "2026-05-01"}, "bad_time", "event_time"),
        ({"received_at": "soon"}, "bad_time", "received_at"),
        ({"data": "%%%"}, "bad_base64", "data"),
        ({"metadata": {"a": 1.5}}, "wrong_type", "metadata"),
        ({"metadata": 5}, "wrong_type", "metadata"),
        ({"uri": 5}, "wrong_type", "uri"),
        ({"uri": "s3://a/" + "b" * 2000, "bucket": None, "key": None}, "uri_too_long", "uri"),
        ({"uri": "s3://a/%FF", "bucket": None, "key": None}, "bad_key", "uri"),
        ({"uri": "s3://a/%00", "bucket": None, "key": None}, "nul", "uri"),
        ({"bucket": "other"}, "contradiction", "bucket"),
        ({"key": "other"}, "contradiction", "key"),
        ({"uri": None, "key": None}, "unknown_shape", "$"),
        ({"bucket": 5}, "wrong_type", "bucket"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], reason: str, field: str):
    """Strict: a misspelt field is an error, not a loss."""
    document = {n: v for n, v in {**FULL, **change}.items() if v is not None}
    assert refused(document) == (reason, field)


def test_several_in_an_array_or_in_sns_are_read_too():
    first, second = read([FULL, orjson.loads(BUCKET_AND_KEY)]).records
    assert isinstance(first, Envelope)
    assert isinstance(second, Envelope)
    assert one(sns(FULL)) == first


def test_a_trace_comes_with_the_message_of_sns():
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    attributes = {"traceparent": {"Type": "String", "Value": trace}}
    e = one(sns(records(record()), MessageAttributes=attributes))
    assert (e.trace, output(e)["trace_id"]) == (trace, "4bf92f3577b34da6a3ce929d0e0e4736")
    wrong = {"traceparent": {"Type": "String", "Value": "x"}}
    assert one(sns(records(record()), MessageAttributes=wrong)).trace is None


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1))
def test_any_key_comes_back_from_its_uri(key: str):
    """Bucket and key on output are what the store has, whatever characters they hold."""
    told = {"event_id": "1", "source": "s3", "bucket": "rain", "key": key}
    parsed = read(told).records[0]
    if isinstance(parsed, Envelope):
        said = output(parsed)
        assert (said["bucket"], said["key"]) == ("rain", key)
        assert one(output_json(parsed)).uri == parsed.uri
    else:
        assert parsed.reason == "uri_too_long"
