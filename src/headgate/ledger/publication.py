"""Publications: what readers see. A head moves only from the publication it was derived from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, cast

import orjson

from headgate.model.envelope import Envelope
from headgate.model.object import Object
from headgate.model.ports import Store
from headgate.pg import Database, Link, queries

from .arrays import column, literal
from .gate import Head

Q = queries.load(__file__)

_BY_URI = attrgetter("uri")
# jsonb forgets the order of fields; this is the order in which artifacts are written and hashed.
_ARTIFACT = ("name", "digest", "size", "media_type")


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


@dataclass(frozen=True, slots=True)
class Publishing:
    """What one transaction makes the heads of their uris (`publish` in publication.sql).

    A first version that finds a head raises a unique violation: ask `with_heads` whose.
    """

    pipeline: int
    deployment: int
    publications: Sequence[Publication]

    def columns(self) -> tuple[Any, ...]:
        told = sorted(self.publications, key=_BY_URI)
        predecessors = [p.predecessor for p in told]
        return (
            self.pipeline,
            self.deployment,
            [p.entry for p in told],
            literal([p.uri for p in told]),
            column([p.version for p in told]),
            column(predecessors),
            column([p.removed for p in told]),
            b"".join([p.content for p in told]),
            b"".join([p.effect for p in told]),
            column([p.artifacts for p in told]),
            any(predecessors),
        )


def as_written(artifacts: str | None) -> str | None:
    """Artifacts as they were written, from what jsonb made of them."""
    if artifacts is None:
        return None
    named: Any = orjson.loads(artifacts)
    if not isinstance(named, list):
        return artifacts
    items = cast("list[Any]", named)
    return orjson.dumps([_fields(item) for item in items]).decode()


def _fields(artifact: Any) -> Any:
    if not isinstance(artifact, dict):
        return artifact
    fields = cast("dict[str, Any]", artifact)
    return {name: fields[name] for name in _ARTIFACT if name in fields} | fields


async def version_of(db: Database, head: Head, store: Store) -> Object:
    """The object that a head was made of, to be read again. Raises `ObjectMissing`."""
    row = await db.fetchrow(Q.object, head.entry)
    assert row is not None, f"publication {head.entry} has an entry"
    body = row["data"] if row["data"] is not None else store.path(head.content)
    return Object(
        uri=row["uri"],
        digest=head.content,
        size=len(body) if isinstance(body, bytes) else body.stat().st_size,
        body=body,
        envelope=lambda: Envelope.restore(**dict(row)),
    )


async def see(link: Link, heads: Sequence[tuple[int, int]]) -> None:
    """Heads that were compared with a newer change of the same bytes: (head, change)."""
    if heads:
        await link.executemany(Q.see, sorted(heads))


async def stand(link: Link, replays: Sequence[int]) -> None:
    """These took the place of what they replay: in the order of changes too."""
    await link.execute(Q.stand, replays)


async def with_heads(db: Database, pipeline: int, publications: Sequence[Publication]) -> set[int]:
    """First versions whose uri has a head by now."""
    first = {p.uri: p.entry for p in publications if p.predecessor is None}
    rows = await db.fetch(Q.taken, pipeline, list(first))
    return {first[r["uri"]] for r in rows}
