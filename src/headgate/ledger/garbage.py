"""Garbage: bytes that nothing refers to any more, and how they go without hurting anybody.

    look → condemn, commit → delete the bytes → forget, commit

Two kinds go: what was staged by somebody who never finished, after the grace period; and what was
kept and nothing needs, after the retention. Looking takes no lock and may be long ago when its
answer is used: whoever refers to an object writes its row, and a row that was written since `look`
saw it is left alone. Condemning takes the generation away from whoever staged the bytes before, so
that it cannot finalize with them. Deleting holds the row: whoever wants the bytes waits, and writes
them anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from headgate.errors import HeadgateError
from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.model.signal import COLLECTED, COLLECTED_BYTES, emit
from headgate.pg import Database, Record, queries

Q = queries.load(__file__)

DAY_SECONDS = 86_400.0
# Deleted beside each other, and deleted under one lock. Who needs one of them waits for that long.
AT_ONCE = 8
CHUNK = 96

Delete = Callable[[str, bytes], None]
"""Removes the bytes from the store with this uri. Harmless when they are gone."""


@dataclass(frozen=True, slots=True)
class Garbage:
    """An object that nothing needed when it was looked for."""

    store: int
    digest: bytes
    size: int
    touched_at: datetime
    seen: int


@dataclass(slots=True)
class Deleted:
    """What went, and which stores could not be used and why."""

    objects: int = 0
    bytes: int = 0
    away: dict[str, HeadgateError] = field(default_factory=dict[str, HeadgateError])

    def add(self, other: Deleted) -> None:
        self.objects += other.objects
        self.bytes += other.bytes
        self.away |= other.away


async def due(db: Database, every_seconds: float) -> bool:
    """Is it time to look? Says so to one of all who ask."""
    return bool(await db.fetchval(Q.due, every_seconds))


async def look(
    db: Database, retention_days: float, grace_seconds: float, most: int
) -> list[Garbage]:
    """Kept objects that nothing needs, the oldest first. Reads much, and locks nothing."""
    async with db.transaction() as link:
        await link.fetch(Q.by_hash)
        rows = await link.fetch(Q.look, retention_days * DAY_SECONDS, grace_seconds, most)
    return [Garbage(*row) for row in rows]


async def on_its_way(db: Database, grace_seconds: float, most: int) -> list[Garbage]:
    """What the next round takes without looking: staged and left behind, or condemned."""
    return [Garbage(*row) for row in await db.fetch(Q.on_its_way, grace_seconds, most)]


async def condemn(
    db: Database,
    grace_seconds: float,
    retention_days: float = 0.0,
    found: Sequence[Garbage] = (),
    most: int = 500,
) -> int:
    """Take the generation from what was left behind, and from what `look` found and is as it was.

    How many were left behind; `most` at a time.
    """
    async with db.transaction() as link:
        left = await link.fetch(Q.condemn_staged, grace_seconds, most)
        if found:
            seen = {(g.store, g.digest): g.seen for g in found}
            rows = await link.fetch(
                Q.lock_kept, [store for store, _ in seen], [digest for _, digest in seen]
            )
            same = [r for r in rows if seen[r["store"], r["digest"]] == r["seen"]]
            await link.execute(
                Q.condemn_kept,
                [r["store"] for r in same],
                [r["digest"] for r in same],
                retention_days * DAY_SECONDS,
            )
        reached(Point.BEFORE_CONDEMN)
    reached(Point.AFTER_CONDEMN)
    return len(left)


async def delete(
    db: Database, remove: Delete, away: Collection[str] = (), most: int = CHUNK
) -> Deleted:
    """Delete the bytes of condemned objects and forget them, except in stores that are `away`."""
    done = Deleted()
    async with db.transaction() as link:
        rows = await link.fetch(Q.condemned, most, list(away))
        gone: list[Record] = []
        for start in range(0, len(rows), AT_ONCE):
            # The rows are ours for as long as this connection lives. When it is gone, others may
            # be writing these bytes again.
            await link.execute("SELECT 1")
            part = rows[start : start + AT_ONCE]
            here = [r for r in part if r["uri"] not in done.away]
            for row, error in zip(here, await _remove(remove, here), strict=True):
                if error is None:
                    gone.append(row)
                else:
                    done.away[row["uri"]] = error
        if gone:
            reached(Point.COLLECTED)
            await link.execute(Q.forget, [r["store"] for r in gone], [r["digest"] for r in gone])
    done.objects, done.bytes = len(gone), sum(r["size"] for r in gone)
    if gone:
        emit(COLLECTED, done.objects)
        emit(COLLECTED_BYTES, done.bytes)
    return done


async def _remove(remove: Delete, rows: Sequence[Record]) -> list[HeadgateError | None]:
    """Delete on threads, and keep the rows locked until that is over, cancelled or not.

    Whoever waits for a row writes the bytes anew; a thread left behind would delete those.
    """
    deleting = [
        asyncio.create_task(asyncio.to_thread(_try, remove, r["uri"], r["digest"])) for r in rows
    ]
    try:
        return await asyncio.shield(asyncio.gather(*deleting))
    except BaseException:
        if deleting:
            await asyncio.wait(deleting)
        raise


def _try(remove: Delete, uri: str, digest: bytes) -> HeadgateError | None:
    try:
        remove(uri, digest)
    except HeadgateError as error:
        return error
    return None
