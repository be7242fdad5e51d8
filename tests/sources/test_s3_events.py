"""What a message says about an object becomes what the source tells, and no more than was asked."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.aws.emulator import Aws
from tests.aws.mail import notification

import headgate as hg
from headgate.errors import ConfigError, ObjectMissing, PipelineError
from headgate.model.envelope import Refused
from headgate.model.identity import change_key
from headgate.model.ports import Delivery, Wired

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIFO = {"MessageGroupId": "north", "SequenceNumber": "18849496460467696128"}


def delivery(body: Any, **attributes: str) -> Delivery:
    return Delivery("m", json.dumps(body).encode(), "h", attributes=attributes)


def told(source: hg.S3Events, body: Any, **attributes: str) -> list[hg.Envelope]:
    found = source.read(delivery(body, **attributes), NOW)
    assert not any(isinstance(one, Refused) for one in found)
    return [one for one in found if isinstance(one, hg.Envelope)]


def test_it_is_a_wired_source_named_after_its_queue():
    """In metrics and in the ledger it is found under the queue's name."""
    arn = "arn:aws:sqs:eu-central-1:111122223333:uploads.fifo"
    source = hg.S3Events(queue=arn)
    assert isinstance(source, Wired)
    assert source.name == "uploads.fifo"
    source.check()


def test_bucket_prefix_and_suffix_choose():
    """An object of any other place is left alone, however it is spelled."""
    source = hg.S3Events(queue="q", bucket="b", prefix="in/", suffix=(".csv", ".json"))
    wanted = ["in/a.csv", "in/deep/b.json", "in/+%2B.csv"]
    others = ["a.csv", "in/a.txt", "IN/a.csv", "in/a.csv/", "xin/a.csv"]
    for key in wanted + others:
        assert len(told(source, notification("b", key))) == (key in wanted), key
    assert told(source, notification("c", "in/a.csv")) == []
    assert source.owns("s3://b/in/a.csv")
    assert not source.owns("s3://c/in/a.csv")
    assert not source.owns("gs://b/in/a.csv")
    assert not source.owns("https://b/in/a.csv")


def test_a_fifo_message_without_a_sequencer_is_ordered_by_its_queue():
    """Group and number of the queue become subject and sequence."""
    both = notification("b", "a")
    both["Records"] += both["Records"]
    first, second = told(hg.S3Events(queue="q.fifo"), both, **FIFO)
    assert first.subject == second.subject == "north"
    assert first.sequence == FIFO["SequenceNumber"]
    assert first.sequence is not None
    assert second.sequence is not None
    assert first.sequence < second.sequence < str(int(FIFO["SequenceNumber"]) + 1)
    assert change_key(first) != change_key(second), "two records are two changes"


def test_a_sequencer_of_s3_stays_and_makes_a_late_repetition_the_same_change():
    """Sent again after SQS forgot it, the event has another number and is still a duplicate."""
    source = hg.S3Events(queue="q.fifo")
    event = notification("b", "a", sequencer="0055AED6DCD90281E5")
    (first,) = told(source, event, **FIFO)
    (again,) = told(source, event, **FIFO | {"SequenceNumber": "18849496460467700000"})
    assert first.subject == "north"
    assert first.sequence == "0055AED6DCD90281E5"
    assert change_key(first) == change_key(again)


def test_whatever_comes_nothing_is_raised():
    """What cannot be read is told as refused, with its bytes."""
    for body in (b"", b"\xff", b"[", b"{}", b"null", b'{"Records":[{}]}', b"[" * 100_000):
        found = hg.S3Events(queue="q").read(Delivery("m", body, "h"), NOW)
        assert all(isinstance(one, Refused) for one in found)
        assert found, body[:20]


def test_a_declaration_that_cannot_work_is_refused():
    """Before anything is started."""
    with pytest.raises(ConfigError, match="cannot be a queue"):
        hg.S3Events(queue="no queue")
    with pytest.raises(PipelineError, match="its own dead letter queue"):
        hg.S3Events(queue="q", dead_letters="q")
    with pytest.raises(PipelineError, match="ack='sometimes'"):
        hg.S3Events(queue="q", ack="sometimes")  # pyright: ignore[reportArgumentType]


def test_an_object_is_read_as_it_was_told(aws: Aws):
    """By its version; without versions, as it is now: the news of that is on its way."""
    s3, source = aws.client("s3"), hg.S3Events(queue="q")
    plain, versioned = aws.bucket(), aws.bucket(versions=True)
    key = "a b+ü%.csv"
    for bucket in (plain, versioned):
        tags: list[Any] = []
        for body in (b"1", b"2"):
            put = s3.put_object(Bucket=bucket, Key=key, Body=body)
            about = {"eTag": put["ETag"].strip('"')}
            if "VersionId" in put:
                about["versionId"] = put["VersionId"]
            tags += told(source, notification(bucket, "a+b%2B%C3%BC%25.csv", **about))
        first, second = tags
        assert b"".join(source.fetch(second)) == b"2"
        assert b"".join(source.fetch(first)) == (b"1" if bucket == versioned else b"2")
        s3.delete_object(Bucket=plain, Key=key)
    with pytest.raises(ObjectMissing):
        b"".join(source.fetch(told(source, notification(plain, "gone"))[0]))


def test_a_version_that_expires_takes_nothing_back():
    """Lifecycle rules delete old versions; what readers see is still there."""
    source = hg.S3Events(queue="q")
    gone = notification("b", "a.csv", versionId="v1")
    gone["Records"][0]["eventName"] = "ObjectRemoved:Delete"
    assert told(source, gone) == []
    marked = notification("b", "a.csv", versionId="v2")
    marked["Records"][0]["eventName"] = "ObjectRemoved:DeleteMarkerCreated"
    (removal,) = told(source, marked)
    assert removal.kind == "removed"
