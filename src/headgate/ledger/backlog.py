"""The backlog: what is still to be done, asked by whoever would bring more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.pg import Database, Link, queries

Q = queries.load(__file__)


async def ready(db: Database | Link, pipeline: int, most: int) -> int:
    """How many entries could be worked on right now; counted up to `most`."""
    return await db.fetchval(Q.ready, pipeline, most)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A change that is not done. `waits` when its next try is further away than asked for."""

    key: bytes
    waits: bool


async def unfinished(
    db: Database, pipeline: int, keys: Sequence[bytes], soon_seconds: float
) -> list[Unfinished]:
    """Those of these changes that are still live work: neither done nor in quarantine."""
    rows = await db.fetch(Q.unfinished, pipeline, keys, soon_seconds)
    return [Unfinished(row["key"], row["waits"]) for row in rows]
