"""Activity: who decided what, and why.

A decision about many entries at once (a release of a thousand) has a row for each. They are told
as one deed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from headgate.pg import Database, queries

Q = queries.load(__file__)

NEWEST = 2**63 - 1
# So many rows are read at most for a page; a deed of more goes on on the next one.
ROWS = 1000


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


async def actions(
    db: Database,
    *,
    actor: str | None = None,
    pipeline: str | None = None,
    since: datetime | None = None,
    before_id: int | None = None,
    limit: int = 50,
) -> list[Action]:
    """A page of decisions, newest first; the next one begins before the last id of this one."""
    before = NEWEST if before_id is None else before_id
    rows = await db.fetch(Q.page, before, actor, pipeline, since, limit)
    return [Action(*row) for row in rows]


def deeds(rows: Iterable[Action], most: int) -> list[Deed]:
    """Rows in a row that were one decision, as one; the first `most` of them."""
    told: list[Deed] = []
    for (actor, verb, because, pipeline), group in groupby(
        rows, key=lambda a: (a.actor, a.verb, a.because, a.pipeline)
    ):
        told.append(_deed(actor, verb, because, pipeline, list(group)))
        if len(told) == most:
            break
    return told


def _deed(
    actor: str, verb: str, because: str, pipeline: str | None, rows: Sequence[Action]
) -> Deed:
    entries = [row.entry for row in rows if row.entry is not None]
    uri = rows[0].uri if len(entries) == 1 else None
    return Deed(actor, verb, because, rows[0].at, pipeline, entries, uri, rows[-1].id)
