"""Entries, a page at a time, the newest first.

What is rare could be anywhere among a million. A page is looked for in stretches that grow, and a
caller who must answer in time says how many entries may be looked at: then a page can be short and
have more behind it, and says where to go on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from headgate.errors import UsageError
from headgate.model.entry import DONE, RESTING, Status
from headgate.pg import Database, Link, Record, queries

Q = queries.load(__file__)

EFFORT = 5_000
WIDEST = 5_000
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


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries. The next page begins below `before`, if there is or may be `more`."""

    entries: list[EntryState]
    before: int
    more: bool


async def entries(
    db: Database | Link,
    *,
    pipelines: Iterable[str] | None = None,
    status: str | None = None,
    uri_like: str | None = None,
    limit: int = 50,
    before: int | None = None,
    effort: int | None = EFFORT,
) -> Page:
    """A page of entries, newest first. `uri_like` is a LIKE pattern.

    `effort` is how many may be looked at; None: as many as it takes. Raises `UsageError` for a
    status that no entry rests in.
    """
    named = None if pipelines is None else sorted(set(pipelines))
    below = await db.fetchval(Q.newest) + 1 if before is None else before
    if status is not None and status not in DONE:
        rows = await db.fetch(_resting(status), below, named, uri_like, limit + 1, status)
        return _page(rows, limit, below, more=False)
    sql, more = (Q.among_all, ()) if status is None else (Q.among_ended, (status,))
    found: list[Record] = []
    looked, width, place = 0, 2 * (limit + 1), below
    while place > 1 and len(found) <= limit and (effort is None or looked < effort):
        low = max(place - width, 1)
        found += await db.fetch(sql, place, low, named, uri_like, limit + 1 - len(found), *more)
        looked, width, place = looked + place - low, min(4 * width, WIDEST), low
    return _page(found, limit, place, more=place > 1)


def _resting(status: str) -> str:
    if status in _LIVE:
        return Q.among_live
    if status == Status.QUARANTINED:
        return Q.among_aside
    names = ", ".join(sorted(RESTING))
    raise UsageError(f"no entry rests in status {status!r}", hint=f"use one of: {names}")


def _page(rows: list[Record], limit: int, below: int, *, more: bool) -> Page:
    found = [EntryState(*row) for row in rows]
    if len(found) > limit:
        return Page(found[:limit], found[limit - 1].entry, True)
    return Page(found, below, more)


def containing(text: str) -> str:
    """A LIKE pattern for what contains this; * is any text."""
    return f"%{beginning(text).replace('*', '%')}"


def beginning(text: str) -> str:
    """A LIKE pattern for what begins with this."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"{escaped}%"
