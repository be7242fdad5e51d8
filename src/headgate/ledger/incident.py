"""Incidents: what ran out of attempts or was escalated, told to whoever is on call, now and then.

A row is taken before it is told, so that of several supervisors one tells it; one that dies in
between tells nothing, and the next exhausted entry is told with a count that includes these.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headgate.pg import Database, queries

Q = queries.load(__file__)


@dataclass(frozen=True, slots=True)
class Incident:
    """Entries of one pipeline that were given up for one reason. `error` is masked."""

    pipeline: str
    classed: str
    reason: str
    entries: int
    first_at: datetime
    last_at: datetime
    entry: int
    error: str


async def take(db: Database, every_seconds: float) -> list[Incident]:
    """What is to be told now; for everybody else it counts as told."""
    return [Incident(*row) for row in await db.fetch(Q.take, every_seconds)]


async def untold(db: Database, incident: Incident) -> None:
    """It could not be told after all."""
    await db.execute(Q.untold, incident.pipeline, incident.classed, incident.reason)


async def escalated(db: Database, pipeline: str, task: str, every_seconds: float) -> int | None:
    """A caller of an operation calls for a person: how many have so far, if it is to be told."""
    row = await db.fetchrow(Q.escalated, pipeline, task, every_seconds)
    assert row is not None
    return row["times"] if row["ours"] else None


async def escalation_untold(db: Database, pipeline: str, task: str) -> None:
    """It could not be told after all: the next caller tells it."""
    await db.execute(Q.escalation_untold, pipeline, task)
