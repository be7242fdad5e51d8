"""Publications: what readers see. A head moves only from the publication it was derived from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headgate.pg import Link, queries

Q = queries.load(__file__)

PUBLISH = (
    "SELECT headgate.publish($1, $2, $3::bigint[], $4::text[], $5::int[], $6::bigint[], $7::bool[],"
    " $8::timestamptz[], $9::text[], $10::bytea[], $11::bytea[], $12::text[])"
)


@dataclass(frozen=True, slots=True)
class Publication:
    """A version of what one uri stands for. `artifacts` is a JSON array, or None."""

    entry: int
    uri: str
    version: int
    predecessor: int | None
    removed: bool
    event_time: datetime
    sequence: str | None
    content: bytes
    effect: bytes
    artifacts: str | None


async def publish(
    link: Link, pipeline: int, deployment: int, publications: Sequence[Publication]
) -> set[int]:
    """Make these the heads of their uris; the entries that made it."""
    if not publications:
        return set()
    told = sorted(publications, key=lambda p: p.uri)
    made: list[int] = await link.fetchval(
        PUBLISH,
        pipeline,
        deployment,
        [p.entry for p in told],
        [p.uri for p in told],
        [p.version for p in told],
        [p.predecessor for p in told],
        [p.removed for p in told],
        [p.event_time for p in told],
        [p.sequence for p in told],
        [p.content for p in told],
        [p.effect for p in told],
        [p.artifacts for p in told],
    )
    return set(made)
