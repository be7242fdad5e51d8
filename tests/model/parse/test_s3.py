"""Notifications of S3 and of those who speak like it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.parse.documents import (
    MD5,
    NOW,
    THEN_AT,
    bridged,
    one,
    read,
    record,
    records,
    refused,
    sns,
)

from headgate.model.envelope import Envelope, Refused
from headgate.model.identity import change_key, occurrence
from headgate.model.parse import s3


def test_a_notification_becomes_an_envelope():
    """What S3 says is all there, in its place."""
    e = one(records(record()))
    assert (e.provider, e.detector, e.kind) == ("s3", "event", "created")
    assert (e.uri, e.source, e.event_id) == ("s3://rain/in/a.csv", "s3:ObjectCreated:Put", "REQ1")
    assert (e.etag, e.md5, e.version_hint, e.strength) == (MD5, MD5, MD5, "strong")
    assert (e.size, e.version_id, e.sequence) == (17, None, "00663230AB12")
    assert (e.event_time, e.clock, e.received_at) == (THEN_AT, "producer", NOW)
    assert e.metadata == {"region": "eu-central-1"}


def test_every_way_of_delivery_tells_the_same_change():
    """Direct, wrapped by SNS, raw by SNS or by EventBridge: one key, one change."""
    direct = one(records(record()))
    wrapped = one(sns(records(record())))
    bridge = one(bridged())
    assert wrapped == direct
    assert change_key(bridge) == change_key(direct)
    assert (bridge.uri, bridge.etag, bridge.source) == (direct.uri, direct.etag, direct.source)


def test_an_event_of_eventbridge_may_come_through_a_queue_in_sns():
    assert one(sns(bridged())) == one(bridged())


def test_minio_speaks_the_same():
    """Its names begin with `s3:`, its source with `minio`, and it says the key twice."""
    told = record("in%2Fa.csv", "s3:ObjectCreated:Put")
    told |= {"eventSource": "minio:s3", "eventVersion": "2.0", "awsRegion": ""}
    document = {"EventName": "s3:ObjectCreated:Put", "Key": "rain/in/a.csv", "Records": [told]}
    for provider in (None, "minio", "s3"):
        e = one(document, provider=provider)
        assert (e.uri, e.source, e.metadata) == ("s3://rain/in/a.csv", "s3:ObjectCreated:Put", {})


@pytest.mark.parametrize(
    ("told", "key", "uri"),
    [
        ("a+b.csv", "a b.csv", "s3://rain/a%20b.csv"),
        ("a%2Bb.csv", "a+b.csv", "s3://rain/a+b.csv"),
        ("a%2520b", "a%20b", "s3://rain/a%2520b"),
        ("%F0%9F%8C%A7.csv", "🌧.csv", "s3://rain/%F0%9F%8C%A7.csv"),
        ("caf%C3%A9", "caf\u00e9", "s3://rain/caf%C3%A9"),
        ("cafe%CC%81", "cafe\u0301", "s3://rain/cafe%CC%81"),
        ("%2Fa%2F%2Fb", "/a//b", "s3://rain//a//b"),
        ("dt%3D2026-05-01/x", "dt=2026-05-01/x", "s3://rain/dt=2026-05-01/x"),
        ("what%3F%23", "what?#", "s3://rain/what%3F%23"),
        ("in/already plain", "in/already plain", "s3://rain/in/already%20plain"),
    ],
)
def test_a_key_is_unquoted_and_its_uri_is_unambiguous(told: str, key: str, uri: str):
    """A space is not a plus, an accent is not two characters."""
    from headgate.model.uri import split_uri

    e = one(records(record(told)))
    assert e.uri == uri
    assert split_uri(e.uri) == ("rain", key)
    assert one(bridged(key=key)).uri == uri, "EventBridge does not encode keys"


@pytest.mark.parametrize("version", [None, "", "null"])
def test_no_version_is_no_version(version: str | None):
    """A bucket without versions says nothing, or the word null."""
    for document in (
        records(record(versionId=version)),
        bridged("Object Created", **{"version-id": version}),
    ):
        e = one(document)
        assert (e.version_id, e.strength, occurrence(e)[0]) == (None, "strong", "sequence")


def test_json_null_is_no_version():
    told = record()
    told["s3"]["object"]["versionId"] = None
    assert one(records(told)).version_id is None


def test_a_version_is_immutable():
    """It is the occurrence, whatever the ETag."""
    e = one(records(record(versionId="3LgV")))
    assert (e.version_id, e.version_hint, e.strength) == ("3LgV", "3LgV", "immutable")
    assert occurrence(e) == ("version", "3LgV")


def test_a_delete_is_removed():
    e = one(records(record(name="ObjectRemoved:Delete", size=None, eTag=None)))
    assert (e.kind, e.strength, e.etag, e.size) == ("removed", "none", None, None)


def test_a_delete_marker_is_removed_and_has_a_version_of_its_own():
    told = record(name="ObjectRemoved:DeleteMarkerCreated", versionId="mark", size=None)
    e = one(records(told))
    assert (e.kind, occurrence(e)) == ("removed", ("version", "mark"))
    bridge = {"deletion-type": "Delete Marker Created", "reason": "DeleteObject"}
    b = one(bridged("Object Deleted", **{"version-id": "mark"}, detail=bridge))
    assert (b.kind, b.source, change_key(b)) == ("removed", e.source, change_key(e))


def test_removing_a_version_is_another_change_than_making_it():
    """Both name the version; were it the key, the removal would be taken for a repetition."""
    made = one(records(record(versionId="v1")))
    gone = one(
        records(record(name="ObjectRemoved:Delete", versionId="v1", sequencer="00663230AB13"))
    )
    assert change_key(made) != change_key(gone)
    assert (gone.version_id, gone.metadata["removed"]) == ("v1", "version")
    expired = one(records(record(name="LifecycleExpiration:Delete", versionId="v1")))
    assert expired.kind == "removed"


def test_a_test_event_is_counted_and_is_no_error():
    document = {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "rain", "Time": "x"}
    for shown in (document, sns(document)):
        told = read(shown)
        assert (told.records, told.tests) == ([], 1)


@pytest.mark.parametrize(
    "name",
    [
        "ObjectRestore:Completed",
        "ObjectTagging:Put",
        "ObjectAcl:Put",
        "Replication:OperationFailedReplication",
        "LifecycleTransition",
        "IntelligentTiering",
        "s3:ObjectAccessed:Get",
        "s3:ObjectCreated:PutTagging",
    ],
)
def test_an_event_that_is_not_about_the_content_is_ignored_and_named(name: str):
    """It is acknowledged, counted, and costs its neighbours nothing."""
    told = read(records(record(), record(name=name), record("in/b.csv")))
    assert told.ignored == [f"s3:{name.removeprefix('s3:')}"]
    assert [e.uri for e in told.records if isinstance(e, Envelope)] == [
        "s3://rain/in/a.csv",
        "s3://rain/in/b.csv",
    ]


def test_eventbridge_too_names_what_it_ignores():
    assert read(bridged("Object Tags Added")).ignored == ["s3:Object Tags Added"]


hexes = st.text("0123456789ABCDEF", min_size=1, max_size=24)


@given(hexes, hexes)
def test_sequencers_sort_as_if_padded_with_zeros_on_the_right(a: str, b: str):
    """The rule of S3, kept by plain text: what the ledger compares."""
    width = max(len(a), len(b))
    left, right = a.ljust(width, "0"), b.ljust(width, "0")
    x, y = s3.sequence(a), s3.sequence(b.lower())
    assert (x < y, x == y) == (left < right, left == right)


def test_an_older_event_has_the_smaller_sequence():
    told = ["0066", "00663", "0066320A", "0067"]
    sequences = [one(records(record(sequencer=s))).sequence or "" for s in told]
    assert all(a < b for a, b in pairwise(sequences))


@pytest.mark.parametrize(
    ("etag", "value", "md5", "strength"),
    [
        (f'"{MD5}"', MD5, MD5, "strong"),
        (MD5.upper(), MD5.upper(), MD5, "strong"),
        (f"{MD5}-12", f"{MD5}-12", None, "strong"),
        (f'W/"{MD5}"', MD5, MD5, "weak"),
        ('"abc-gzip"', "abc", None, "strong"),
    ],
)
def test_an_etag_is_normalised_and_kept_as_it_came(
    etag: str, value: str, md5: str | None, strength: str
):
    """Quotes, W/ and -gzip are trimmings; an upload in parts has no MD5."""
    e = one(records(record(eTag=etag)))
    assert (e.etag, e.md5, e.strength) == (value, md5, strength)
    assert e.metadata.get("raw_etag", e.etag) == etag


@pytest.mark.parametrize(
    ("change", "reason", "field"),
    [
        ({"eventVersion": "3.0"}, "unknown_version", "eventVersion"),
        ({"eventVersion": "20.1"}, "unknown_version", "eventVersion"),
        ({"eventSource": "aws:sqs"}, "unknown_source", "eventSource"),
        ({"eventName": "ObjectEaten:Raw"}, "unknown_event", "eventName"),
        ({"eventTime": "yesterday"}, "bad_time", "eventTime"),
        ({"eventTime": "2026-05-01T12:00:00"}, "bad_time", "eventTime"),
        ({"eventTime": 5}, "wrong_type", "eventTime"),
        ({"s3": None}, "wrong_type", "s3"),
        ({"object": {"key": ""}}, "missing_field", "s3.object.key"),
        ({"object": {"key": None}}, "wrong_type", "s3.object.key"),
        ({"object": {"size": -1}}, "out_of_range", "s3.object.size"),
        ({"object": {"size": 2**63}}, "out_of_range", "s3.object.size"),
        ({"object": {"size": "17"}}, "wrong_type", "s3.object.size"),
        ({"object": {"sequencer": "xyz"}}, "bad_sequencer", "s3.object.sequencer"),
        ({"object": {"sequencer": "0" * 129}}, "too_long", "s3.object.sequencer"),
        ({"object": {"key": "%FF%FE"}}, "bad_key", "s3.object.key"),
        ({"object": {"key": "a%00b"}}, "nul", "s3.object.key"),
        ({"object": {"key": "%20" * 700}}, "uri_too_long", "s3.object.key"),
    ],
)
def test_a_bad_record_is_refused_by_name_and_costs_its_neighbours_nothing(
    change: dict[str, Any], reason: str, field: str
):
    """The reason is stable, the field is the way to it, and what is kept can be read again."""
    wrong = record()
    about = change.pop("object", {})
    wrong.update(change)
    if wrong["s3"]:
        wrong["s3"]["object"].update(about)
    told = read(records(record(), wrong, record("in/b.csv")))
    first, middle, last = told.records
    assert isinstance(first, Envelope)
    assert isinstance(last, Envelope)
    assert isinstance(middle, Refused)
    assert (middle.reason, middle.field) == (reason, f"Records[1].{field}")
    assert refused(middle.raw) == (reason, f"Records[0].{field}")
    assert refused(sns(records(wrong))) == (reason, f"Message.Records[0].{field}")


@pytest.mark.parametrize("minor", ["2.0", "2.1", "2.3", "2.17"])
def test_a_newer_minor_version_is_understood(minor: str):
    assert one(records(record() | {"eventVersion": minor}))


def test_a_record_without_an_id_or_an_order_is_still_the_same_when_told_again():
    told = record(sequencer=None) | {"responseElements": {}}
    first, again = one(records(told)), one(records(told))
    assert first.event_id.startswith("sha256:")
    assert change_key(first) == change_key(again)
    later = told | {"eventTime": "2026-05-02T12:00:00Z"}
    assert change_key(first) != change_key(one(records(later)))


def test_two_buckets_never_share_a_uri():
    """A slash in the name of a bucket is not the one in front of the key."""
    one_way, other = record("c"), record("b/c")
    one_way["s3"]["bucket"]["name"] = "a/b"
    other["s3"]["bucket"]["name"] = "a"
    assert one(records(one_way)).uri != one(records(other)).uri


def test_no_records_are_nothing():
    assert read(records()).records == []
    assert refused({"Records": {}}) == ("wrong_type", "Records")


def test_the_order_of_names_and_spaces_changes_nothing():
    """Fast or careful, the result is the same."""
    told = records(record(), record("in/b+c.csv", versionId="v"))
    shuffled = orjson.loads(orjson.dumps(told, option=orjson.OPT_SORT_KEYS))
    spaced = orjson.dumps(told, option=orjson.OPT_INDENT_2)
    assert read(told).records == read(shuffled).records == read(spaced).records
