"""The objects of a bucket under a prefix: those that appear, change or vanish.

Each look lists everything under the prefix and compares it with what is known. A listing that fails
on any page fails as a whole: what a partial listing lacks would look deleted. A bucket that is
suddenly empty is believed only when the next look finds it empty too.

An object's uri is the one that the bucket's own notifications give it (`model/uri.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Protocol, cast
from urllib.parse import unquote

from headgate.errors import HeadgateError, ObjectMissing, Unavailable
from headgate.model.envelope import Envelope, Provider, Strength
from headgate.model.ports import Known, Noticed, Scan, Shown
from headgate.model.uri import quoted
from headgate.net import buckets

from .directory import content_type
from .numbered import numbered
from .walk import MAX_URI

PROVIDERS: Mapping[str, Provider] = {"s3": "s3", "gs": "gcs", "az": "azure"}
# Is a key, without the prefix, one that is to be picked up?
Wanted = Callable[[str], bool]
_log = logging.getLogger(__name__)


class Listed(Protocol):
    """One object of a listing."""

    @property
    def key(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def etag(self) -> str | None: ...
    @property
    def last_modified(self) -> datetime: ...
    @property
    def version(self) -> str | None: ...


class Listing(Protocol):
    """What is asked of a bucket (`net/objects.py`)."""

    def pages(self, prefix: str = "") -> Iterable[Iterable[Listed]]: ...

    def read(
        self, key: str, *, version: str | None = None, etag: str | None = None
    ) -> Iterator[bytes]: ...


class Bucket:
    """The objects whose key begins with the uri's path, and whose key is `wanted`."""

    def __init__(self, uri: str, name: str, every_seconds: float, wanted: Wanted) -> None:
        scheme, _, rest = uri.partition("://")
        bucket, _, path = rest.partition("/")
        self._address = buckets.parse(f"{scheme}://{bucket}")
        self._key = unquote(path)
        self._root = f"{self._address.root}/"
        self.uri = self._root + quoted(self._key)
        self.name = name
        self.every_seconds = every_seconds
        self._wanted = wanted
        self._bucket: Listing | None = None
        # What one look leaves for the next: was the bucket empty, what was complained about.
        self._was_empty = False
        self._told: set[str] = set()

    def check(self) -> None:
        """Raise `UsageError` when the libraries are not there. Asks no server."""
        buckets.require(self._address)

    def scan(self, known: Mapping[str, Known], now: datetime) -> Scan:
        """List and compare. Raises `Unavailable` rather than guess."""
        seen: set[str] = set()
        changes: dict[str, Noticed] = {}
        try:
            for page in self._objects().pages(self._key):
                for one in page:
                    uri = self._root + quoted(one.key)
                    if not self._fits(uri):
                        continue
                    seen.add(uri)
                    if self._is_wanted(one):
                        changes[uri] = _created(uri, one).after(known.get(uri))
        except HeadgateError as error:
            raise self._unavailable(error) from error
        live = [uri for uri, before in known.items() if not before.removed and self.owns(uri)]
        if not seen and len(live) > 1 and not self._was_empty:
            self._was_empty = True
            return Scan([], len(live))
        self._was_empty = not seen
        fresh = [change for uri, change in changes.items() if _differs(change, known.get(uri))]
        fresh.sort(key=lambda change: (change.event_time, change.uri))
        gone = [
            Noticed(uri, "removed", known[uri].hint, "weak", now, known[uri].generation)
            for uri in sorted(live)
            if uri not in seen
        ]
        return Scan(fresh + gone, 0)

    def everything(self, now: datetime) -> Iterator[Shown]:
        """All objects that are wanted. Raises `Unavailable` rather than leave some out."""
        try:
            for page in self._objects().pages(self._key):
                for one in page:
                    uri = self._root + quoted(one.key)
                    if self._fits(uri) and self._is_wanted(one):
                        yield Shown(_created(uri, one))
        except HeadgateError as error:
            raise self._unavailable(error) from error

    def covers(self, uri: str) -> bool:
        """Would an object of this uri be picked up?"""
        return self.owns(uri) and self._wanted(unquote(uri[len(self.uri) :]))

    def envelope(self, change: Noticed, generation: int, received_at: datetime) -> Envelope:
        """The change as an envelope, once the ledger has numbered it."""
        provider = PROVIDERS[self._address.cloud]
        kind, _, told = change.hint.partition(":")
        told = told.rpartition(" ")[0]
        return numbered(
            change,
            generation,
            received_at,
            source=provider,
            provider=provider,
            etag=told if kind == "etag" else None,
            version_id=told if kind == "version" else None,
        )

    def owns(self, uri: str) -> bool:
        """Does the uri name something under the prefix?"""
        return uri.startswith(self.uri) and len(uri) > len(self._root)

    def fetch(self, envelope: Envelope) -> Iterator[bytes]:
        """The bytes of the version that was noticed; another one is `ObjectChanged`."""
        if not self.owns(envelope.uri):
            raise ObjectMissing(f"{envelope.uri} is not under {self.uri}")
        key = unquote(envelope.uri[len(self._root) :])
        return self._objects().read(key, **pinned(envelope))

    def _objects(self) -> Listing:
        if self._bucket is None:
            from headgate.net.objects import Objects

            self._bucket = cast("Listing", Objects(self._address))
        return self._bucket

    def _is_wanted(self, one: Listed) -> bool:
        if one.key.endswith("/") and not one.size:
            return False  # what consoles leave behind to show a folder
        return self._wanted(one.key[len(self._key) :])

    def _fits(self, uri: str) -> bool:
        if len(uri) > MAX_URI and uri not in self._told and len(self._told) < 10_000:
            self._told.add(uri)
            _log.warning("%s is not picked up: its uri is longer than %d", uri[:200], MAX_URI)
        return len(uri) <= MAX_URI

    def _unavailable(self, error: HeadgateError) -> Unavailable:
        if isinstance(error, Unavailable):
            return error
        said = f"{self.uri} cannot be listed: {error}; nothing is taken for deleted"
        return Unavailable(said, upstream=self._address.root, hint=error.hint)


def pinned(envelope: Envelope) -> dict[str, str | None]:
    """Which version to read. A weak tag names no version; a bare one gets its quotes."""
    tag = envelope.etag
    if envelope.version_id is not None or tag is None or tag.startswith("W/"):
        return {"version": envelope.version_id}
    return {"etag": tag if tag.startswith('"') else f'"{tag}"'}


def _created(uri: str, one: Listed) -> Noticed:
    hint, strength = _hint(one)
    kind = content_type(one.key)
    return Noticed(uri, "created", hint, strength, one.last_modified, 0, one.size, kind)


def _hint(one: Listed) -> tuple[str, Strength]:
    """What hints at the version, and what that is worth.

    A version id names one version for ever; an ETag names bytes; a time and a size name little.
    """
    if one.version:
        return f"version:{one.version} {one.size}", "immutable"
    if one.etag:
        weak = one.etag.startswith("W/")
        return f"etag:{one.etag} {one.size}", "weak" if weak else "strong"
    return f"modified:{one.last_modified.isoformat()} {one.size}", "weak"


def _differs(change: Noticed, before: Known | None) -> bool:
    return before is None or before.removed or before.hint != change.hint
