"""Objects in a store: who may use the bytes, and when they may go.

Order is everything here. Touch, then look whether the bytes are there, then write them, then
finalize under the same generation. Condemn, commit, and only then delete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.model.signal import COLLECTED, emit
from headgate.pg import Database, Link, queries

Q = queries.load(__file__)

TOUCH = "SELECT digest, generation, present FROM headgate.touch($1, $2::bytea[], $3::bigint[])"


async def touch(
    db: Database, store: int, sizes: Mapping[bytes, int]
) -> dict[bytes, tuple[int, bool]]:
    """Announce the use of objects: their generations, and which are certainly in the store."""
    if not sizes:
        return {}
    rows = await db.fetch(TOUCH, store, list(sizes), list(sizes.values()))
    reached(Point.TOUCHED)
    return {r["digest"]: (r["generation"], r["present"]) for r in rows}


async def keep(link: Link, store: int, objects: Sequence[tuple[bytes, int]]) -> set[bytes]:
    """Refer to objects for good, inside the finalize transaction; those that are still live."""
    if not objects:
        return set()
    wanted = sorted(set(objects))
    rows = await link.fetch(Q.keep, store, [d for d, _ in wanted], [g for _, g in wanted])
    return {r["digest"] for r in rows}


async def collect(
    db: Database, grace_seconds: float, delete: Callable[[str, bytes], None], most: int = 500
) -> int:
    """Remove what was staged and never used. `delete(store uri, digest)` removes the bytes."""
    async with db.transaction() as link:
        await link.fetch(Q.condemn, grace_seconds, most)
        reached(Point.BEFORE_CONDEMN)
    reached(Point.AFTER_CONDEMN)
    async with db.transaction() as link:
        rows = await link.fetch(Q.condemned, most)
        for row in rows:
            await _to_its_end(delete, row["uri"], row["digest"])
        if rows:
            reached(Point.COLLECTED)
            await link.execute(Q.forget, [r["store"] for r in rows], [r["digest"] for r in rows])
    if rows:
        emit(COLLECTED, len(rows))
    return len(rows)


async def _to_its_end(delete: Callable[[str, bytes], None], uri: str, digest: bytes) -> None:
    """Delete on a thread, and keep the row locked until that is over, cancelled or not.

    Whoever waits for the row writes the bytes anew; a thread left behind would delete those.
    """
    deleting = asyncio.create_task(asyncio.to_thread(delete, uri, digest))
    try:
        await asyncio.shield(deleting)
    except asyncio.CancelledError:
        await asyncio.wait({deleting})
        raise
