"""A prefix of a bucket: everything under it is told once, and half a listing deletes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.aws.emulator import Aws
from tests.net.faults import Faults, faults, refusal
from tests.sources.test_conformance import Folder

import headgate as hg
from headgate.errors import ObjectChanged, PipelineError, Unavailable
from headgate.model.ports import Known
from headgate.testing.expect import raised
from headgate.testing.sources import Memory, SourceConformance, World

ODD = ["a b+c%20%2B.csv", "grüße/😀.csv", "e\u0301.csv", "\u00e9.csv", "q?x#y=1&2", "a//b.csv"]


class Bucket:
    """A bucket behind a proxy that can be told to misbehave."""

    def __init__(self, aws: Aws, proxy: Faults, **declared: Any) -> None:
        self.bucket = aws.bucket("raw", versions=True)
        self.s3 = aws.client("s3")
        self.proxy = proxy
        self.source = hg.Prefix(f"s3://{self.bucket}/in/", **declared)

    def put(self, name: str, content: bytes = b"x") -> str:
        self.s3.put_object(Bucket=self.bucket, Key=f"in/{name}", Body=content)
        return f"s3://{self.bucket}/in/{name}"

    def remove(self, name: str) -> None:
        self.s3.delete_object(Bucket=self.bucket, Key=f"in/{name}")

    def now(self) -> datetime:
        return datetime.now(UTC)

    def names(self) -> set[str]:
        changes = self.source.scan({}, self.now()).changes
        return {change.uri.removeprefix(f"s3://{self.bucket}/in/") for change in changes}

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.proxy.rule = lambda method, path: (403, refusal("AccessDenied"))
        yield
        self.proxy.rule = lambda method, path: None


@pytest.fixture
def proxy(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    with faults(aws.endpoint) as state:
        monkeypatch.setenv("AWS_ENDPOINT_URL", state.endpoint)
        yield state


@pytest.fixture
def bucket(aws: Aws, proxy: Faults) -> Bucket:
    return Bucket(aws, proxy)


class TestPrefix(SourceConformance):
    """The suite that every polled source passes, on a bucket."""

    @pytest.fixture
    def world(self, bucket: Bucket) -> World:
        return bucket


class TestPrefixOnThisMachine(SourceConformance):
    """A `file://` prefix is a folder, so that a pipeline can be tried without a bucket."""

    @pytest.fixture
    def world(self, tmp_path: Path) -> World:
        folder = Folder(tmp_path / "in coming")
        folder.source = hg.Prefix(folder.path.as_uri())  # pyright: ignore[reportAttributeAccessIssue]
        return folder


def test_no_object_is_lost_where_pages_meet(bucket: Bucket) -> None:
    """999, 1,000, 1,001 and 2,500 objects: one page, a full one, one more, three."""
    memory = Memory(bucket)
    at = 0
    with ThreadPoolExecutor(8) as putting:
        for count in (999, 1000, 1001, 2500):
            list(putting.map(bucket.put, (f"{n:05d}.csv" for n in range(at, count))))
            assert len(memory.scan()) == count - at
            at = count
    assert memory.scan() == []
    listings = [path for _, path in bucket.proxy.asked if "list-type" in path]
    assert len(listings) == 1 + 1 + 2 + 3 + 3


def test_a_page_that_fails_in_the_middle_deletes_nothing(bucket: Bucket) -> None:
    """The first page is there, the second is refused: unavailable, and nothing is concluded."""
    first = (
        "<ListBucketResult><IsTruncated>true</IsTruncated>"
        "<NextContinuationToken>more</NextContinuationToken></ListBucketResult>"
    )
    bucket.put("a.csv")
    memory = Memory(bucket)
    memory.scan()
    bucket.proxy.rule = lambda method, path: (
        (403, refusal("AccessDenied")) if "continuation-token" in path else (200, first)
    )
    error = raised(Unavailable, lambda: bucket.source.scan(memory.known, bucket.now()))
    assert "nothing is taken for deleted" in str(error)


def test_an_empty_page_is_not_the_end(bucket: Bucket) -> None:
    """A page without objects that says there is more is gone past."""
    bucket.put("late.csv")
    empty = [
        "<ListBucketResult><IsTruncated>true</IsTruncated>"
        "<NextContinuationToken>aaa</NextContinuationToken></ListBucketResult>"
    ]
    bucket.proxy.rule = lambda method, path: (200, empty.pop()) if empty else None
    assert bucket.names() == {"late.csv"}


def test_a_bucket_that_is_suddenly_empty_is_asked_once_more(bucket: Bucket) -> None:
    """Everything gone at once may be a mistake of the answer: it counts when it is said twice."""
    memory = Memory(bucket)
    for name in ("a.csv", "b.csv"):
        bucket.put(name)
    memory.scan()
    for name in ("a.csv", "b.csv"):
        bucket.remove(name)
    first = bucket.source.scan(memory.known, bucket.now())
    assert (first.changes, first.unsettled) == ([], 2)
    assert [change.kind for change in memory.scan()] == ["removed", "removed"]
    assert memory.scan() == []


def test_keys_that_come_and_go_while_we_list_do_no_harm(bucket: Bucket) -> None:
    """What is added behind our back is told by this look or the next, and nothing twice."""
    for n in range(5):
        bucket.put(f"{n}.csv")

    def meddle(method: str, path: str) -> None:
        bucket.proxy.rule = lambda method, path: None
        bucket.put("9.csv")
        bucket.remove("0.csv")

    bucket.proxy.rule = meddle
    memory = Memory(bucket)
    told = [change.uri for change in memory.scan() + memory.scan()]
    assert len(told) == len(set(told))
    assert {uri[-5:] for uri in told} >= {"1.csv", "9.csv"}


def test_folder_markers_are_no_objects(bucket: Bucket) -> None:
    """Consoles leave `folder/` behind; an empty file is an object all the same."""
    bucket.put("", b"")
    bucket.put("folder/", b"")
    bucket.put("empty.csv", b"")
    assert bucket.names() == {"empty.csv"}


def test_odd_keys_are_told_and_read_as_they_are(bucket: Bucket) -> None:
    """Spaces, percents, accents both ways: each has a uri of its own, and leads to its bytes."""
    for key in ODD:
        bucket.put(key, key.encode())
    envelopes = Memory(bucket).envelopes()
    assert len({envelope.uri for envelope in envelopes}) == len(ODD)
    assert all(envelope.uri.isascii() and " " not in envelope.uri for envelope in envelopes)
    read = {b"".join(map(bytes, bucket.source.fetch(envelope))).decode() for envelope in envelopes}
    assert read == set(ODD)


def test_what_is_read_is_what_was_noticed(bucket: Bucket) -> None:
    """The etag is pinned: an object that changed meanwhile says so, and the next look tells it."""
    bucket.put("a.csv", b"first")
    memory = Memory(bucket)
    (envelope,) = memory.envelopes()
    assert envelope.etag is not None
    assert envelope.strength == "strong"
    assert envelope.content_type == "text/csv"
    bucket.put("a.csv", b"second")
    raised(ObjectChanged, lambda: list(bucket.source.fetch(envelope)))
    (newer,) = memory.envelopes()
    assert b"".join(map(bytes, bucket.source.fetch(newer))) == b"second"


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        ({"suffix": ".csv"}, {"a.csv", "deep/b.csv"}),
        ({"pattern": "*.csv"}, {"a.csv"}),
        ({"pattern": "**/b.*"}, {"deep/b.csv"}),
        ({}, {"a.csv", "deep/b.csv", "c.txt"}),
    ],
)
def test_some_of_the_keys_can_be_chosen(
    aws: Aws, proxy: Faults, declared: dict[str, str], found: set[str]
) -> None:
    """By how they end, or by a pattern below the prefix."""
    bucket = Bucket(aws, proxy, **declared)
    for name in ("a.csv", "deep/b.csv", "c.txt"):
        bucket.put(name)
    assert bucket.names() == found


def test_another_pattern_deletes_nothing(aws: Aws, proxy: Faults) -> None:
    """What a new pattern leaves out is still there."""
    bucket = Bucket(aws, proxy)
    uri = bucket.put("a.txt")
    bucket.put("a.csv")
    other = hg.Prefix(bucket.source.uri, suffix=".csv")
    known = {uri: Known("etag:x 1", 1), uri.replace("txt", "csv"): Known("etag:x 1", 1)}
    kinds = {change.kind for change in other.scan(known, bucket.now()).changes}
    assert kinds == {"created"}


@pytest.mark.parametrize(
    "declare",
    [
        lambda: hg.Prefix("https://bucket/raw"),
        lambda: hg.Prefix("raw/"),
        lambda: hg.Prefix("s3://"),
        lambda: hg.Prefix("s3://b-b-b/", every=0),
        lambda: hg.Prefix("s3://b-b-b/", suffix=".csv", pattern="*.csv"),
    ],
)
def test_what_cannot_be_a_prefix_is_refused_at_once(declare: Any) -> None:
    """With the right way in the hint."""
    with pytest.raises((PipelineError, hg.HeadgateError)):
        declare()
