"""Objects in a store: who may use the bytes. When they may go is in `garbage.py`.

Order is everything here. Touch, then look whether the bytes are there, then write them, then
finalize under the same generation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.pg import Database, Link, driver, queries

from .deferred import Deferred

Q = queries.load(__file__)

KEEP_RESULT = "SELECT headgate.keep_result($1, $2, $3)"
TOUCH = "SELECT digest, generation, present FROM headgate.touch($1, $2::bytea[], $3::bigint[])"


class Collected(NamedTuple):
    """When bytes were collected, and under which retention."""

    at: datetime
    retention: timedelta

    def __str__(self) -> str:
        days = self.retention / timedelta(days=1)
        return f"collected on {self.at:%Y-%m-%d}, retention is {days:g} days"


async def touch(
    db: Database, store: int, sizes: Mapping[bytes, int]
) -> dict[bytes, tuple[int, bool]]:
    """Announce the use of objects: their generations, and which are certainly in the store."""
    if not sizes:
        return {}
    while True:
        try:
            rows = await db.fetch(TOUCH, store, list(sizes), list(sizes.values()))
            break
        except driver.Deadlock:
            # Nobody's fault, and Postgres made us wait already: whoever was in the way goes on.
            continue
    reached(Point.TOUCHED)
    return {r["digest"]: (r["generation"], r["present"]) for r in rows}


async def stage_result(db: Database, uri: str, digest: bytes, size: int) -> tuple[Deferred, bool]:
    """Announce the result of an operation: what keeps it, said in the transaction that records the
    operation; and whether its bytes are in the store already, as far as the ledger knows.
    """
    store = await db.fetchval(Q.store, uri)
    if store is None:  # made by another caller in this moment
        store = await db.fetchval(Q.store, uri)
    generation, present = (await touch(db, store, {digest: size}))[digest]
    return (KEEP_RESULT, (store, digest, generation)), present


async def keep(link: Link, store: int, objects: Sequence[tuple[bytes, int]]) -> set[bytes]:
    """Refer to objects for good, inside the finalize transaction; those that are still live."""
    if not objects:
        return set()
    wanted = sorted(set(objects))
    rows = await link.fetch(Q.keep, store, [d for d, _ in wanted], [g for _, g in wanted])
    return {r["digest"] for r in rows}


async def available(db: Database | Link, store: int, digests: Collection[bytes]) -> set[bytes]:
    """Which of these are in the store, for whoever only asks."""
    return {r["digest"] for r in await db.fetch(Q.available, store, list(digests))}


async def hold(link: Link, store: int, digests: Collection[bytes]) -> set[bytes]:
    """Which of these are in the store, and stay while the caller's transaction makes itself known.

    For whoever is about to need them (`entry.restores`): after its commit that keeps them.
    """
    return {r["digest"] for r in await link.fetch(Q.hold, store, list(digests))}


async def kept(link: Link, store: int, digests: Collection[bytes]) -> set[bytes]:
    """Which of these are in the store now; they are only looked at."""
    return {r["digest"] for r in await link.fetch(Q.kept, store, list(digests))}


async def collected(
    db: Database | Link, store: int, digests: Collection[bytes]
) -> dict[bytes, Collected]:
    """Which of these were collected and have not come back since."""
    rows = await db.fetch(Q.collected, store, list(digests))
    return {r["digest"]: Collected(r["at"], r["retention"]) for r in rows}
