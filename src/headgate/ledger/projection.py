"""The projection: how far the files beside the data are, and what the ledger says they are made of.

Files follow the journal. A page of it says which runs, items and collections changed; what their
files say is read from the ledger as it is then. A change that comes meanwhile has a line further on
in the journal, and its files are made again. So the files end up as the ledger is, whatever is
repeated and in whatever order.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

import orjson

from headgate.model.dataset import Dataset
from headgate.model.layout import Layout, of_folders
from headgate.pg import Database, Link, queries

Q = queries.load(__file__)

# A collection and the id of an item in it.
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Place:
    """A store with a catalog, who keeps bytes in it, and how far its files are."""

    id: int
    uri: str
    position: int
    moved_at: datetime | None
    pipelines: tuple[int, ...]
    layout: Layout


@dataclass(frozen=True, slots=True)
class Behind:
    """What is not in the files yet: lines of the journal, and how long the first of them waits."""

    lines: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Span:
    """Where and when the items of a collection are; `box` is None when none has a place."""

    start: datetime | None
    end: datetime | None
    box: tuple[float, float, float, float] | None
    objects: int


async def stores(db: Database | Link, pipelines: Iterable[str] | None = None) -> list[Place]:
    """The stores that a catalog is written to: those of these pipelines, or all."""
    named = None if pipelines is None else list(pipelines)
    return [
        Place(
            r["id"],
            r["uri"],
            r["pos"],
            r["moved_at"],
            tuple(r["pipelines"]),
            of_folders(*r["layout"]),
        )
        for r in await db.fetch(Q.stores, named)
    ]


async def lay_out(db: Database, layout: Layout) -> bool:
    """Have the files of all catalogs in these folders from now on; were there any elsewhere?

    All of them are written anew. Those that are elsewhere stay there.
    """
    async with db.transaction() as link:
        await link.execute(Q.alone)  # who is at work on one ends its page first
        if await laid_out(link) == layout:
            return False
        await link.execute(Q.lay_out, list(layout.folders))
        return bool(await link.fetch(Q.begin_anew))


async def laid_out(db: Database | Link) -> Layout:
    """In which folders the files of catalogs are. It stays so while anybody holds a store's."""
    return of_folders(*await db.fetchval(Q.layout))


async def hold(link: Link, place: Place) -> bool:
    """Be the only one who writes this store's files until the transaction ends; False: no."""
    return await link.fetchval(Q.hold, place.id)


@asynccontextmanager
async def still(db: Database, seconds: float) -> AsyncGenerator[Link]:
    """The ledger as it is now, for whoever reads all of it and may take so long."""
    async with db.transaction(idle_seconds=seconds) as link:
        await link.execute(Q.snapshot)
        yield link


async def wait(link: Link, place: Place) -> None:
    """The same, once who is at work has ended its page."""
    await link.execute(Q.wait, place.id)


async def windows(
    db: Database | Link,
    place: Place,
    after: int,
    lines: int,
    most: int,
    last: int | None = None,
) -> list[tuple[int, int]]:
    """The commits after a position in portions of about so many lines, `most` of them at the most.

    Each is (after, upto), of whole commits. Where nothing is left behind the last one, it reaches
    to the last commit of all (or the one that is named), whoever made that.
    """
    if last is None:
        last = await latest(db)  # first: what comes later belongs to the next windows
    commits = await db.fetch(Q.windows, after, list(place.pipelines), last, lines * most)
    cuts: list[int] = []
    gathered, upto = 0, after
    for pos, n in commits:
        if gathered and gathered + n > lines:
            cuts.append(upto)
            gathered = 0
        gathered, upto = gathered + n, pos
    if len(commits) < lines * most and len(cuts) < most:
        upto = last
    if upto > (cuts[-1] if cuts else after):
        cuts.append(upto)
    return list(pairwise([after, *cuts[:most]]))


async def latest(db: Database | Link) -> int:
    """The position of the last commit of all."""
    return await db.fetchval(Q.last)


async def position(link: Link, place: Place) -> int:
    """How far the files of a store are, now."""
    return await link.fetchval(Q.position, place.id)


async def move(link: Link, place: Place, upto: int) -> None:
    """The files are durable up to this commit."""
    await link.execute(Q.move, place.id, upto)


async def behind(db: Database | Link, place: Place) -> Behind:
    """How much the files of a store lag behind the ledger."""
    row = await db.fetchrow(Q.behind, place.position, list(place.pipelines))
    assert row is not None
    return Behind(row["lines"], row["seconds"])


async def heads(db: Database | Link, place: Place, keys: Iterable[Key]) -> dict[Key, list[int]]:
    """The publications that form these items now; those that are gone are left out."""
    asked = sorted(set(keys))
    found: dict[Key, list[int]] = {}
    rows = await db.fetch(
        Q.heads, [k[0] for k in asked], [k[1] for k in asked], list(place.pipelines)
    )
    for r in rows:
        found.setdefault((r["collection"], r["item"]), []).append(r["entry"])
    return found


async def chains(
    db: Database | Link, entries: Sequence[int], depth: int | None = None
) -> dict[int, list[int]]:
    """What each of these publications replaced, the newest first: all of it, or so many."""
    found: dict[int, list[int]] = {}
    if entries:
        for r in await db.fetch(Q.chain, list(entries), depth):
            found.setdefault(r["head"], []).append(r["entry"])
    return found


async def collections(db: Database | Link, place: Place) -> dict[str, Dataset]:
    """Every collection of a store by its name: those with items, and datasets that have none yet.

    Of several pipelines with one collection, the one that was deployed last describes it.
    """
    declared: dict[int, Dataset] = {}
    named: dict[str, Dataset] = {}
    rows = await db.fetch(Q.datasets, list(place.pipelines))
    for r in sorted(rows, key=lambda r: r["id"]):
        dataset = declared[r["id"]] = Dataset.restore(orjson.loads(r["dataset"]))
        name = r["collection"] or dataset.name
        named[name] = replace(dataset, name=name)
    for r in await db.fetch(Q.collections, list(place.pipelines)):
        if r["collection"] not in named:
            told = declared.get(r["deployment"])
            name = r["collection"]
            named[name] = Dataset(name) if told is None else replace(told, name=name)
    return dict(sorted(named.items()))


async def span(db: Database | Link, place: Place, collection: str) -> Span:
    """Where and when the items of a collection are."""
    r = await db.fetchrow(Q.extent, collection, list(place.pipelines))
    assert r is not None
    west, south, east, north = r["west"], r["south"], r["east"], r["north"]
    box = None
    if west is not None:
        # An item across the antimeridian reaches beyond 180: then the box goes round the earth.
        box = (-180.0, south, 180.0, north) if east > 180 else (west, south, east, north)
    return Span(r["starts"], r["ends"], box, r["objects"])


async def shards(db: Database | Link, place: Place, collection: str) -> list[str]:
    """The shards of a collection that have items."""
    rows = await db.fetch(Q.shards, collection, list(place.pipelines))
    return [f"{r['shard']:02x}" for r in rows]


async def members(
    db: Database | Link, place: Place, collection: str, shards: Iterable[str]
) -> dict[str, list[str]]:
    """The ids of the items in some shards; a shard without items has none."""
    found: dict[str, list[str]] = {shard: [] for shard in shards}
    numbers = [int(shard, 16) for shard in found]
    for r in await db.fetch(Q.members, collection, numbers, list(place.pipelines)):
        found[f"{r['shard']:02x}"].append(r["item"])
    return found
