"""What a replay is about: what is pinned now, and objects that the ledger has never seen.

Those are listed by the pipeline's own sources, or by a manifest that somebody wrote. Each must
belong to a source of the pipeline, since that is who reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from headgate.errors import UsageError
from headgate.ledger import inbox
from headgate.ledger.replay import SOURCE, Q, Unseen
from headgate.model import manifest
from headgate.model.frozen import FrozenManifest, Pins
from headgate.model.listing import NotAListing
from headgate.model.pipeline import Pipeline
from headgate.model.ports import Noticed, Polled
from headgate.pg import Database
from headgate.sources.manifest import listed
from headgate.sources.places import Places
from headgate.sources.walk import uri_of


@dataclass(frozen=True, slots=True)
class Window:
    """By event time: from `start` on, before `end`."""

    start: datetime | None = None
    end: datetime | None = None

    def has(self, at: datetime) -> bool:
        return (self.start is None or at >= self.start) and (self.end is None or at < self.end)


async def never_seen(db: Database, declared: Pipeline, window: Window) -> list[Unseen]:
    """What the polled sources of a pipeline show and the ledger does not know."""
    polled = [s for s in declared.sources if isinstance(s, Polled)]
    if not polled:
        raise UsageError(
            f"no source of {declared.name} can list its objects",
            hint="list them yourself: --manifest FILE",
        )
    number = await db.fetchval(Q.pipeline, declared.name)
    found: list[Unseen] = []
    for source in polled:
        known = {} if number is None else await inbox.known(db, number, source.name)
        scan = await asyncio.to_thread(source.scan, known, datetime.now(UTC))
        found += [
            Unseen(source.name, change)
            for change in scan.changes
            if change.kind == "created" and change.expected == 0 and window.has(change.event_time)
        ]
    return _in_order(found)


def named_in(file: Path, declared: Pipeline, window: Window) -> list[Unseen]:
    """The objects that a manifest names. Raises `UsageError` when one belongs to no source."""
    places = Places(uri_of(str(file.resolve())), (), {})
    now = datetime.now(UTC)
    found: list[Unseen] = []
    try:
        with file.open("rb") as stream:
            for row in manifest.read(stream).rows:
                change = listed(places.resolve(row.uri), row, None, now)
                if window.has(change.event_time):
                    found.append(Unseen(_owner(declared, change), change))
    except NotAListing as error:
        raise UsageError(
            f"{file} is no manifest: {error}", hint="See docs/reference/manifest.md for its forms."
        ) from error
    return _in_order(found)


def _owner(declared: Pipeline, change: Noticed) -> str:
    source = next((s for s in declared.sources if s.owns(change.uri)), None)
    if source is None:
        raise UsageError(
            f"no source of {declared.name} reads {change.uri}",
            hint="leave it out, or declare a source that covers it",
        )
    return source.name if isinstance(source, Polled) else SOURCE


def _in_order(found: list[Unseen]) -> list[Unseen]:
    return sorted(found, key=lambda one: (one.noticed.event_time, one.noticed.uri))


@dataclass(frozen=True, slots=True)
class Kept:
    """A frozen manifest that somebody kept: exactly these publications, in this window."""

    window: Window
    publications: Sequence[int]


def frozen_in(file: Path, now: Pins, accepted: Sequence[str]) -> Kept | None:
    """The frozen manifest in a file; None when it is another document.

    Raises `UsageError` when something in it is another by now, and nobody accepted that.
    """
    try:
        said = msgspec.json.decode(file.read_bytes(), type=FrozenManifest)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    differing = sorted({a for a, _ in _pins(said).differing(now)} - set(accepted))
    if differing:
        raise UsageError(
            f"{file} pins another {', '.join(differing)} than there is now",
            hint=f"bring back what it pins, or accept what is: --accept {','.join(differing)}",
        )
    inputs = said["inputs"]["list"]
    if inputs is None:
        raise UsageError(
            f"{file} does not list its inputs",
            hint="write it with them: headgate replay show ID --manifest > FILE",
        )
    start, end = said["window"]["start"], said["window"]["end"]
    window = Window(*(None if at is None else datetime.fromisoformat(at) for at in (start, end)))
    return Kept(window, [one["publication"] for one in inputs if one["publication"] is not None])


def _pins(said: FrozenManifest) -> Pins:
    def bare(digests: Mapping[str, str]) -> dict[str, str]:
        return {name: digest.removeprefix("sha256:") for name, digest in digests.items()}

    one = bare({"code": said["code"], "params": said["params"], "config": said["config"]})
    schemas, lookups = bare(said["schemas"]), bare(said["lookups"])
    return Pins(said["pipeline_version"], **one, schemas=schemas, lookups=lookups)
