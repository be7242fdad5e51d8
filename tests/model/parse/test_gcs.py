"""Google Cloud Storage, by Pub/Sub and as CloudEvents."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from tests.model.parse.documents import (
    MD5,
    THEN_AT,
    cloudevent,
    one,
    pushed,
    read,
    refused,
    resource,
)

from headgate.model.identity import change_key, is_newer, occurrence

GENERATION = "1777636800000001"
TYPE = "google.cloud.storage.object.v1."


def eventarc(kind: str = "finalized", **more: Any) -> dict[str, Any]:
    return cloudevent(
        TYPE + kind,
        source="//storage.googleapis.com/projects/_/buckets/rain",
        subject="objects/in/a b.csv",
        data=resource(**more),
    )


def test_a_push_becomes_an_envelope():
    """Attributes say what happened, the data says to what."""
    e = one(pushed())
    assert (e.provider, e.kind, e.source) == ("gcs", "created", "gcs:OBJECT_FINALIZE")
    assert (e.uri, e.event_id) == ("gs://rain/in/a%20b.csv", "ps-1")
    assert (e.version_id, e.strength, occurrence(e)) == (
        GENERATION,
        "immutable",
        ("version", GENERATION),
    )
    assert (e.size, e.md5, e.content_type) == (17, MD5, "text/csv")
    assert (e.event_time, e.clock) == (THEN_AT, "producer")


def test_the_attributes_are_enough():
    """A notification may be told to carry no payload."""
    e = one(pushed(data=None))
    assert (e.uri, e.version_id, e.size) == ("gs://rain/in/a%20b.csv", GENERATION, None)


def test_both_ways_tell_the_same_change():
    push, event = one(pushed()), one(eventarc())
    assert change_key(push) == change_key(event)
    assert (push.uri, push.sequence, push.md5) == (event.uri, event.sequence, event.md5)


@pytest.mark.parametrize(
    ("push", "event"),
    [("OBJECT_DELETE", "deleted"), ("OBJECT_ARCHIVE", "archived")],
)
def test_a_generation_that_went_is_removed_and_comes_after_it_came(push: str, event: str):
    """Same generation, another change; and the next generation comes after both."""
    made = one(pushed())
    for gone in (one(pushed(push)), one(eventarc(event))):
        assert gone.kind == "removed"
        assert change_key(gone) != change_key(made)
        later = one(pushed(objectGeneration="1777636800000002", data=None))
        told = [(e.sequence, e.event_time, 0) for e in (made, gone, later)]
        assert is_newer(*told[1], *told[0])
        assert is_newer(*told[2], *told[1])


def test_an_overwritten_generation_is_no_removal():
    """The object is there; the new generation tells of itself."""
    for event in ("OBJECT_DELETE", "OBJECT_ARCHIVE"):
        told = read(pushed(event, overwrittenByGeneration="1777636800000002"))
        assert (told.records, told.ignored) == ([], [f"gcs:{event}"])


def test_a_change_of_metadata_is_ignored():
    assert read(pushed("OBJECT_METADATA_UPDATE")).ignored == ["gcs:OBJECT_METADATA_UPDATE"]
    assert read(eventarc("metadataUpdated")).ignored == ["gcs:OBJECT_METADATA_UPDATE"]


@pytest.mark.parametrize(
    ("document", "clock", "second"),
    [
        (pushed(eventTime=None), "object", 59),
        (pushed(data=None, eventTime=None), "notification", 1),
    ],
)
def test_the_best_clock_there_is_tells_the_time(document: Any, clock: str, second: int):
    e = one(document)
    assert (e.clock, e.event_time.second) == (clock, second)


def test_without_any_clock_it_is_when_we_heard():
    document = pushed(data=None, eventTime=None)
    del document["message"]["publishTime"]
    e = one(document)
    assert (e.clock, e.event_time) == ("received", datetime(2026, 5, 1, 12, 0, 5, tzinfo=UTC))


@pytest.mark.parametrize(
    ("document", "reason", "field"),
    [
        (pushed("OBJECT_EATEN"), "unknown_event", "message.attributes.eventType"),
        (pushed(bucketId=None), "missing_field", "message.attributes.bucketId"),
        (pushed(objectGeneration="x"), "contradiction", "message.attributes.objectGeneration"),
        (
            pushed(objectGeneration="x", data=None),
            "out_of_range",
            "message.attributes.objectGeneration",
        ),
        (pushed(objectId="in/other"), "contradiction", "message.attributes.objectId"),
        (pushed(eventTime="noon"), "bad_time", "message.attributes.eventTime"),
        (pushed(data=b'{"a":NaN}'), "not_a_number", "message.data.a"),
        (pushed(data=b'{"size":"-1"}'), "wrong_type", "message.data.size"),
        ({"message": {"attributes": {}, "data": "!"}}, "bad_base64", "message.data"),
        ({"message": {"attributes": {}}}, "missing_field", "message.attributes.eventType"),
        ({"message": {"data": "e30="}}, "missing_field", "message.attributes"),
        (eventarc(generation=None), "missing_field", "data.generation"),
        (eventarc(updated="x"), "bad_time", "data.updated"),
    ],
)
def test_what_is_wrong_is_named(document: Any, reason: str, field: str):
    assert refused(document) == (reason, field)
    assert refused(document, provider="gcs") == (reason, field)


def test_a_push_of_gcs_carries_nothing_else():
    """Who may push for Google may not speak for S3, or for anybody."""
    for document in (cloudevent(), {"Records": []}, {"uri": "s3://a/b"}):
        assert read(document, provider="gcs").records
        assert refused(document, provider="gcs")[0] in ("unknown_shape", "unknown_event")


def test_eventarc_speaks_in_headers():
    """The binary mode: the context in headers, the object in the body."""
    event = eventarc()
    body = orjson.dumps(event.pop("data"))
    headers = {"Content-Type": event.pop("datacontenttype")}
    headers |= {f"CE-{name}": value.replace(" ", "%20") for name, value in event.items()}
    assert one(body, headers=headers, provider="gcs") == one(eventarc())
