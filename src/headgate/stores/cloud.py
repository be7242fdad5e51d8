"""A store in a bucket of S3, Google Cloud Storage or Azure. Whole under its digest, or not there.

    <prefix>/staging/sha256/ab/abcd…   objects
    <prefix>/ledger/anchor.json        named files, as `project` writes them

An object is written to a spool on this machine first, so its digest and size are known before a
byte travels. A small one goes in one request that only creates. A large one goes in parts, in
constant memory, and appears when the last part is acknowledged. That is not create-only, but two
objects of one digest are the same bytes, so replacing one by the other changes nothing. A process
that dies midway leaves parts that nobody can see; `sweep` removes them.

The clouds acknowledge a write when it is durable, and show it to every reader from then on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from headgate.errors import ObjectMissing, StoreUnavailable, Unavailable, UsageError
from headgate.model.ports import Spool
from headgate.net import s3
from headgate.net.buckets import Bucket, open_bucket, parse, require
from headgate.net.objects import list_pages
from headgate.net.refusals import Kind, Refusal, explain

from .cache import Cache, Local
from .names import DIGEST, OBJECTS, checked_name, counted, object_name
from .read_on import ReadOn
from .spool import FileSpool

if TYPE_CHECKING:
    from obstore import GetOptions

# Up to here an object is one request, held in memory while it travels.
SINGLE_BYTES = 8 << 20
PART_BYTES = 8 << 20
PARTS_AT_ONCE = 4
# S3 takes 10,000 parts of an object.
PARTS_MAX = 9_000
READ_BYTES = 1 << 20
FILES_AT_ONCE = 32


class CloudStore:
    """A `Store` in a bucket. Nobody is asked before it is used; any number of threads may."""

    uri: str

    def __init__(self, uri: str, local: Local | None = None) -> None:
        self._address = parse(uri)
        require(self._address)
        self.uri = self._address.uri(self._address.prefix)
        self._cache = Cache(self.uri, local or Local())
        self._reached = False

    def __repr__(self) -> str:
        return f"<CloudStore {self.uri}>"

    def spool(self) -> FileSpool:
        """A place to write to, on this machine."""
        return self._cache.spool()

    def keep(self, spool: Spool) -> None:
        """Make the spool's bytes durable under their digest, and keep a copy on this machine."""
        if not isinstance(spool, FileSpool) or spool.store_uri != self.uri:
            raise UsageError(f"store {self.uri} keeps only spools of its own")
        digest, key = spool.digest, self._key(object_name(spool.digest))
        try:
            with self._doing(f"keep {digest.hex()}"):
                if not spool.writable:
                    if self._holds(key, spool.size):
                        return
                    raise UsageError("the spool was discarded; take a new one from the store")
                if spool.size <= SINGLE_BYTES:
                    self._create(key, spool)
                else:
                    self._send_parts(key, spool)
            self._cache.take(spool)
        finally:
            spool.discard()

    def has(self, digest: bytes) -> bool:
        """Is there an object with this digest?"""
        with self._doing(f"look for {digest.hex()}"):
            return self._size(self._key(object_name(digest))) is not None

    def open(self, digest: bytes) -> BinaryIO:
        """A stream of the bytes. They are asked for when they are read. Raises `ObjectMissing`."""
        with self._doing(f"read {digest.hex()}"):
            size = self._size(self._key(object_name(digest)))
        if size is None:
            raise self._missing(digest)
        stream = ReadOn(lambda start: self._stream(digest, start), size)
        return cast("BinaryIO", BufferedReader(stream, READ_BYTES))

    def path(self, digest: bytes) -> Path:
        """A copy on this machine, found to have this digest. Raises `ObjectMissing`.

        It stays for a quarter of an hour at least after it was last asked for.
        """
        if (copy := self._cache.find(digest)) is not None:
            return copy
        spool = self.spool()
        try:
            for chunk in self._stream(digest):
                spool.write(chunk)
            if spool.digest != digest:
                raise StoreUnavailable(
                    f"store {self.uri}: the bytes under {digest.hex()} have another digest",
                    upstream=self.uri,
                    reason="damaged_object",
                    hint="Somebody or something changed them. See: headgate verify",
                )
            return self._cache.take(spool)
        finally:
            spool.discard()

    def delete(self, digest: bytes) -> None:
        """Remove the bytes. Harmless when they are gone."""
        self._cache.forget(digest)
        with self._doing(f"delete {digest.hex()}"), suppress(FileNotFoundError):
            self._bucket.client.delete(self._key(object_name(digest)))

    def digests(self) -> Iterator[bytes]:
        """Every digest that is kept, a page at a time. Foreign files are passed over."""
        with self._doing("list its objects"):
            for page in list_pages(self._bucket, self._key(OBJECTS)):
                for one in page:
                    folder, _, name = one["path"].rpartition("/")
                    if DIGEST.fullmatch(name) and folder.endswith(f"/{name[:2]}"):
                        yield bytes.fromhex(name)

    def check(self, digest: bytes) -> bool:
        """Do the kept bytes still have this digest? Reads all of them; False when they are gone."""
        whole = hashlib.sha256()
        try:
            for chunk in self._stream(digest):
                whole.update(chunk)
        except ObjectMissing:
            return False
        return whole.digest() == digest

    def project(self, files: Mapping[str, bytes]) -> None:
        """Replace small named files, several at a time: readers see the old one or the new one."""
        keys = {self._key(checked_name(name, self.uri)): body for name, body in files.items()}
        if not keys:
            return
        client = self._bucket.client

        def put(key: str) -> None:
            client.put(key, keys[key], use_multipart=False)

        with self._doing(f"write {counted(files)}"):
            self._at_once(put, keys)

    def names(self, folder: str) -> Iterator[str]:
        """Every named file below a folder, a page at a time."""
        above = len(self._key(""))
        with self._doing(f"list {folder}"):
            for page in list_pages(self._bucket, self._key(checked_name(folder, self.uri))):
                yield from (one["path"][above:] for one in page)

    def remove(self, names: Iterable[str]) -> None:
        """Remove named files. Harmless when they are gone."""
        keys = [self._key(checked_name(name, self.uri)) for name in names]
        if not keys:
            return
        client = self._bucket.client

        def delete(key: str) -> None:
            with suppress(FileNotFoundError):
                client.delete(key)

        with self._doing(f"remove {counted(keys)}"):
            self._at_once(delete, keys)

    def _at_once(self, do: Callable[[str], None], keys: Iterable[str]) -> None:
        """Do it for each, several at a time; the first error ends it, once all under way ended."""
        with ThreadPoolExecutor(FILES_AT_ONCE, "headgate-put") as threads:
            waiting = [threads.submit(do, key) for key in keys]
            try:
                for one in waiting:
                    one.result()
            finally:
                for one in waiting:
                    one.cancel()

    def read(self, name: str) -> bytes | None:
        """The small named file, or None."""
        key = self._key(checked_name(name, self.uri))
        try:
            with self._doing(f"read {name}"):
                return bytes(self._bucket.client.get(key).bytes())
        except ObjectMissing:
            return None

    def sweep(self, older_than_seconds: float) -> int:
        """Remove spools of dead processes and, on S3, uploads they never finished; how many.

        Azure removes such parts by itself after a week; Google by a rule of the bucket. Copies
        beyond the limit are removed too; they are not counted.
        """
        removed = self._cache.sweep(older_than_seconds)
        if (chain := self._bucket.chain) is not None:
            with self._doing("sweep unfinished uploads"):
                removed += s3.abort_unfinished(
                    chain.client, self._address.bucket, self._key(OBJECTS), older_than_seconds
                )
        return removed

    @cached_property
    def _bucket(self) -> Bucket:
        try:
            return open_bucket(self._address)
        except Unavailable as error:
            raise self._away(error) from None

    def _key(self, name: str) -> str:
        return f"{self._address.prefix}/{name}" if self._address.prefix else name

    def _create(self, key: str, spool: FileSpool) -> None:
        content = spool.path.read_bytes()
        try:
            self._bucket.client.put(key, content, mode="create", use_multipart=False)
        except Exception as error:
            # Servers that know no create-only write refuse it; see the top for why that is no loss.
            if explain(error, self._bucket).kind not in (Kind.EXISTS, Kind.UNSUPPORTED):
                raise
            # Nothing but damage from outside gives an object another size: then it is replaced.
            if not self._holds(key, spool.size):
                self._bucket.client.put(key, content, use_multipart=False)

    def _send_parts(self, key: str, spool: FileSpool) -> None:
        if self._holds(key, spool.size):
            return
        self._bucket.client.put(
            key,
            spool.path,
            use_multipart=True,
            chunk_size=max(PART_BYTES, -(-spool.size // PARTS_MAX)),
            max_concurrency=PARTS_AT_ONCE,
        )
        if not self._holds(key, spool.size):
            raise StoreUnavailable(
                f"store {self.uri}: what arrived of {spool.digest.hex()} has another size",
                upstream=self.uri,
            )

    def _holds(self, key: str, size: int) -> bool:
        return self._size(key) == size

    def _size(self, key: str) -> int | None:
        try:
            return self._bucket.client.head(key)["size"]
        except FileNotFoundError:
            self._reach()
            return None

    def _reach(self) -> None:
        """A missing bucket looks like a missing object to a question that has no answer's text."""
        if not self._reached:
            next(list_pages(self._bucket, self._key(OBJECTS)), None)
            self._reached = True

    def _stream(self, digest: bytes, start: int = 0) -> Iterator[bytes]:
        """The bytes from `start` on, which is not behind the end."""
        options: GetOptions = {"range": {"offset": start}} if start else {}
        with self._doing(f"read {digest.hex()}"):
            got = self._bucket.client.get(self._key(object_name(digest)), options=options)
            yield from got.stream(READ_BYTES)

    @contextmanager
    def _doing(self, doing: str) -> Generator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except s3.S3Refused as error:
            raise self._error(error.refusal, doing) from None
        except StoreUnavailable:
            raise
        except Unavailable as error:
            raise self._away(error) from None
        except (BaseError, FileNotFoundError, NotImplementedError) as error:
            # Not chained: what obstore says may contain a signature.
            raise self._error(explain(error, self._bucket), doing) from None

    def _error(self, refusal: Refusal, doing: str) -> ObjectMissing | StoreUnavailable:
        if refusal.kind is Kind.MISSING:
            return ObjectMissing(f"store {self.uri} cannot {doing}: it is not there")
        return StoreUnavailable(
            f"store {self.uri}: cannot {doing}: {refusal.said}",
            upstream=self.uri,
            reason=None if refusal.kind is Kind.AWAY else refusal.kind.value,
            hint=refusal.hint,
        )

    def _away(self, error: Unavailable) -> StoreUnavailable:
        return StoreUnavailable(
            f"store {self.uri}: {error}", upstream=self.uri, reason=error.reason, hint=error.hint
        )

    def _missing(self, digest: bytes) -> ObjectMissing:
        return ObjectMissing(f"store {self.uri} has no object {digest.hex()}")
