"""Activity: who decided what, and why.

A decision about many entries at once (a release of a thousand) has a row for each. They are told
as one deed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from headgate.pg import Database, queries

Q = queries.load(__file__)

# So many rows are read at most for a page; a deed of more goes on on the next one.
ROWS = 1000
# So many are looked over for a page, however few of them fit: the next one goes on from there.
EFFORT = 5000
# The rows of one decision are written by one statement.
AT_ONCE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Action:
    """One row: somebody decided something, about one entry or about none."""

    id: int
    at: datetime
    actor: str
    verb: str
    entry: int | None
    because: str
    uri: str | None
    pipeline: str | None


@dataclass(frozen=True, slots=True)
class Deed:
    """What somebody did at once. `entries` are the newest first."""

    actor: str
    verb: str
    because: str
    at: datetime
    pipeline: str | None
    entries: list[int]
    uri: str | None  # of the entry, where it is about one
    last_id: int


@dataclass(frozen=True, slots=True)
class Page:
    """Some decisions. The next page is what comes before `place`, if there may be `more`."""

    rows: list[Action]
    place: int
    more: bool


async def actions(
    db: Database,
    *,
    actor: str | None = None,
    pipeline: str | None = None,
    since: datetime | None = None,
    before_id: int | None = None,
    limit: int = 50,
) -> Page:
    """A page of decisions, newest first. It may have fewer than `limit`, and more follow."""
    before: int = await db.fetchval(Q.newest) + 1 if before_id is None else before_id
    low = max(before - EFFORT, 1)
    found = await db.fetch(Q.page, before, low, actor, pipeline, since, limit + 1)
    rows = [Action(*row) for row in found[:limit]]
    if len(found) > limit:
        return Page(rows, rows[-1].id, True)
    return Page(rows, low, low > 1)


def deeds(rows: Iterable[Action], most: int) -> list[Deed]:
    """Rows that were written by one decision, as one deed; the first `most` of them."""
    told: list[Deed] = []
    group: list[Action] = []
    for row in rows:
        if group and not _together(group[-1], row):
            told.append(_deed(group))
            group = []
            if len(told) == most:
                break
        group.append(row)
    return [*told, _deed(group)] if group else told


def _together(newer: Action, older: Action) -> bool:
    """Were both written at once? What is about no entry is a deed of its own."""
    if newer.entry is None or older.entry is None:
        return False
    said = attrgetter("actor", "verb", "because", "pipeline")
    near = (newer.at - older.at).total_seconds() < AT_ONCE_SECONDS
    return near and said(newer) == said(older)


def _deed(rows: Sequence[Action]) -> Deed:
    first = rows[0]
    entries = [row.entry for row in rows if row.entry is not None]
    uri = first.uri if len(entries) == 1 else None
    return Deed(
        first.actor, first.verb, first.because, first.at, first.pipeline, entries, uri, rows[-1].id
    )
