"""A manifest as a source: believed whole or not at all, and never a way to somewhere else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.aws.emulator import Aws
from tests.net.webs import Web, serving

import headgate as hg
from headgate.errors import ObjectChanged, PermissionDenied, PipelineError
from headgate.model.ports import Known, Polled
from headgate.sources.places import Places
from headgate.testing.expect import raised
from headgate.testing.sources import Memory, SourceConformance, World


class Listed:
    """Objects and the manifest that names them, wherever a subclass keeps the two."""

    source: Polled

    def __init__(self) -> None:
        self.there: dict[str, bytes] = {}

    def keep(self, name: str, content: bytes | None) -> None:
        """Write or remove one file beside the manifest."""
        raise NotImplementedError

    def uri(self, name: str) -> str:
        raise NotImplementedError

    def publish(self) -> bytes:
        rows = [
            {"path": name, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
            for name, content in self.there.items()
        ]
        text = json.dumps({"files": rows}).encode()
        self.keep("manifest.json", text)
        return text

    def put(self, name: str, content: bytes) -> str:
        self.there[name] = content
        self.keep(name, content)
        self.publish()
        return self.uri(name)

    def remove(self, name: str) -> None:
        del self.there[name]
        self.keep(name, None)
        self.publish()

    def now(self) -> datetime:
        return datetime.now(UTC)

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.keep("manifest.json", self.publish()[:-3])
        yield
        self.publish()


class Folder(Listed):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.source = hg.Manifest(path / "manifest.json")
        path.mkdir()
        self.publish()

    def keep(self, name: str, content: bytes | None) -> None:
        file = self.path / name
        file.parent.mkdir(exist_ok=True)
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)

    def uri(self, name: str) -> str:
        return (self.path / name).as_uri()


class Shelf(Listed):
    """A web server."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}
        self.web: Web

    async def answer(self, request: web.Request) -> web.StreamResponse:
        content = self.files.get(request.path[1:])
        return web.Response(status=404) if content is None else web.Response(body=content)

    def keep(self, name: str, content: bytes | None) -> None:
        self.files.pop(name, None)
        if content is not None:
            self.files[name] = content

    def uri(self, name: str) -> str:
        return f"{self.web.url}/{name}"


class Bucket(Listed):
    def __init__(self, aws: Aws) -> None:
        super().__init__()
        self.bucket, self.s3 = aws.bucket("lists"), aws.client("s3")
        self.source = hg.Manifest(f"s3://{self.bucket}/out/manifest.json")
        self.publish()

    def keep(self, name: str, content: bytes | None) -> None:
        at = {"Bucket": self.bucket, "Key": f"out/{name}"}
        if content is None:
            self.s3.delete_object(**at)
        else:
            self.s3.put_object(**at, Body=content)

    def uri(self, name: str) -> str:
        return f"s3://{self.bucket}/out/{name}"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "a list")


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    shelf = Shelf()
    with serving(shelf.answer) as shelf.web:
        shelf.publish()
        shelf.source = hg.Manifest(f"{shelf.web.url}/manifest.json", headers={"X-Token": "t0k"})
        yield shelf


class TestManifestInAFolder(SourceConformance):
    @pytest.fixture
    def world(self, folder: Folder) -> World:
        return folder


class TestManifestOnTheWeb(SourceConformance):
    @pytest.fixture
    def world(self, shelf: Shelf) -> World:
        return shelf


class TestManifestInABucket(SourceConformance):
    @pytest.fixture
    def world(self, aws: Aws) -> World:
        return Bucket(aws)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"files": [{"path": "a"}', "ends"),
        (b"", "empty"),
        (b"path,size\na,1\nb", "line 3"),
        (b'[{"path":"a","etag":"1"},{"path":"./a","etag":"2"}]', "items 1 and 2"),
        (b'[{"uri":"%FF"},{"uri":"s3://b/%FF"}]', "no text"),
        (None, "cannot be read"),
    ],
)
def test_half_a_manifest_is_an_outage(folder: Folder, text: bytes | None, said: str) -> None:
    """Nothing is told, nothing is deleted; the next look reads it again."""
    folder.put("a.csv", b"1")
    memory = Memory(folder)
    memory.scan()
    folder.keep("manifest.json", text)
    error = raised(hg.Unavailable, lambda: folder.source.scan(memory.known, folder.now()))
    assert said in str(error)
    assert "nothing is taken for deleted" in str(error)
    folder.publish()
    assert memory.scan() == []


def test_a_manifest_that_lost_most_of_its_objects_is_not_believed(folder: Folder) -> None:
    """A cut upload may end between two lines: it looks like a mass deletion, and it is refused."""
    for n in range(20):
        folder.there[f"{n}.csv"] = b"%d" % n
    folder.publish()
    memory = Memory(folder)
    assert len(memory.scan()) == 20
    for n in range(11):
        del folder.there[f"{n}.csv"]
    folder.publish()
    error = raised(hg.Unavailable, lambda: folder.source.scan(memory.known, folder.now()))
    assert "lost 11 of 20" in str(error)
    assert "shrink_limit=1" in error.hint
    patient = hg.Manifest(folder.path / "manifest.json", shrink_limit=1)
    assert len(patient.scan(memory.known, folder.now()).changes) == 11
    folder.there["0.csv"] = b"0"
    folder.publish()
    assert len(memory.scan()) == 10


@pytest.mark.parametrize("column", ["sha256", "md5", "size"])
def test_other_bytes_than_the_manifest_names_are_refused(folder: Folder, column: str) -> None:
    """The object was replaced, the list was not: what we read is not what was announced."""
    told = {
        "sha256": hashlib.sha256(b"first").hexdigest(),
        "md5": hashlib.md5(b"first").hexdigest().upper(),
        "size": 5,
    }
    folder.keep("a.csv", b"first")
    folder.keep("manifest.json", json.dumps([{"path": "a.csv", column: told[column]}]).encode())
    (envelope,) = Memory(folder).envelopes()
    assert b"".join(map(bytes, folder.source.fetch(envelope))) == b"first"
    folder.keep("a.csv", b"other" if column != "size" else b"second")
    raised(ObjectChanged, lambda: list(folder.source.fetch(envelope)))


def test_an_object_of_a_bucket_is_read_in_the_version_that_is_named(aws: Aws) -> None:
    """The list names a version id: its bytes are read, whatever came later."""
    name, s3 = aws.bucket("lists", versions=True), aws.client("s3")
    first = s3.put_object(Bucket=name, Key="a b.csv", Body=b"first")
    s3.put_object(Bucket=name, Key="a b.csv", Body=b"second")
    rows = [{"key": "a b.csv", "version": first["VersionId"]}]
    s3.put_object(Bucket=name, Key="list.json", Body=json.dumps(rows).encode())
    source = hg.Manifest(f"s3://{name}/list.json")
    (change,) = source.scan({}, datetime.now(UTC)).changes
    assert change.uri == f"s3://{name}/a%20b.csv"
    envelope = source.envelope(change, 1, datetime.now(UTC))
    assert b"".join(source.fetch(envelope)) == b"first"


BASES = {
    "file": "file:///lists/daily/manifest.json",
    "s3": "s3://lists/daily/manifest.json",
    "web": "https://data.example/daily/manifest.json?day=1",
}


@pytest.mark.parametrize(
    ("base", "reference", "uri"),
    [
        ("file", "a.csv", "file:///lists/daily/a.csv"),
        ("file", "./12:30.csv", "file:///lists/daily/12%3A30.csv"),
        ("file", "/lists/daily/a%20b.csv", "file:///lists/daily/a%20b.csv"),
        ("s3", "a//b.csv", "s3://lists/daily/a//b.csv"),
        ("s3", "../x/a b.csv", "s3://lists/x/a%20b.csv"),
        ("s3", "/top.csv", "s3://lists/top.csv"),
        ("s3", "s3://lists/a b", "s3://lists/a%20b"),
        ("web", "a.csv?x=1", "https://data.example/daily/a.csv?x=1"),
        ("web", "/a.csv", "https://data.example/a.csv"),
        ("web", "//other.example/a", "https://other.example/a"),
        ("web", "http://other.example/a", "http://other.example/a"),
    ],
)
def test_relative_names_are_meant_from_the_manifest(base: str, reference: str, uri: str) -> None:
    """As a link on a page is meant from the page."""
    places = Places(BASES[base], (), {})
    assert places.resolve(reference) == uri
    assert places.may_read(uri)


@pytest.mark.parametrize(
    ("base", "reference"),
    [
        ("file", "../secret"),
        ("file", "/etc/passwd"),
        ("file", "file:///etc/passwd"),
        ("file", "FILE:///lists/daily/../../etc/passwd"),
        ("file", "%2e%2e/secret"),
        ("file", "a/%2e%2e/%2e%2e/secret"),
        ("file", "..%2fsecret"),
        ("file", "file://host/lists/daily/a"),
        ("file", "//host/a"),
        ("file", "s3://bucket/a"),
        ("file", ""),
        ("s3", "s3://other/a"),
        ("s3", "s3://lists.evil/a"),
        ("s3", "//other/a"),
        ("s3", "../../../other/a"),
        ("s3", "gs://lists/a"),
        ("s3", "file:///etc/passwd"),
        ("web", "file:///etc/passwd"),
        ("web", "s3://lists/a"),
        ("web", "data:text/csv,a"),
        ("web", "ftp://data.example/a"),
        ("web", "gopher://127.0.0.1:11211/_"),
    ],
)
def test_a_manifest_cannot_name_what_lies_elsewhere(base: str, reference: str) -> None:
    """Who may write the list may not choose which of our files and buckets are read."""
    places = Places(BASES[base], (), {})
    uri = places.resolve(reference)
    allowed = base == "s3" and uri.startswith("s3://lists/")
    assert places.may_read(uri) is allowed, uri


def test_what_lies_elsewhere_is_left_alone_and_said(
    folder: Folder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not fetched, its neighbours are; `allow` makes it part of the list."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "b.csv").write_bytes(b"2")
    folder.keep("a.csv", b"1")
    folder.keep("manifest.json", b'[{"path":"a.csv"},{"path":"../other/b.csv"}]')
    assert [c.uri[-5:] for c in folder.source.scan({}, folder.now()).changes] == ["a.csv"]
    assert "other/b.csv is not picked up" in caplog.text
    wider = hg.Manifest(
        folder.path / "manifest.json", allow=[(tmp_path / "other").as_uri()], shrink_limit=1
    )
    changes = wider.scan({}, folder.now()).changes
    assert len(changes) == 2
    read = [list(wider.fetch(wider.envelope(change, 1, folder.now()))) for change in changes]
    assert sorted(read) == [[b"1"], [b"2"]]


def test_a_link_out_of_the_folder_is_not_followed(folder: Folder, tmp_path: Path) -> None:
    """Nor does a link beside the manifest lead out of it."""
    (tmp_path / "secret").write_bytes(b"s")
    (folder.path / "a.csv").symlink_to(tmp_path / "secret")
    folder.keep("manifest.json", b'[{"path":"a.csv"}]')
    (envelope,) = Memory(folder).envelopes()
    raised(PermissionDenied, lambda: list(folder.source.fetch(envelope)))


def test_another_host_is_guarded_and_learns_no_credentials(shelf: Shelf) -> None:
    """The manifest's own server is the author's choice; a host that the list names is not."""
    shelf.put("a.csv", b"1")
    memory = Memory(shelf)
    (envelope,) = memory.envelopes()
    assert list(shelf.source.fetch(envelope)) == [b"1"]
    assert {asked.headers.get("x-token") for asked in shelf.web.asked} == {"t0k"}
    with serving(shelf.answer) as other:
        shelf.keep("manifest.json", json.dumps([{"url": f"{other.url}/a.csv"}]).encode())
        envelopes = [e for e in memory.envelopes() if e.kind == "created"]
        error = raised(PermissionDenied, lambda: list(shelf.source.fetch(envelopes[0])))
        assert error.reason == "egress_refused"
        assert other.asked == []


def test_rows_without_a_version_are_compared_by_what_they_say(folder: Folder) -> None:
    """A time and a size are a weak hint, nothing at all is none; both are told once."""
    rows = [{"path": "a", "size": 1, "last_modified": "2024-05-01T12:00:00Z"}, {"path": "b"}]
    folder.keep("manifest.json", json.dumps(rows).encode())
    memory = Memory(folder)
    dated, undated = sorted(memory.envelopes(), key=lambda envelope: envelope.uri)
    assert (dated.strength, dated.clock, dated.event_time.year) == ("weak", "object", 2024)
    assert (undated.strength, undated.clock) == ("none", "received")
    assert memory.scan() == []
    rows[0]["last_modified"] = "2024-05-02T12:00:00Z"
    folder.keep("manifest.json", json.dumps(rows).encode())
    assert [change.uri[-1] for change in memory.scan()] == ["a"]


@pytest.mark.parametrize(
    "declare",
    [
        lambda: hg.Manifest("ftp://x/list.csv"),
        lambda: hg.Manifest("https://user:pw@x/list.csv"),
        lambda: hg.Manifest("list.csv", every=0),
        lambda: hg.Manifest("list.csv", shrink_limit=0),
        lambda: hg.Manifest("list.csv", shrink_limit=1.5),
        lambda: hg.Manifest("list.csv", allow=["https://x/"]),
        lambda: hg.Manifest("https://x/list.csv", allow=["file:///etc/"]),
    ],
)
def test_what_cannot_be_is_refused_at_once(declare: Any) -> None:
    """When it is declared, with the right way in the hint."""
    with pytest.raises(PipelineError):
        declare()


def test_removed_objects_stay_known_as_removed(folder: Folder) -> None:
    """What was told as removed does not count as lost again."""
    known = {folder.uri(f"{n}.csv"): Known("x", 2, removed=True) for n in range(50)}
    assert folder.source.scan(known, folder.now()).changes == []
