"""Error budgets: what share of a pipeline's attempts may fail before it is slowed down.

While a budget is spent, retries come at the cap's pace and nobody releases entries by the dozen: a
broken handler must not eat the time of the data that still passes. It recovers by itself when the
failures leave the window. An operator may go on earlier, with a reason that is kept.
"""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from datetime import datetime

from headgate.errors import UsageError
from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.pg import Database, Link, queries

Q = queries.load(__file__)

# Fewer failures say nothing about a pipeline.
LEAST_FAILURES = 20
# Releasing up to so many is a try; more is a redrive.
A_TRY = 10


@dataclass(frozen=True, slots=True)
class Turn:
    """A pipeline whose budget was spent just now, or has recovered."""

    number: int
    pipeline: str
    spent_at: datetime | None
    failed: int | None
    attempts: int | None


async def record(link: Link, pipeline: int, failed: int) -> None:
    """Attempts that failed, inside the transaction that journals them."""
    await link.execute(Q.failed, pipeline, failed)


async def weigh(db: Database, share: float, window_seconds: float) -> list[Turn]:
    """Look at every pipeline; those that turned. Several may look at once: one of them sees it."""
    rows = await db.fetch(Q.weigh, window_seconds, share, LEAST_FAILURES)
    await db.execute(Q.forget, 2 * window_seconds + 120)
    return [Turn(*row) for row in rows]


async def spent(db: Database) -> frozenset[int]:
    """The pipelines that are slowed down now."""
    return frozenset(row["id"] for row in await db.fetch(Q.spent))


async def refuse_redrive(link: Link, entries: dict[int, int]) -> None:
    """Raise when more than a try of these (entries by pipeline) is released on a spent budget."""
    for row in await link.fetch(Q.spent):
        if entries.get(row["id"], 0) > A_TRY:
            name = row["name"]
            raise UsageError(
                f"the error budget of {name} is spent since {row['spent_at']:%F %T %Z}:"
                f" {entries[row['id']]} entries are too many to release now; nothing was changed",
                reason="budget_spent",
                hint=f"Release up to {A_TRY} to see whether they pass, wait, or: "
                f'headgate budget override {name} --because "…"',
            )


async def override(
    db: Database, pipeline: str, seconds: float, *, because: str, actor: str = ""
) -> datetime:
    """Go on at the usual pace for a while, with a reason; until when."""
    if not because.strip():
        raise UsageError("a reason is needed", hint='add: --because "why"')
    async with db.transaction() as link:
        until = await link.fetchval(Q.override, pipeline, seconds)
        if until is None:
            known = await link.fetchval(Q.known, pipeline)
            said = "its error budget is not spent" if known else "there is no such pipeline"
            raise UsageError(f"{pipeline!r}: {said}", hint="See them: headgate budget list")
        verb = f"override budget of {pipeline} for {seconds:g} s"
        await link.execute(Q.act, actor or getpass.getuser(), verb, because)
        reached(Point.BEFORE_RELEASE)
    reached(Point.AFTER_RELEASE)
    return until
