"""Quarantine: what a person has to decide. Nothing in here is lost, and nothing runs by itself."""

from __future__ import annotations

import getpass
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import get_args

from headgate.errors import UsageError
from headgate.model.crash import reached
from headgate.model.entry import Point, Status
from headgate.model.verdict import QuarantineClass
from headgate.pg import Database, Link, Record, queries

from . import budget, gate, journal
from . import object as objects

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
    _reasoned(because)
    async with db.transaction() as link:
        taken = await take(link, entries)
        await budget.refuse_redrive(link, Counter(r["pipeline"] for r in taken))
        await put_back(link, taken, because=because, actor=actor)
        reached(Point.BEFORE_RELEASE)
    reached(Point.AFTER_RELEASE)
    return [r["entry"] for r in taken]


async def discard(
    db: Database, entries: Sequence[int], *, because: str, actor: str = ""
) -> list[int]:
    """Decide that these entries will not be processed. It can be undone inside the retention."""
    _reasoned(because)
    async with db.transaction() as link:
        await link.execute(Q.remember, sorted(set(entries)))
        taken = await take(link, entries)
        await _decide(link, taken, "discard", "quarantined rolled_back", because, actor)
        reached(Point.BEFORE_RELEASE)
    reached(Point.AFTER_RELEASE)
    return [r["entry"] for r in taken]


async def undiscard(
    db: Database, entries: Sequence[int], *, because: str, actor: str = ""
) -> list[int]:
    """Put discarded entries back into quarantine, as they were. None of them runs by that."""
    _reasoned(because)
    async with db.transaction() as link:
        back = await link.fetch(Q.recall, sorted(set(entries)))
        await _hold(link, back)
        await _decide(link, back, "undiscard", "rolled_back quarantined", because, actor)
        reached(Point.BEFORE_RELEASE)
    reached(Point.AFTER_RELEASE)
    return [r["entry"] for r in back]


async def forget_discarded(db: Database, retention_days: float) -> None:
    """Discards that are older than the retention stay discarded."""
    await db.execute(Q.forget_discarded, retention_days)


def _reasoned(because: str) -> None:
    if not because.strip():
        raise UsageError("a reason is needed", hint='add: --because "why"')


async def take(
    link: Link, entries: Sequence[int], fences: Sequence[int] | None = None
) -> list[Record]:
    """Take entries out of quarantine, by number; who comes second finds none.

    With fences: only those that have not failed again since.
    """
    if not entries:
        return []
    rows = await link.fetch(Q.take, list(entries), None if fences is None else list(fences))
    return sorted(rows, key=itemgetter("entry"))


async def put_back(link: Link, taken: Sequence[Record], *, because: str, actor: str) -> None:
    """Make what was taken out live work again, and say so. Only COMMIT may follow."""
    for pipeline in sorted({r["pipeline"] for r in taken}):
        back = [
            gate.Stay(
                r["entry"], r["subject"], r["fence"], 0, 0, False, None, None, None, r["part"]
            )
            for r in taken
            if r["pipeline"] == pipeline
        ]
        await gate.stay(link, pipeline, back)
    await _decide(link, taken, "release", "quarantined received", because, actor)


async def _decide(
    link: Link, rows: Sequence[Record], verb: str, steps: str, because: str, actor: str
) -> None:
    """Who decided what, and the lines of the journal that say so."""
    if not rows:
        return
    numbers = [r["entry"] for r in rows]
    await link.execute(Q.act, actor or getpass.getuser(), verb, because, numbers)
    outcome = Status(steps.rpartition(" ")[2])
    for pipeline in sorted({r["pipeline"] for r in rows}):
        lines = [
            journal.Line(r["entry"], r["fence"], outcome, 0, None, verb, steps)
            for r in rows
            if r["pipeline"] == pipeline
        ]
        await journal.seal(link, pipeline, lines)


async def _hold(link: Link, rows: Sequence[Record]) -> None:
    """What comes back can be run again: its bytes are there, and stay."""
    for store in sorted({r["store"] for r in rows}):
        needed = {r["content"]: r["entry"] for r in rows if r["store"] == store and r["kept"]}
        gone = needed.keys() - await objects.hold(link, store, needed.keys())
        if gone:
            entry = min(needed[digest] for digest in gone)
            raise UsageError(
                f"the bytes of entry {entry} are not in the store any more; nothing was changed",
                hint="Have the source send it again; a new change has a key of its own.",
            )


async def totals(db: Database) -> dict[tuple[str, str], int]:
    """How many entries of each pipeline and class wait for a decision, noughts included."""
    rows = await db.fetch(Q.totals)
    counted = {(r["pipeline"], r["class"]): r["entries"] for r in rows if r["class"] is not None}
    # A gauge keeps its last value: where there is nothing it has to say so.
    every = {(r["pipeline"], classed): 0 for r in rows for classed in get_args(QuarantineClass)}
    return every | counted


async def sources(db: Database) -> dict[str, list[str]]:
    """Who has told each pipeline anything, by name."""
    return {row["pipeline"]: row["sources"] for row in await db.fetch(Q.sources)}


async def by_source(db: Database, pipeline: str) -> dict[str, int]:
    """How many entries of a pipeline wait for a decision, by the source that told them."""
    return {row["source"]: row["entries"] for row in await db.fetch(Q.by_source, pipeline)}
