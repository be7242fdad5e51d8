"""What every store must do. One suite, for the stores that come with Headgate and for yours:

import pytest
from headgate.testing.stores import StoreConformance

class TestMyStore(StoreConformance):
    opener = "my_stores:open_store"       # called with `store.uri` in other processes

    @pytest.fixture
    def store(self, tmp_path):            # empty, and its own
        return open_store(f"mine://{tmp_path}")
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from random import Random
from threading import Event
from typing import IO, ClassVar

from headgate.errors import ObjectMissing, UsageError
from headgate.model.ports import Store

from .expect import raised

MIB = 1 << 20
ABSENT = sha256(b"never kept").digest()


def keep(store: Store, *chunks: bytes) -> bytes:
    """Spool and keep; the digest."""
    spool = store.spool()
    for chunk in chunks:
        spool.write(chunk)
    store.keep(spool)
    return spool.digest


def content(store: Store, digest: bytes) -> bytes:
    """All bytes of a small object."""
    with store.open(digest) as stream:
        return stream.read()


class StoreConformance:
    """Subclass it, name it `Test…`, and give it a fixture `store`."""

    opener: ClassVar[str] = "headgate.stores:open_store"
    # A large object, and what moving it may take, whatever its size.
    large_mib: ClassVar[int] = 256
    memory_mib: ClassVar[int] = 32

    def test_what_was_kept_is_there_under_its_digest(self, store: Store) -> None:
        """What I keep I can read back, as a stream and as a file, under the digest of its bytes."""
        digest = keep(store, b"mm\n", b"1.5\n")
        assert digest == sha256(b"mm\n1.5\n").digest()
        assert store.has(digest)
        assert store.check(digest)
        assert content(store, digest) == b"mm\n1.5\n"
        assert store.path(digest).read_bytes() == b"mm\n1.5\n"

    def test_a_stream_can_be_read_from_anywhere(self, store: Store) -> None:
        """Archives and tables are read from their end; a stream can be sought like a file."""
        data = Random(3).randbytes(3 * MIB)
        with store.open(keep(store, data)) as stream:
            assert stream.seek(0, 2) == len(data)
            assert stream.read(1) == b""
            for place in (len(data) - 10, 0, 2 * MIB, 5):
                assert stream.seek(place) == place
                assert stream.read(7) == data[place : place + 7]
                assert stream.tell() == place + 7
            assert stream.read() == data[12:]

    def test_an_empty_object_is_an_object(self, store: Store) -> None:
        """An empty file is kept like any other."""
        digest = keep(store)
        assert digest == sha256(b"").digest()
        assert content(store, digest) == b""

    def test_a_spool_knows_its_size_and_digest_as_it_grows(self, store: Store) -> None:
        """Size and digest are known while writing, and the writer may reuse its buffer."""
        spool, whole, buffer = store.spool(), sha256(), bytearray(MIB)
        for number in range(20):
            buffer[-4:] = number.to_bytes(4, "big")
            whole.update(buffer)
            spool.write(memoryview(buffer))
            buffer[-4:] = b"over"
            assert spool.digest == whole.digest()
        spool.write(b"the end")
        whole.update(b"the end")
        assert spool.size == 20 * MIB + 7 == spool.path.stat().st_size
        store.keep(spool)
        assert store.check(whole.digest())

    def test_nothing_is_visible_before_it_is_kept(self, store: Store) -> None:
        """A spool is nobody's object: it is not listed and cannot be opened."""
        spool = store.spool()
        spool.write(b"half")
        assert not store.has(spool.digest)
        assert list(store.digests()) == []
        raised(ObjectMissing, lambda: store.open(spool.digest))
        spool.discard()

    def test_a_discarded_spool_leaves_nothing(self, store: Store) -> None:
        """Discarding frees the space, and doing it again or after keeping harms nothing."""
        spool = store.spool()
        spool.write(b"bad data")
        spool.discard()
        spool.discard()
        assert not spool.path.exists()
        raised(UsageError, lambda: store.keep(spool))
        kept = store.spool()
        kept.write(b"good data")
        store.keep(kept)
        kept.discard()
        assert content(store, kept.digest) == b"good data"

    def test_keeping_the_same_bytes_again_is_harmless(self, store: Store) -> None:
        """The same bytes twice are one object; so is the same spool twice."""
        first = keep(store, b"rain")
        spool = store.spool()
        spool.write(b"rain")
        store.keep(spool)
        store.keep(spool)
        assert list(store.digests()) == [first]
        assert not spool.path.exists()

    def test_what_is_not_there_is_said_to_be_missing(self, store: Store) -> None:
        """An absent object is `ObjectMissing`, by its digest; asking whether it is there is not."""
        assert not store.has(ABSENT)
        assert not store.check(ABSENT)
        assert ABSENT.hex() in str(raised(ObjectMissing, lambda: store.open(ABSENT)))
        raised(ObjectMissing, lambda: store.path(ABSENT))
        store.delete(ABSENT)

    def test_deleted_bytes_are_gone_and_can_come_back(self, store: Store) -> None:
        """Deleting removes one object and no other; the same bytes may be kept anew."""
        gone, other = keep(store, b"gone"), keep(store, b"other")
        store.delete(gone)
        store.delete(gone)
        assert list(store.digests()) == [other]
        assert keep(store, b"gone") == gone
        assert store.check(gone)

    def test_every_kept_digest_is_listed_once(self, store: Store) -> None:
        """The listing is what a garbage collector may rely on."""
        kept = {keep(store, number.to_bytes(2, "big")) for number in range(300)}
        listed = list(store.digests())
        assert len(listed) == 300
        assert set(listed) == kept

    def test_a_named_file_is_replaced_as_a_whole(self, store: Store) -> None:
        """Readers of a named file see the old content or the new one, never a mixture."""
        assert store.read("ledger/anchor.json") is None
        versions = {bytes([letter]) * 70_000 for letter in b"abcd"}
        store.project({"ledger/anchor.json": b"a" * 70_000})
        done = Event()

        def read_on() -> int:
            reads = 0
            while not done.is_set() or not reads:
                assert store.read("ledger/anchor.json") in versions
                reads += 1
            return reads

        with ThreadPoolExecutor(2) as threads:
            readers = [threads.submit(read_on) for _ in range(2)]
            for content in sorted(versions) * 5:
                store.project({"ledger/anchor.json": content})
            done.set()
            assert all(reader.result() for reader in readers)
        assert store.read("ledger/anchor.json") == b"d" * 70_000
        assert list(store.digests()) == []

    def test_many_named_files_are_written_at_once(self, store: Store) -> None:
        """A page of a catalog is one call: files in old folders and new ones, replaced or not."""
        first = {f"stac/{n % 7}/{n}.json": b"%d" % n for n in range(200)}
        store.project(first)
        second = dict.fromkeys(list(first)[:50], b"again")
        second |= {f"runs/{n}/qa.json": b"{}" for n in range(50)}
        store.project(second)
        store.project({})
        for name, content in (first | second).items():
            assert store.read(name) == content
        assert sorted(store.names("stac")) == sorted(first)
        assert sorted(store.names("runs/7")) == ["runs/7/qa.json"]
        assert list(store.names("nowhere")) == []
        assert list(store.digests()) == []
        assert store.sweep(0) == 0

    def test_removed_files_are_gone_and_their_neighbours_stay(self, store: Store) -> None:
        """Removing names that are not there harms nothing, and a removed file can come back."""
        store.project({"stac/a.json": b"a", "stac/b.json": b"b", "runs/1/qa.json": b"{}"})
        store.remove(["stac/a.json", "stac/never.json", "runs/1/qa.json", "no/such/folder.json"])
        store.remove([])
        assert store.read("stac/a.json") is None
        assert list(store.names("stac")) == ["stac/b.json"]
        assert list(store.names("runs")) == []
        store.project({"runs/1/qa.json": b"again"})
        assert store.read("runs/1/qa.json") == b"again"

    def test_a_name_cannot_lead_out_of_the_store(self, store: Store) -> None:
        """Names that climb, are absolute or empty are refused, for writing and for reading."""
        for name in ("", "/etc/x", "../x", "a/../../x", "a//b", "a/", ".", "a/./b", "a\0b"):
            raised(UsageError, lambda name=name: store.project({name: b"x"}))
            raised(UsageError, lambda name=name: store.remove([name]))
            raised(UsageError, lambda name=name: list(store.names(name)))
            raised(UsageError, lambda name=name: store.read(name))

    def test_eight_threads_keep_the_same_bytes(self, store: Store) -> None:
        """Workers that stage the same object at the same time all succeed, and it is whole."""
        data = Random(7).randbytes(3 * MIB)
        with ThreadPoolExecutor(8) as threads:
            keeping = [threads.submit(keep, store, data, b"!") for _ in range(24)]
            digests = {kept.result() for kept in keeping}
        assert list(store.digests()) == list(digests)
        assert store.check(digests.pop())

    def test_a_writer_killed_midway_leaves_nothing_visible(self, store: Store) -> None:
        """kill -9 during a write: no object, and a sweep takes the remains but no living spool."""
        living = store.spool()
        living.write(b"still here")
        with self.process(store, "half_write") as (child, lines):
            assert next(lines) == "writing"
            assert store.sweep(0) == 0
            child.kill()
        assert list(store.digests()) == []
        assert store.sweep(3600) == 0
        assert store.sweep(0) == 1
        store.keep(living)
        assert content(store, living.digest) == b"still here"

    def test_what_was_said_to_be_kept_survives_kill_9(self, store: Store) -> None:
        """Two writers are killed at any moment: what they reported is there, and all is whole."""
        reported: list[str] = []
        with (
            self.process(store, "keep_on", 1) as (first, first_lines),
            self.process(store, "keep_on", 1) as (second, second_lines),
        ):
            for _ in range(40):
                reported += [next(first_lines), next(second_lines)]
            first.kill()
            second.kill()
        assert len(set(reported)) == 40
        for digest in reported:
            assert store.check(bytes.fromhex(digest))
        assert all(map(store.check, store.digests()))

    def test_files_said_to_be_written_survive_kill_9(self, store: Store) -> None:
        """A writer of many files is killed at any moment: each is whole, and none went back."""
        with self.process(store, "project_on") as (child, lines):
            reported = max(int(next(lines)) for _ in range(5))
            child.kill()
        names = list(store.names("page"))
        assert len(names) == 60
        for name in names:
            content = store.read(name) or b""
            assert len(content) == 20_000
            assert len(set(content)) == 1
            assert content[0] >= reported
        store.sweep(0)
        assert store.sweep(0) == 0

    def test_a_large_object_needs_little_memory(self, store: Store) -> None:
        """It is spooled, kept, checked and read in parts, never held as a whole."""
        with self.process(store, "stream", self.large_mib) as (child, lines):
            assert int(next(lines)) < self.memory_mib
            assert child.wait() == 0

    @contextmanager
    def process(
        self, store: Store, act: str, *numbers: int
    ) -> Generator[tuple[subprocess.Popen[str], Iterator[str]], None, None]:
        """Another process that has the store open; see `store_process`."""
        command = [sys.executable, "-m", "headgate.testing.store_process", self.opener, store.uri]
        child = subprocess.Popen(
            [*command, act, *map(str, numbers)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        with child:
            try:
                yield child, _lines(child.stdout, child.wait)
            finally:
                child.kill()


def _lines(stream: IO[str] | None, wait: Callable[[], int]) -> Iterator[str]:
    assert stream is not None
    for line in stream:
        yield line.strip()
    raise AssertionError(f"the other process ended with {wait()}")
