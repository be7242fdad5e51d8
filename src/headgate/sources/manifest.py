"""A manifest as a source: a list that somebody keeps of their objects and versions.

Each look reads the list and compares it with what is known; the objects it names are fetched from
where they are. The list is believed as a whole or not at all: one that is cut off, contradicts
itself, or has lost more than `shrink_limit` of its objects at once is `Unavailable`, and nothing is
taken for deleted. Its format is in docs/reference/manifest.md.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

from headgate.errors import HeadgateError, ObjectChanged, PipelineError, Unavailable
from headgate.model import manifest
from headgate.model.duration import seconds
from headgate.model.envelope import Envelope, Strength
from headgate.model.listing import NotAListing, Row, state
from headgate.model.ports import Known, Noticed, Scan, Shown
from headgate.model.secret import Secret, reveal
from headgate.net import buckets
from headgate.net.http import need_aiohttp

from .address import check_headers
from .directory import content_type
from .numbered import numbered
from .places import Places, is_web, place_of, provider_of
from .shrinking import shrank

_LENGTHS = {"sha256": 64, "md5": 32}
_log = logging.getLogger(__name__)


class Manifest:
    """The objects that a manifest names, wherever they are."""

    name: str
    every_seconds: float

    def __init__(
        self,
        where: str | os.PathLike[str],
        *,
        every: str | float = "1h",
        shrink_limit: float = 0.5,
        allow: Iterable[str] = (),
        headers: Mapping[str, str | Secret] | None = None,
        name: str | None = None,
    ) -> None:
        self.uri = place_of(where)
        self.name = name or self.uri
        self.every_seconds = seconds(every, "every")
        if self.every_seconds == 0:
            raise PipelineError(f"{self.name}: every is 0", hint='Say how often, as in every="1h".')
        if not 0 < shrink_limit <= 1:
            hint = "0.5 refuses a list that has lost more than half; 1 believes any."
            raise PipelineError(f"{self.name}: shrink_limit={shrink_limit!r}", hint=hint)
        self.shrink_limit = shrink_limit
        self._headers = check_headers(headers or {})
        self._places = Places(self.uri, allow, self._headers)
        self._told: set[str] = set()

    def check(self) -> None:
        """Raise `UsageError` when the libraries or a secret are not there. Asks no server."""
        if is_web(self.uri):
            need_aiohttp()
        elif buckets.is_bucket(self.uri):
            buckets.require(buckets.parse("/".join(self.uri.split("/", 3)[:3])))
        for value in self._headers.values():
            reveal(value)

    def scan(self, known: Mapping[str, Known], now: datetime) -> Scan:
        """Read and compare. Raises `Unavailable` rather than guess."""
        rows = self._read()
        gone = [uri for uri, was in known.items() if not was.removed and uri not in rows]
        self._refuse_shrinking(len(gone), sum(not was.removed for was in known.values()))
        changes: list[Noticed] = []
        for uri, row in rows.items():
            before = known.get(uri)
            change = listed(uri, row, before, now)
            if before is None or before.removed or before.hint != change.hint:
                changes.append(change)
        changes.sort(key=lambda change: (change.event_time, change.uri))
        changes += [
            Noticed(uri, "removed", known[uri].hint, "weak", now, known[uri].generation)
            for uri in sorted(gone)
        ]
        return Scan(changes, 0)

    def everything(self, now: datetime) -> Iterator[Shown]:
        """All that is named. Raises `Unavailable` rather than leave some out."""
        # Of each object a number and that of its state: a million rows would not fit.
        seen: dict[int, int] = {}
        with self._reading() as (rows, unit):
            for uri, row in self._resolved(rows, unit):
                if seen.setdefault(hash(uri), hash(state(row))) != hash(state(row)):
                    raise NotAListing(
                        f"{unit} {row.place:,} names an object a second time, in another version"
                    )
                yield Shown(listed(uri, row, None, now))

    def covers(self, uri: str) -> bool | None:
        """May the manifest name it? Whether it does, only the manifest says."""
        return None if self.owns(uri) else False

    def envelope(self, change: Noticed, generation: int, received_at: datetime) -> Envelope:
        """The change as an envelope, once the ledger has numbered it."""
        kind, _, told = change.hint.partition(":")
        told = told.rpartition(" ")[0]
        return numbered(
            change,
            generation,
            received_at,
            source="manifest",
            provider=provider_of(change.uri),
            etag=told if kind == "etag" else None,
            version_id=told if kind == "version" else None,
            md5=told if kind == "md5" else None,
            manifest=self.uri,
        )

    def owns(self, uri: str) -> bool:
        """May the manifest name this object?"""
        return self._places.may_read(uri)

    def fetch(self, envelope: Envelope) -> Iterator[bytes]:
        """The object's bytes. Others than the manifest names are `ObjectChanged`, at the end."""
        kind, _, told = (envelope.version_hint or "").partition(":")
        told = told.rpartition(" ")[0]
        known = len(told) == _LENGTHS.get(kind)
        check = hashlib.new(kind, usedforsecurity=False) if known else None
        size = 0
        for chunk in self._places.read(envelope):
            size += len(chunk)
            if check is not None:
                check.update(chunk)
            yield chunk
        if envelope.size is not None and size != envelope.size:
            said = f"{size:,} bytes, and the manifest says {envelope.size:,}"
            raise ObjectChanged(f"{envelope.uri} has {said}")
        if check is not None and check.hexdigest() != told:
            raise ObjectChanged(f"{envelope.uri} has another {kind} than the manifest says")

    def _read(self) -> dict[str, Row]:
        """What the manifest names, by uri."""
        found: dict[str, Row] = {}
        with self._reading() as (rows, unit):
            for uri, row in self._resolved(rows, unit):
                other = found.setdefault(uri, row)
                if other is not row and state(other) != state(row):
                    raise NotAListing(
                        f"{unit}s {other.place:,} and {row.place:,} name the same object"
                        " in two versions"
                    )
        return found

    @contextmanager
    def _reading(self) -> Generator[tuple[Iterable[Row], str]]:
        """Its rows, and what their places are counted in."""
        try:
            with self._places.manifest() as stream:
                found = manifest.read(stream)
                yield found.rows, found.unit
        except NotAListing as error:
            said = f"{self.uri} is no complete manifest: {error}; nothing is taken for deleted"
            hint = "Publish it whole: write it under another name and rename it."
            raise Unavailable(said, upstream=self.uri, hint=hint) from error
        except Unavailable:
            raise
        except (HeadgateError, OSError) as error:
            hint = error.hint if isinstance(error, HeadgateError) else ""
            said = f"{self.uri} cannot be read: {error}; nothing is taken for deleted"
            raise Unavailable(said, upstream=self.uri, hint=hint) from error

    def _resolved(self, rows: Iterable[Row], unit: str) -> Iterator[tuple[str, Row]]:
        for row in rows:
            try:
                uri = self._places.resolve(row.uri)
            except UnicodeDecodeError:
                raise NotAListing(f"{unit} {row.place:,}: its uri is no text") from None
            if self._places.may_read(uri):
                yield uri, row
            else:
                self._tell(uri)

    def _refuse_shrinking(self, gone: int, live: int) -> None:
        if shrank(gone, live, self.shrink_limit):
            raise Unavailable(
                f"{self.uri} has lost {gone:,} of {live:,} objects since the last look;"
                " nothing is taken for deleted",
                upstream=self.uri,
                reason="manifest_shrank",
                hint="Publish it whole. If they are really gone, declare the manifest with "
                "shrink_limit=1 until the next look has seen it.",
            )

    def _tell(self, uri: str) -> None:
        if uri not in self._told and len(self._told) < 10_000:
            self._told.add(uri)
            _log.warning(
                "%s is not picked up: it lies elsewhere than %s; allow=[…] names other places",
                uri[:200],
                self.name,
            )


def _hint(row: Row) -> tuple[str, Strength]:
    """What hints at the version, and what that is worth. The name of the version comes first."""
    size = "" if row.size is None else row.size
    if row.version:
        weak = row.named == "etag" and row.version.startswith("W/")
        return f"{row.named}:{row.version} {size}", "weak" if weak else "strong"
    if row.modified is not None:
        return f"modified:{row.modified.astimezone(UTC).isoformat()} {size}", "weak"
    return f"listed: {size}", "weak" if row.size is not None else "none"


def listed(uri: str, row: Row, before: Known | None, now: datetime) -> Noticed:
    """An object of a manifest as something that was noticed."""
    hint, strength = _hint(row)
    return Noticed(
        uri=uri,
        kind="created",
        hint=hint,
        strength=strength,
        event_time=now if row.modified is None else min(row.modified, now),
        expected=before.generation if before is not None else 0,
        size=row.size,
        content_type=content_type(uri.rpartition("/")[2]),
        clock="received" if row.modified is None else "object",
    )
