"""Pace: how a pipeline is held back, inside the claim, so that no claimer can get around it.

Partitions: so many entries of one bucket or folder at once, counted in rows of their own.
Bursts: the first change of an object runs at once; what follows within the window waits, and all
but the newest of it is folded. Retries: a rate, however many entries failed together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.pg import Database, queries

from .gate import Claim

Q = queries.load(__file__)


@dataclass(frozen=True, slots=True)
class Pace:
    """How a pipeline is held back."""

    per_partition: int | None = None
    coalesce_seconds: float | None = None
    retries_per_second: float = 100.0


async def started(db: Database, claims: Sequence[Claim]) -> None:
    """A burst begins with these: for a while, what follows of their subjects waits and folds.

    Not in the claim's own transaction: a window that was lost to a crash costs an early run.
    """
    begun = [c for c in claims if not c.superseded]
    if begun:
        await db.execute(Q.started, begun[0].pipeline, [c.subject for c in begun])


async def forget(db: Database) -> None:
    """Bursts that are over, and partitions that hold nothing."""
    await db.execute(Q.forget)
