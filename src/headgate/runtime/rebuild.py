"""Rebuild: every file beside the data from nothing, to the byte what the loop has written.

The whole journal is read once, and nothing of what is in the store is believed. Whoever compares
(`--dry-run`, `verify --deep`) goes the same way, in one snapshot, and writes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Protocol

from headgate.catalog import static
from headgate.catalog.static import Files
from headgate.errors import UsageError
from headgate.ledger import projection
from headgate.ledger.projection import Key, Place
from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.model.facts import Facts
from headgate.model.layout import PLAIN, Layout
from headgate.model.ports import Store
from headgate.pg import Database, Link
from headgate.stores import open_store

from .page import Page, Touched, ahead, catalogued, key_of, portions
from .placed import Named, Placed
from .project import Projector, Writer, render_runs
from .tuning import Tuning

Progress = Callable[[int, int], None]
"""Called with how many lines of the journal are done, and how many there are."""

DAY_SECONDS = 86_400.0
REMOVED_AT_ONCE = 1000
SHARDS_AT_ONCE = 64
# Every portion is synced, and nobody waits for the first of them.
LINES, PORTIONS = 2000, 8


@dataclass(slots=True)
class Rebuilt:
    """What became of the files of one store: how many there are, and which were not so."""

    store: str
    items: int = 0
    files: int = 0
    missing: list[str] = field(default_factory=list[str])
    differing: list[str] = field(default_factory=list[str])
    stray: list[str] = field(default_factory=list[str])

    def placed(self, layout: Layout) -> None:
        """Say where files are, for who goes and looks."""
        for names in (self.missing, self.differing, self.stray):
            names[:] = map(layout.place, names)

    @property
    def as_it_should_be(self) -> bool:
        """Is there nothing to write and nothing to remove?"""
        return not (self.missing or self.differing or self.stray)


class Sink(Protocol):
    """Where rendered files go."""

    async def write(self, files: Files) -> None: ...
    async def settle(self) -> None: ...
    async def remove(self, names: Iterable[str]) -> None: ...


class Compared:
    """Holds files against what is in the store, and notes what is not the same."""

    def __init__(self, store: Named, told: Rebuilt) -> None:
        self._store = store
        self._told = told

    async def write(self, files: Files) -> None:
        await asyncio.to_thread(self._compare, files)

    async def settle(self) -> None:
        """Nothing is under way."""

    async def remove(self, names: Iterable[str]) -> None:
        """Nothing is removed."""

    def _compare(self, files: Files) -> None:
        for name, content in files.items():
            there = self._store.read(name)
            if there is None:
                self._told.missing.append(name)
            elif there != content:
                self._told.differing.append(name)


async def rebuild(
    db: Database,
    tuning: Tuning,
    *,
    pipeline: str | None = None,
    runs: bool = False,
    progress: Progress = lambda done, of: None,
) -> list[Rebuilt]:
    """Write every file anew and remove what does not belong; what was done, by store.

    Of files of runs only those that were never written, unless `runs` are asked for as well.
    """
    done: list[Rebuilt] = []
    for found in await places(db, pipeline):
        told = Rebuilt(found.uri)
        async with db.transaction(idle_seconds=DAY_SECONDS) as link:
            await projection.wait(link, found)
            place = replace(found, layout=await projection.laid_out(link))
            store = Placed(open_store(place.uri, tuning.local), place.layout)
            written = 0 if runs else await projection.position(link, place)
            upto = await projection.latest(link)
            async with Writer(store) as writer:
                work = Rebuild(db, place, store, writer, told, runs=runs, written=written)
                await work.run(upto, progress)
            await projection.move(link, place, upto)
            reached(Point.BEFORE_PROJECT)
        reached(Point.AFTER_PROJECT)
        told.placed(place.layout)
        done.append(told)
    await Projector(db, tuning, None if pipeline is None else [pipeline]).round()
    return done


async def compare(
    db: Database,
    place: Place,
    store: Store,
    *,
    runs: bool = False,
    progress: Progress = lambda done, of: None,
) -> Rebuilt | None:
    """What `rebuild` would change in a store; None when its files are behind or being written."""
    told = Rebuilt(place.uri)
    async with projection.still(db, DAY_SECONDS) as link:
        if not await projection.hold(link, place):
            return None
        reached_to = await projection.position(link, place)
        if (await projection.behind(link, replace(place, position=reached_to))).lines:
            return None
        place = replace(place, layout=await projection.laid_out(link))
        placed = Placed(store, place.layout)
        sink, upto = Compared(placed, told), await projection.latest(link)
        written = 0 if runs else upto
        work = Rebuild(link, place, placed, sink, told, runs=runs, written=written)
        await work.run(upto, progress)
    told.placed(place.layout)
    return told


class Rebuild:
    """One store's files, made from the whole journal."""

    def __init__(
        self,
        db: Database | Link,
        place: Place,
        store: Named,
        sink: Sink,
        told: Rebuilt,
        *,
        runs: bool,
        written: int,
    ) -> None:
        # The files of runs up to here were written once; of later ones, never.
        self._written = written
        self._db = db
        self._place = place
        self._store = store
        self._sink = sink
        self._told = told
        self._runs = runs
        self._expected: set[str] = set()
        self._seen: set[Key] = set()

    async def run(self, upto: int, progress: Progress) -> None:
        """Everything up to a commit; then what is not expected is removed."""
        at = 0
        while at < upto:
            windows = await projection.windows(self._db, self._place, at, LINES, PORTIONS, upto)
            alone = isinstance(self._db, Link)
            async with aclosing(ahead(self._read, windows, one_at_a_time=alone)) as reading:
                async for page, lines, end in reading:
                    await self._render(page, lines)
                    progress(end, upto)
            at = windows[-1][1] if windows else upto
        await self._lists()
        await self._sink.settle()
        await self._strays()
        self._told.items, self._told.files = len(self._seen), len(self._expected)

    async def _read(self, begin: int, end: int) -> tuple[Page, list[Facts], int]:
        page = Page(self._db, self._place)
        return page, catalogued(await page.read(begin, end)), end

    async def _render(self, page: Page, lines: Sequence[Facts]) -> None:
        heads = {key_of(line) for line in lines if line.successor is None} - {None} - self._seen
        keys: list[Key] = [key for key in heads if key is not None]
        # Whatever became of an item on its way, all of it is made anew: once, where its head is.
        self._seen.update(keys)
        changes = await page.changes({key: Touched(whole=True) for key in keys})

        def made() -> Files:
            new = [line for line in lines if line.position > self._written]
            old = [line for line in lines if line.position <= self._written]
            return render_prov(old) | render_runs(new) | changes.render()

        await self._write(await asyncio.to_thread(made))

    async def _lists(self) -> None:
        described = await projection.collections(self._db, self._place)
        await self._sink.settle()
        for collection in described:
            shards = await projection.shards(self._db, self._place, collection)
            for some in portions(shards, SHARDS_AT_ONCE):
                members = await projection.members(self._db, self._place, collection, some)
                lists: Files = {}
                for shard, items in members.items():
                    lists |= static.shard_file(self._place.layout, collection, shard, items)
                await self._write(lists)
        page = Page(self._db, self._place)
        about, _ = await page.collections(described, everything=True)
        await self._sink.settle()
        await self._write(about)

    async def _write(self, files: Files) -> None:
        self._expected.update(files)
        await self._sink.write(files)

    async def _strays(self) -> None:
        """Files of ours that nothing in the ledger speaks of any more."""
        folders = [f for f in PLAIN.folders if self._runs or f != PLAIN.runs]
        self._told.stray = await asyncio.to_thread(self._look_for_strays, folders)
        for some in portions(self._told.stray, REMOVED_AT_ONCE):
            await self._sink.remove(some)

    def _look_for_strays(self, folders: Collection[str]) -> list[str]:
        return [
            name
            for folder in folders
            for name in self._store.names(folder)
            if name not in self._expected
        ]


def render_prov(lines: Iterable[Facts]) -> Files:
    """Of these runs, where their outcomes came from."""
    files: Files = {}
    for line in lines:
        files |= static.prov_file(line)
    return files


async def places(db: Database, pipeline: str | None) -> list[Place]:
    """The stores to rebuild: all, or a pipeline's. Raises `UsageError` when there are none."""
    found = await projection.stores(db, None if pipeline is None else [pipeline])
    if not found:
        whose = "no pipeline has" if pipeline is None else f"pipeline {pipeline!r} has no"
        raise UsageError(
            f"{whose} a dataset, so there is no catalog",
            hint='Give a pipeline one: hg.Pipeline(…, dataset="soil"), and run it once.',
        )
    return found
