"""Reading other people's buckets: what is there, and the bytes of one object.

For sources. Pages and pieces come one at a time, so memory stays constant however much there is.
Every refusal of a cloud is one of the errors a source may raise.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from headgate.errors import (
    HeadgateError,
    ObjectChanged,
    ObjectMissing,
    PermissionDenied,
    Unavailable,
)

from . import s3
from .buckets import Address, Bucket, open_bucket, parse
from .refusals import Kind, Refusal, explain

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta

PAGE = 1000
CHUNK_BYTES = 1 << 20
_PIECE_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Listed:
    """One object of a listing. S3 and Google tell no version there; events do."""

    key: str
    uri: str
    size: int
    etag: str | None
    last_modified: datetime
    version: str | None = None


class Objects:
    """The objects of a bucket. For any number of threads; nobody is asked before the first call."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._bucket = open_bucket(address)

    def pages(self, prefix: str = "") -> Iterator[list[Listed]]:
        """Every object whose key begins with `prefix`, a page at a time, pages possibly empty.

        A listing ends or raises: `Unavailable` or `PermissionDenied`. What was listed before an
        error says nothing about what was not.
        """
        with self._reading(f"{prefix}*"):
            if self._bucket.chain is not None:
                client = self._bucket.chain.client
                for page in s3.pages(client, self.address.bucket, prefix):
                    yield [self._of_s3(**one) for one in page]
            else:
                yield from self._others(prefix)

    def read(
        self, key: str, *, version: str | None = None, etag: str | None = None
    ) -> Iterator[bytes]:
        """The object's bytes in pieces of 1 MiB at most, of one version from beginning to end.

        `version` is a version id of S3 or Azure or a generation of Google; `etag` pins what was
        seen: another one is `ObjectChanged`. Raises `ObjectMissing`, `PermissionDenied`,
        `Unavailable`.
        """
        with self._reading(key):
            if not nameable(key):
                if self._bucket.chain is None:
                    raise _error(Refusal(Kind.UNNAMEABLE, key, None), self.address.uri(key))
                client = self._bucket.chain.client
                yield from s3.chunks(client, self.address.bucket, key, version, etag)
                return
            options: GetOptions = {}
            if version:
                options["version"] = version
            if etag:
                options["if_match"] = etag
            got = self._bucket.client.get(key, options=options)
            for chunk in got.stream(_PIECE_BYTES):
                for start in range(0, len(chunk), CHUNK_BYTES):
                    yield chunk[start : start + CHUNK_BYTES]

    def _others(self, prefix: str) -> Iterator[list[Listed]]:
        # obstore lists folders; a prefix may end within a name.
        folder = prefix.rpartition("/")[0]
        for page in list_pages(self._bucket, folder):
            listed = [self._of_obstore(one) for one in page if one["path"].startswith(prefix)]
            yield [one for one in listed if one.size or self._is_object(one.key)]

    def _is_object(self, key: str) -> bool:
        """The mark of an empty folder (`a/`) is listed as if it were an object `a`."""
        try:
            self._bucket.client.head(key)
        except FileNotFoundError:
            return False
        return True

    def _of_s3(
        self, *, Key: str, Size: int, LastModified: datetime, ETag: str | None = None, **_: object
    ) -> Listed:
        return Listed(Key, self.address.uri(Key), Size, ETag, LastModified)

    def _of_obstore(self, one: ObjectMeta) -> Listed:
        return Listed(
            one["path"],
            self.address.uri(one["path"]),
            one["size"],
            one["e_tag"],
            one["last_modified"],
            one["version"],
        )

    @contextmanager
    def _reading(self, key: str) -> Generator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except s3.S3Refused as error:
            raise _error(error.refusal, self.address.uri(key)) from None
        except (BaseError, FileNotFoundError, NotImplementedError) as error:
            # Not chained: what obstore says may contain a signature.
            raise _error(explain(error, self._bucket), self.address.uri(key)) from None


def objects_at(uri: str) -> Objects:
    """The objects of the bucket that a uri lies in. Raises `ConfigError`."""
    return Objects(parse(uri))


def list_pages(bucket: Bucket, folder: str) -> Iterator[Sequence[ObjectMeta]]:
    """What obstore lists under a folder, a page at a time."""
    # Its types need a library for tables that is not used here.
    client = cast("Any", bucket.client)
    yield from client.list(folder or None, chunk_size=PAGE)


def nameable(key: str) -> bool:
    """Can obstore name this key, and means it this object and no other?"""
    return all(part not in ("", ".", "..") for part in key.split("/")) and key.isprintable()


def _error(refusal: Refusal, uri: str) -> HeadgateError:
    said = f"{uri}: {refusal.said}"
    match refusal.kind:
        case Kind.MISSING:
            return ObjectMissing(said)
        case Kind.DENIED:
            return PermissionDenied(said, hint=refusal.hint)
        case Kind.CHANGED:
            return ObjectChanged(said)
        case kind:
            return Unavailable(said, upstream=uri, reason=kind.value, hint=refusal.hint)
