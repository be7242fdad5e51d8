"""Quarantine: what a person has to decide. Nothing in here is lost, and nothing runs by itself."""

from __future__ import annotations

import getpass
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headgate.errors import UsageError
from headgate.model.crash import reached
from headgate.model.entry import Point, Status
from headgate.model.verdict import QuarantineClass
from headgate.pg import Database, Link, queries

from . import budget, gate, journal

Q = queries.load(__file__)


@dataclass(frozen=True, slots=True)
class Aside:
    """An entry on its way into quarantine."""

    entry: int
    subject: int
    fence: int
    attempts: int
    classed: QuarantineClass
    reason: str
    error: str
    preview: str | None
    content: bytes | None
    first_at: datetime | None
    part: int | None = None


async def enter(link: Link, pipeline: int, deployment: int, rows: Sequence[Aside]) -> None:
    """Set entries aside, inside the transaction that journals it."""
    if rows:
        await link.execute(
            Q.enter,
            pipeline,
            deployment,
            [r.entry for r in rows],
            [r.subject for r in rows],
            [r.fence for r in rows],
            [r.attempts for r in rows],
            [r.classed for r in rows],
            [r.reason for r in rows],
            [_text(r.error) for r in rows],
            [_text(r.preview) for r in rows],
            [r.content for r in rows],
            [r.first_at for r in rows],
            [r.part for r in rows],
        )


def _text(text: str | None) -> str | None:
    # Postgres text holds no NUL, and an error message may hold anything.
    return None if text is None else text.replace("\0", "\ufffd")[:8192]


async def release(
    db: Database, entries: Sequence[int], *, because: str, actor: str = ""
) -> list[int]:
    """Let entries run again from the start: fresh attempts, same key, same place in their order."""
    return await _decide(db, entries, "release", because, actor)


async def discard(
    db: Database, entries: Sequence[int], *, because: str, actor: str = ""
) -> list[int]:
    """Decide that these entries will not be processed. The reason stays in the journal."""
    return await _decide(db, entries, "discard", because, actor)


async def _decide(
    db: Database, entries: Sequence[int], verb: str, because: str, actor: str
) -> list[int]:
    if not because.strip():
        raise UsageError("a reason is needed", hint='add: --because "why"')
    outcome = Status.RECEIVED if verb == "release" else Status.ROLLED_BACK
    async with db.transaction() as link:
        taken = await link.fetch(Q.take, sorted(set(entries)))
        if not taken:
            return []
        if verb == "release":
            await budget.refuse_redrive(link, Counter(r["pipeline"] for r in taken))
        await link.execute(
            Q.act, actor or getpass.getuser(), verb, because, sorted(r["entry"] for r in taken)
        )
        for pipeline in sorted({r["pipeline"] for r in taken}):
            rows = [r for r in taken if r["pipeline"] == pipeline]
            if verb == "release":
                back = [
                    gate.Stay(
                        r["entry"],
                        r["subject"],
                        r["fence"],
                        0,
                        0,
                        False,
                        None,
                        None,
                        None,
                        r["part"],
                    )
                    for r in rows
                ]
                await gate.stay(link, pipeline, back)
            await journal.seal(
                link,
                pipeline,
                [
                    journal.Line(
                        r["entry"], r["fence"], outcome, 0, None, verb, f"quarantined {outcome}"
                    )
                    for r in sorted(rows, key=lambda r: r["entry"])
                ],
            )
        reached(Point.BEFORE_RELEASE)
    reached(Point.AFTER_RELEASE)
    return sorted(r["entry"] for r in taken)


async def totals(db: Database) -> dict[str, int]:
    """How many entries of each pipeline wait for a decision."""
    return {r["pipeline"]: r["entries"] for r in await db.fetch(Q.totals)}
