"""Entries, a page at a time, the newest first: where each of them is now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from headgate.errors import UsageError
from headgate.model.entry import DONE, RESTING, Status
from headgate.pg import Database, Link, queries

from .stretches import Page, cut, search

Q = queries.load(__file__)

EFFORT = 5_000
_LIVE = frozenset({Status.RECEIVED, Status.CLAIMED, Status.WAITING})


@dataclass(frozen=True, slots=True)
class EntryState:
    """Where one entry is now: a row of the view `entry_state`."""

    entry: int
    pipeline: str
    uri: str
    key: str
    status: str
    reason: str | None
    attempts: int
    fence: int
    event_time: datetime
    received_at: datetime
    settled_at: datetime | None
    due_at: datetime | None
    worker: str | None
    version: int | None


async def entries(
    db: Database | Link,
    *,
    pipelines: Iterable[str] | None = None,
    status: str | None = None,
    uri_like: str | None = None,
    limit: int = 50,
    before: int | None = None,
    effort: int | None = EFFORT,
) -> Page[EntryState]:
    """A page of entries, newest first. `uri_like` is a LIKE pattern.

    `effort` is how many may be looked at; None: as many as it takes. Raises `UsageError` for a
    status that no entry rests in.
    """
    named = None if pipelines is None else sorted(set(pipelines))
    below = await db.fetchval(Q.newest) + 1 if before is None else before
    if status is not None and status not in DONE:
        rows = await db.fetch(_resting(status), below, named, uri_like, limit + 1, status)
        return cut([EntryState(*row) for row in rows], limit, below)
    sql, ended = (Q.among_all, ()) if status is None else (Q.among_ended, (status,))

    async def look(place: int, low: int, most: int) -> list[EntryState]:
        rows = await db.fetch(sql, place, low, named, uri_like, most, *ended)
        return [EntryState(*row) for row in rows]

    return await search(look, below, limit, effort)


def _resting(status: str) -> str:
    if status in _LIVE:
        return Q.among_live
    if status == Status.QUARANTINED:
        return Q.among_aside
    names = ", ".join(sorted(RESTING))
    raise UsageError(f"no entry rests in status {status!r}", hint=f"use one of: {names}")


def containing(text: str) -> str:
    """A LIKE pattern for what contains this; * is any text."""
    return f"%{beginning(text).replace('*', '%')}"


def beginning(text: str) -> str:
    """A LIKE pattern for what begins with this."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"{escaped}%"
