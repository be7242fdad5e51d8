"""What is in quarantine, for whoever looks: counted, listed, and one entry in full.

A page begins below an entry (`before`), so it costs the same however much there is beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import orjson

from headgate.errors import UsageError
from headgate.pg import Database, queries

from .redrive import Wanted

Q = queries.load(__file__)

NEWEST = 2**63 - 1
ANY = Wanted()


class _Told:
    __slots__ = ()

    def document(self) -> dict[str, Any]:
        """For programs: by the names that the ledger has."""
        named = fields(self)  # pyright: ignore[reportArgumentType] -- those below are dataclasses
        return {_NAMES.get(f.name, f.name): getattr(self, f.name) for f in named}


_NAMES = {"classed": "class"}


@dataclass(frozen=True, slots=True)
class Alike(_Told):
    """Entries of one pipeline that were set aside for one reason.

    `other_code` of them failed by code that is not what runs now; `example` is the newest.
    """

    pipeline: str
    classed: str
    reason: str
    entries: int
    first_at: datetime
    last_at: datetime
    other_code: int
    example: int

    @property
    def code(self) -> str:
        """Did the code that runs now set them aside? What failed by older code may pass."""
        if not self.other_code:
            return "as now"
        return "older" if self.other_code == self.entries else "both"


@dataclass(frozen=True, slots=True)
class Line(_Told):
    """One entry in a list."""

    entry: int
    pipeline: str
    classed: str
    reason: str
    error: str
    attempts: int
    first_at: datetime
    last_at: datetime
    uri: str


@dataclass(frozen=True, slots=True)
class Discard(_Told):
    """One entry that somebody decided not to process, and that can still come back."""

    entry: int
    pipeline: str
    classed: str
    reason: str
    error: str
    at: datetime
    actor: str | None
    because: str | None
    uri: str


@dataclass(frozen=True, slots=True)
class Case(_Told):
    """Everything that is known of one entry in quarantine. The preview is masked; digests are hex.

    `redrives` are the plans that released it or are about to.
    """

    entry: int
    pipeline: str
    uri: str
    classed: str
    reason: str
    error: str
    attempts: int
    fence: int
    first_at: datetime
    last_at: datetime
    event_time: datetime
    received_at: datetime
    preview: str | None
    content: str | None
    version: str
    code: str
    code_now: str
    released: int
    redrives: list[int]
    failures: list[dict[str, Any]]


async def summary(db: Database, wanted: Wanted = ANY) -> list[Alike]:
    """What waits for a decision, counted by pipeline, class and reason; the most first."""
    return [Alike(*row) for row in await db.fetch(Q.summary, *_asked(wanted))]


async def listed(
    db: Database, wanted: Wanted = ANY, *, limit: int, before: int | None = None
) -> list[Line]:
    """What waits for a decision, the newest entry first."""
    rows = await db.fetch(Q.listed, *_asked(wanted), before or NEWEST, limit)
    return [Line(*row) for row in rows]


async def discards(
    db: Database, wanted: Wanted = ANY, *, limit: int, before: int | None = None
) -> list[Discard]:
    """What was discarded and can still be brought back, the newest entry first."""
    rows = await db.fetch(Q.discards, *_asked(wanted), before or NEWEST, limit)
    return [Discard(*row) for row in rows]


async def case(db: Database, entry: int) -> Case | None:
    """One entry in full; None when it is not in quarantine."""
    row = await db.fetchrow(Q.case, entry)
    return None if row is None else Case(*row[:-1], failures=orjson.loads(row["failures"]))


def not_there(entries: list[int], where: str = "in quarantine") -> UsageError:
    """The refusal of a decision about what is somewhere else."""
    named = ", ".join(str(e) for e in entries)
    return UsageError(
        f"not {where}: {named}; nothing was changed",
        hint=f"See what became of it: headgate entry show {entries[0]}",
    )


def _asked(of: Wanted) -> tuple[Any, ...]:
    return of.pipeline, of.classed, of.reason, of.since
