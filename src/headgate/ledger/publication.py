"""Publications: what readers see. A head moves only from the publication it was derived from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.pg import Database, Link, queries

from .arrays import column

Q = queries.load(__file__)

PUBLISH = (
    "SELECT headgate.publish($1, $2, $3::bigint[], $4::text[], $5::int[], $6::bigint[], $7::bool[],"
    " $8::bytea[], $9::bytea[], $10::text[], $11)"
)


@dataclass(slots=True, eq=False)
class Publication:
    """A version of what one uri stands for. `artifacts` is a JSON array, or None."""

    entry: int
    uri: str
    version: int
    predecessor: int | None
    removed: bool
    content: bytes
    effect: bytes
    artifacts: str | None


async def publish(
    link: Link, pipeline: int, deployment: int, publications: Sequence[Publication]
) -> set[int]:
    """Make these the heads of their uris; the entries that lost a race, in which case none did.

    Raises a unique violation when a first version finds a head: ask `with_heads` whose.
    """
    if not publications:
        return set()
    told = sorted(publications, key=lambda p: p.uri)
    lost: list[int] = await link.fetchval(
        PUBLISH,
        pipeline,
        deployment,
        [p.entry for p in told],
        [p.uri for p in told],
        column([p.version for p in told]),
        column([p.predecessor for p in told]),
        column([p.removed for p in told]),
        [p.content for p in told],
        [p.effect for p in told],
        column([p.artifacts for p in told]),
        any(p.predecessor is not None for p in told),
    )
    return set(lost)


async def see(link: Link, heads: Sequence[tuple[int, int]]) -> None:
    """Heads that were compared with a newer change of the same bytes: (head, change)."""
    if heads:
        await link.executemany(Q.see, sorted(heads))


async def with_heads(db: Database, pipeline: int, publications: Sequence[Publication]) -> set[int]:
    """First versions whose uri has a head by now."""
    first = {p.uri: p.entry for p in publications if p.predecessor is None}
    rows = await db.fetch(Q.taken, pipeline, list(first))
    return {first[r["uri"]] for r in rows}
