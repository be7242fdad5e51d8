"""Search: what a catalog shows of the ledger, to whom, a page at a time.

A `Look` is one snapshot. Whatever is asked of it belongs together: a promotion is in all of its
answers or in none. Read search.sql first: how pages are found is said there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from headgate.model.dataset import Dataset
from headgate.model.facts import Facts
from headgate.pg import Database, Link, Record, queries

from . import facts, published

Q = queries.load(__file__)

# As many rows are gathered and sorted at once; where more match, they are found by walking.
ENOUGH = 1000

Box = tuple[tuple[float, float], tuple[float, float]]
Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Question:
    """What is searched for; None: whatever. `boxes` are two: an item may lie beyond 180 degrees."""

    collections: tuple[str, ...] | None = None
    ids: tuple[str, ...] | None = None
    since: datetime | None = None
    until: datetime | None = None
    boxes: tuple[Box, Box] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """An item, and the publications that form it."""

    collection: str
    item: str
    entries: tuple[int, ...]

    @property
    def place(self) -> Place:
        """Where it stands in the order of all items."""
        return self.collection, self.item


@dataclass(frozen=True, slots=True)
class Covered:
    """Where and when the items of a collection are; the bounds are None when none has a place."""

    starts: datetime
    ends: datetime
    bounds: tuple[float, float, float, float] | None


@asynccontextmanager
async def look(
    db: Database, *, restricted: bool, pipelines: Collection[str] | None = None
) -> AsyncGenerator[Look]:
    """One snapshot of what is published: with `restricted` all of it, else what is public.

    With `pipelines`, only what those published.
    """
    async with db.transaction() as link:
        await link.execute(Q.snapshot)
        rows = await link.fetch(Q.pipelines)
        datasets = {r["id"]: _dataset(r) for r in rows}
        theirs = {r["id"] for r in rows if pipelines is None or r["name"] in pipelines}
        # What a pipeline published before it stopped being catalogued was never declared public.
        seen = {
            pipeline: dataset
            for pipeline, dataset in datasets.items()
            if pipeline in theirs
            and (restricted or (dataset is not None and dataset.access == "public"))
        }
        yield Look(link, seen, everything=len(seen) == len(datasets))


class Look:
    """What one reader sees at one moment."""

    def __init__(
        self, link: Link, datasets: Mapping[int, Dataset | None], *, everything: bool = True
    ) -> None:
        self._link = link
        self._everything = everything
        self._datasets = datasets
        self._whose = list(datasets)

    async def collections(self) -> dict[str, Dataset]:
        """Every collection by its name: those with items, and datasets that have none yet."""
        named = {d.name: d for d in self._datasets.values() if d is not None}
        for r in await self._link.fetch(Q.collections, self._whose):
            told = self._datasets[r["pipeline"]]
            named.setdefault(r["collection"], told or Dataset(r["collection"], access="non-public"))
        return dict(sorted(named.items()))

    async def extents(self, collections: Sequence[str]) -> dict[str, Covered]:
        """Where and when the items of these collections are; those without items are left out."""
        rows = await self._link.fetch(Q.extents, list(collections), self._whose)
        return {r["collection"]: _covered(r) for r in rows}

    async def search(self, asked: Question, after: Place | None, most: int) -> list[Found]:
        """The next items that match, in their order: `most` of them, or all that are left."""
        if not self._whose:
            return []
        within = asked.collections
        if within is None and (asked.ids is not None or not self._everything):
            # Names are found by collection; and what is hidden is not even walked over.
            within = tuple(await self.collections())
        args: list[Any] = [
            self._whose,
            None if within is None else list(within),
            None if asked.ids is None else list(asked.ids),
            asked.since,
            asked.until,
            *(asked.boxes or (None, None)),
            *(after or (None, None)),
            most,
        ]
        if asked.ids or asked.boxes or asked.since or asked.until:
            rows = await self._link.fetch(Q.few, *args, ENOUGH)
            if not rows or not rows[0]["many"]:
                return [_found(r) for r in rows]
        return [_found(r) for r in await self._link.fetch(Q.walk, *args)]

    async def parts(self, collection: str, item: str) -> list[Facts]:
        """What forms an item now; empty when there is no such item."""
        rows = await self._link.fetch(Q.parts, collection, item, self._whose)
        return await self.facts([r["entry"] for r in rows])

    async def older(self, head: int, number: int) -> tuple[Facts, int | None] | None:
        """Version `number` of what this publication is the head of, and the one that followed it.

        That is None where the head itself followed; what was taken away in between is passed over.
        """
        row = await self._link.fetchrow(Q.older, head, number)
        told = [] if row is None else await self.facts([row["entry"]])
        return (told[0], row["successor"]) if row and told else None

    async def versions(self, entry: int, most: int) -> list[Facts]:
        """What a uri had and has, the newest first, from a publication that may be seen."""
        return await published.versions(self._link, entry, most)

    async def publication(self, entry: int) -> Facts | None:
        """What an entry published, if this reader may see it."""
        if await self._link.fetchval(Q.owner, entry) not in self._datasets:
            return None
        return next(iter(await self.facts([entry])), None)

    async def facts(self, entries: Sequence[int]) -> list[Facts]:
        """What these entries published."""
        return await facts.of_publications(self._link, entries) if entries else []


def _dataset(row: Record) -> Dataset | None:
    declared = orjson.loads(row["dataset"]) if row["dataset"] else None
    return None if declared is None else Dataset.restore(declared)


def _found(r: Record) -> Found:
    return Found(r["collection"], r["item"], tuple(r["entries"]))


def _covered(r: Record) -> Covered:
    bounds = None if r["west"] is None else (r["west"], r["south"], r["east"], r["north"])
    return Covered(r["starts"], r["ends"], bounds)
