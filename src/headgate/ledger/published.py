"""What readers see, for whoever looks: listed, one in full, its versions, and what it changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headgate.errors import UsageError
from headgate.model import delta
from headgate.model.facts import Facts, Version
from headgate.model.mask import mask_uri
from headgate.pg import Database, Link, queries

from . import facts, history, revert
from .stretches import Page, search

Q = queries.load(__file__)

EFFORT = 20_000


@dataclass(frozen=True, slots=True)
class Line:
    """One publication in a list. `content` is the SHA-256 of its object, in hex."""

    entry: int
    pipeline: str
    uri: str
    version: int
    removed: bool
    content: str
    reverts: int | None
    replays: int | None
    received_at: datetime
    predecessor: int | None
    successor: int | None

    @property
    def what(self) -> str:
        """What it is, in a word or two."""
        return what(self.removed, self.reverts, self.successor)


async def publications(
    db: Database | Link,
    *,
    pipelines: Iterable[str] | None = None,
    uri_like: str | None = None,
    every: bool = False,
    limit: int = 50,
    before: int | None = None,
    effort: int | None = EFFORT,
) -> Page[Line]:
    """What readers see, the latest first; with `every`, all versions.

    `effort` is how many entries may be looked over; None: as many as it takes.
    """
    named = None if pipelines is None else sorted(set(pipelines))
    below = await db.fetchval(Q.newest) + 1 if before is None else before

    async def look(place: int, low: int, most: int) -> list[Line]:
        rows = await db.fetch(Q.listed, place, low, named, uri_like, every, most)
        return [Line(*row) for row in rows]

    return await search(look, below, limit, effort)


async def publication(db: Database, entry: int) -> Facts | None:
    """What an entry published; None when it published nothing."""
    found = await facts.of_publications(db, [entry])
    return found[0] if found else None


async def find(db: Database, which: str) -> int | None:
    """The entry that is meant by a journal line or by a uri, whose head it is; None: neither.

    Raises `UsageError` for a line that published nothing.
    """
    if (line := await history.at_pointer(db, which)) is not None:
        entry, outcome = line
        if outcome != "finalized":
            raise UsageError(
                f"journal line {which} of entry {entry} ended {outcome}: it published nothing",
                hint=f"See its lines: headgate entry show {entry}",
            )
        return entry
    if which.strip().isdecimal():
        return None
    return await db.fetchval(Q.head_of, history.uris(which))


async def versions(db: Database | Link, entry: int, limit: int) -> list[Facts]:
    """All versions of the uri that a publication is of, the newest first."""
    entries = [r["entry"] for r in await db.fetch(Q.versions, entry, limit)]
    return (await facts.of_publications(db, entries))[::-1]


async def version(db: Database, told: Facts, number: int) -> Version | None:
    """A version before a publication, by its number. Raises `UsageError` when there is none."""
    entry = await db.fetchval(revert.Q.version, told.entry, number)
    if entry is None:
        raise UsageError(
            f"there is no version {number} before publication {told.entry}",
            hint=f"headgate publication show {told.entry}",
        )
    found = await publication(db, entry)
    return None if found is None else found.version


async def diff(db: Database, told: Facts, since: int | None = None) -> dict[str, Any]:
    """What a publication changed for readers: its delta manifest; or since an older version."""
    if since is None:
        return delta.manifest(told)
    made = delta.between(await version(db, told, since), told.version)
    return {"adds": made.adds, "replaces": made.replaces, "removes": made.removes}


def what(removed: bool, reverts: int | None, successor: int | None) -> str:
    """What a publication is, in a word or two."""
    said = "removed" if removed else "reverted" if reverts is not None else "published"
    return said if successor is None else f"{said}, replaced"


def document(told: Facts) -> dict[str, Any]:
    """For programs: the facts, without what would be said twice."""
    return {
        "entry": told.entry,
        "run": told.run,
        "pipeline": told.pipeline,
        "pipeline_version": told.pipeline_version,
        "code": told.code,
        "uri": mask_uri(told.envelope.uri),
        "at": told.at,
        "event_time": told.envelope.event_time,
        "key": told.key,
        "effect": told.effect,
        "version": told.version,
        "predecessor": None if told.before is None else told.before.entry,
        "successor": None if told.successor is None else told.successor[0],
        "reverts": told.reverts,
        "restores": told.restores,
        "replays": told.replays,
        "because": told.because,
        "actor": told.actor,
        "checks": told.checks,
        "item": told.item,
    }
