"""Reading other people's buckets: names as they are, one version from beginning to end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.aws.emulator import Aws
from tests.net.faults import Faults, faults, refusal

from headgate.errors import ObjectChanged, ObjectMissing, PermissionDenied, Unavailable
from headgate.net.objects import Objects, objects_at
from headgate.testing.expect import raised

# What producers, consoles and people really write.
ODD_KEYS = [
    "plain.csv", "a b+c%20%2B.csv", "grüße/😀.csv", "e\u0301.csv", "\u00e9.csv", "q?x#y=1&2",
    "folder/", "a//b.csv", "/leading.csv", "dots/./x", "tab\there", "[x]{y}^~`|<>\"'\\",
]  # fmt: skip


@pytest.fixture
def proxy(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    with faults(aws.endpoint) as state:
        monkeypatch.setenv("AWS_ENDPOINT_URL", state.endpoint)
        yield state


class World:
    """A bucket of somebody else's, with versions."""

    def __init__(self, aws: Aws) -> None:
        self.name = aws.bucket(versions=True)
        self.s3 = aws.client("s3")
        self.objects: Objects = objects_at(f"s3://{self.name}/anything/below")

    def put(self, key: str, body: bytes = b"x") -> dict[str, str]:
        return self.s3.put_object(Bucket=self.name, Key=key, Body=body)

    def keys(self, prefix: str = "") -> list[str]:
        return [one.key for page in self.objects.pages(prefix) for one in page]

    def read(self, key: str, **wanted: str | None) -> bytes:
        return b"".join(self.objects.read(key, **wanted))


@pytest.fixture
def world(aws: Aws) -> World:
    return World(aws)


def test_any_key_can_be_listed_and_read(world: World) -> None:
    """Odd names neither break a listing nor lead to another object."""
    for key in ODD_KEYS:
        world.put(key, b"this is " + key.encode())
    assert sorted(world.keys()) == sorted(ODD_KEYS)
    for key in ODD_KEYS:
        assert world.read(key) == b"this is " + key.encode()


def test_a_key_that_looks_alike_is_another_object(world: World) -> None:
    """`/a`, `a/` and `a` are three objects; asking for one that is not there finds no other."""
    world.put("a", b"a")
    for key in ("/a", "a/", "a//", "./a"):
        raised(ObjectMissing, lambda key=key: world.read(key))


def test_a_listing_tells_what_a_detector_compares(world: World) -> None:
    """Key, size, etag, time and uri of each object under a prefix, which may end within a name."""
    put = world.put("in/2024-05.csv", b"12345")
    for other in ("in/2023-05.csv", "in2024", "out/2024-05.csv"):
        world.put(other)
    ((one,),) = world.objects.pages("in/2024")
    assert (one.key, one.size, one.etag) == ("in/2024-05.csv", 5, put["ETag"])
    assert one.uri == f"s3://{world.name}/in/2024-05.csv"
    assert one.last_modified.tzinfo is not None


@pytest.mark.parametrize("prefix", ["none/", ""])
def test_nothing_is_an_empty_listing(world: World, prefix: str) -> None:
    """A prefix with nothing under it is no error."""
    assert world.keys(prefix) == []


def test_a_listing_that_breaks_off_is_an_error(proxy: Faults, world: World) -> None:
    """Half a listing is never taken for all of it: whatever is missing was not deleted."""
    cut = (
        "<ListBucketResult><IsTruncated>true</IsTruncated>"
        "<Contents><Key>a</Key><Size>1</Size><ETag>e</ETag>"
        "<LastModified>2024-05-01T00:00:00Z</LastModified></Contents></ListBucketResult>"
    )
    proxy.rule = lambda method, path: (200, cut) if "list-type" in path else None
    assert "breaks off" in str(raised(Unavailable, world.keys))


def test_an_empty_page_is_not_the_end(proxy: Faults, world: World) -> None:
    """A page without objects that says there is more is gone past."""
    world.put("late.csv")
    empty = [
        "<ListBucketResult><IsTruncated>true</IsTruncated>"
        "<NextContinuationToken>aaa</NextContinuationToken></ListBucketResult>"
    ]
    proxy.rule = lambda method, path: (200, empty.pop()) if empty and "list-type" in path else None
    assert [len(page) for page in world.objects.pages()] == [0, 1]


def test_a_version_is_read_though_a_newer_one_is_there(world: World) -> None:
    """An event names a version; its bytes are read, whatever came later."""
    first = world.put("a.csv", b"first")
    world.put("a.csv", b"second")
    assert world.read("a.csv", version=first["VersionId"]) == b"first"
    assert world.read("a.csv") == b"second"
    world.s3.delete_object(Bucket=world.name, Key="a.csv")
    raised(ObjectMissing, lambda: world.read("a.csv"))
    assert world.read("a.csv", version=first["VersionId"]) == b"first"


@pytest.mark.parametrize("key", ["a.csv", "a//b.csv"])
def test_an_object_that_changed_since_it_was_seen_says_so(world: World, key: str) -> None:
    """The etag that a listing showed is pinned: other bytes under the same name are refused."""
    seen = world.put(key, b"first")["ETag"]
    assert world.read(key, etag=seen) == b"first"
    world.put(key, b"second")
    raised(ObjectChanged, lambda: world.read(key, etag=seen))


@pytest.mark.parametrize("key", ["gone.csv", "gone//x.csv"])
def test_a_missing_object_or_version_is_missing(world: World, key: str) -> None:
    """What is not there is `ObjectMissing`, by its uri."""
    assert f"s3://{world.name}/{key}" in str(raised(ObjectMissing, lambda: world.read(key)))
    world.put(key)
    raised(ObjectMissing, lambda: world.read(key, version="nope"))


@pytest.mark.parametrize("key", ["a.csv", "a//b.csv"])
@pytest.mark.parametrize(
    ("status", "code", "error", "reason"),
    [
        (403, "AccessDenied", PermissionDenied, "permission"),
        (403, "InvalidAccessKeyId", Unavailable, "credentials"),
        (404, "NoSuchBucket", Unavailable, "no_such_bucket"),
        (400, "ExpiredToken", Unavailable, "credentials"),
        (403, "RequestTimeTooSkewed", Unavailable, "clock_skew"),
    ],
)
def test_a_refusal_has_the_fate_it_deserves(
    proxy: Faults, aws: Aws, key: str, status: int, code: str, error: type[Exception], reason: str
) -> None:
    """No right to an object is final; what an operator can repair is waited for."""
    proxy.rule = lambda method, path: (status, refusal(code))
    objects = objects_at("s3://theirs")
    caught = raised(error, lambda: list(objects.read(key)))
    assert getattr(caught, "reason", None) == reason
    caught = raised(error, lambda: list(objects.pages()))
    assert getattr(caught, "reason", None) == reason


def test_a_throttled_bucket_is_asked_again(proxy: Faults, world: World) -> None:
    """Being told to slow down costs a moment. Nothing is lost, and no entry is spent on it."""
    world.put("a.csv", b"rain")
    slow = [(503, refusal("SlowDown"))] * 2
    proxy.rule = lambda method, path: slow.pop() if slow else None
    assert world.read("a.csv") == b"rain"
    assert not slow


def test_a_large_object_comes_in_pieces(world: World) -> None:
    """No piece is larger than 1 MiB, and each may be held on to."""
    whole = b"".join(number.to_bytes(4, "big") * 1000 for number in range(1500))
    for key in ("large.bin", "a//large.bin"):
        world.put(key, whole)
        pieces = list(world.objects.read(key))
        assert max(map(len, pieces)) <= 1 << 20
        assert b"".join(pieces) == whole


def test_a_cut_connection_does_not_cut_the_object(proxy: Faults, world: World) -> None:
    """The rest is asked for, of the same version; half an object is never a whole one."""
    whole = bytes(range(256)) * 16_384
    world.put("a.bin", whole)
    cuts = ["cut"]
    proxy.rule = lambda method, path: cuts.pop() if method == "GET" and cuts else None
    assert world.read("a.bin") == whole
    assert not cuts
