"""A page of the projection: which files a stretch of the journal changes, and what they say now.

Lines only tell what was touched. What a file says is asked of the ledger afterwards, so a page that
is done again, or late, writes what is true by then and never goes back.

    a line     touches its run, its item, and the item that its predecessor was
    an item    is its heads; what a single object was before stands beside it, version by version.
               Of an item that several objects form there are no older versions: which of the parts
               would version 1 be of?
    a shard    lists its items, and changes when one comes or goes
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from headgate.catalog import static
from headgate.catalog.hrefs import shard as shard_of
from headgate.catalog.hrefs import shard_name, version_name
from headgate.catalog.stac import Extent
from headgate.catalog.static import Files
from headgate.ledger import facts as ledger
from headgate.ledger import projection
from headgate.ledger.projection import Key, Place
from headgate.model.dataset import Dataset
from headgate.model.facts import Facts
from headgate.pg import Database, Link

T = TypeVar("T")
# A version's neighbours on both sides are in its links: this far back they change with a new head.
NEAR = 3


@dataclass(slots=True)
class Touched:
    """What happened to an item. `whole`: an object became or stopped being (a part of) it."""

    whole: bool = False
    newest: int = 0


@dataclass(slots=True)
class Changes:
    """Files of items, as what they are rendered from, and names of files to remove."""

    items: list[list[Facts]] = field(default_factory=list[list[Facts]])
    versions: list[tuple[Facts, int | None]] = field(
        default_factory=list[tuple[Facts, "int | None"]]
    )
    gone: list[str] = field(default_factory=list[str])

    def render(self) -> Files:
        """The files. Only this takes long, and it needs nobody: it may run in a thread."""
        files: Files = {}
        for older, successor in self.versions:
            files |= static.version_file(older, successor)
        for parts in self.items:
            files |= static.item_files(parts)
        return files


class Page:
    """What some lines of the journal change in the files of one store."""

    def __init__(self, db: Database | Link, place: Place) -> None:
        self._db = db
        self._place = place
        self._known: dict[int, Facts] = {}
        # Items, and whether an object became or stopped being (a part of) them.
        self.touched: dict[Key, bool] = {}

    async def read(self, after: int, upto: int) -> list[Facts]:
        """The lines of these commits."""
        lines = await ledger.page(self._db, self._place.pipelines, after, upto)
        published = [line for line in lines if line.version is not None]
        self._known |= {line.entry: line for line in published}
        await self._learn(line.before.entry for line in published if line.before)
        return lines

    def touch(self, lines: Iterable[Facts]) -> dict[Key, Touched]:
        """The items that some of the lines touch; noted for the lists that have to be made."""
        touched: dict[Key, Touched] = {}
        for line in lines:
            if line.version is None:
                continue
            before = self._known.get(line.before.entry) if line.before else None
            now, was = key_of(line), key_of(before)
            for key in (now, was):
                if key is not None:
                    one = touched.setdefault(key, Touched())
                    one.whole |= now != was
                    one.newest = max(one.newest, line.version.number)
                    self.touched[key] = self.touched.get(key, False) or one.whole
        return touched

    async def changes(self, touched: Mapping[Key, Touched]) -> Changes:
        """What the files of these items are now."""
        keys = touched.keys()
        heads = await projection.heads(self._db, self._place, keys)
        await self._learn(entry for entries in heads.values() for entry in entries)
        single = {key: entries[0] for key, entries in heads.items() if len(entries) == 1}
        chains = await self._chains(single, touched)
        made = Changes()
        for key, one in touched.items():
            parts = [self._known[e] for e in heads.get(key, ())]
            numbers: set[int] = set()
            if key in single:
                older = [self._known[e] for e in chains.get(single[key], ())]
                parts = [_linked(parts[0], older[:1], key)]
                told = list(_versions(key, older))
                if not one.whole:
                    told = told[: NEAR - 1]
                made.versions += told
                numbers = {older.version.number for older, _ in told if older.version}
            if parts:
                made.items.append(sorted(parts, key=lambda part: part.envelope.uri))
            else:
                made.gone += static.item_names(*key)
            if one.whole:
                last = max([one.newest, *(p.version.number for p in parts if p.version)])
                made.gone += [version_name(*key, n) for n in range(1, last) if n not in numbers]
        return made

    async def _chains(
        self, single: dict[Key, int], touched: Mapping[Key, Touched]
    ) -> dict[int, list[int]]:
        """What came before the heads of these items: all of it where objects came or went."""
        chains: dict[int, list[int]] = {}
        for whole, depth in ((True, None), (False, NEAR)):
            asked = [e for key, e in single.items() if touched[key].whole is whole]
            chains |= await projection.chains(self._db, asked, depth)
        await self._learn(entry for entries in chains.values() for entry in entries)
        return chains

    async def _learn(self, entries: Iterable[int]) -> None:
        missing = sorted(set(entries) - self._known.keys())
        if missing:
            read = await ledger.of_publications(self._db, missing)
            self._known |= {facts.entry: facts for facts in read}

    async def shards(self) -> tuple[Files, list[str]]:
        """The lists of items that changed, and the names of those that are empty now."""
        asked: dict[str, set[str]] = {}
        for (collection, item), whole in self.touched.items():
            if whole:
                asked.setdefault(collection, set()).add(shard_of(item))
        files: Files = {}
        gone: list[str] = []
        for collection, named in asked.items():
            members = await projection.members(self._db, self._place, collection, named)
            for shard, items in members.items():
                if items:
                    files |= static.shard_file(self._place.layout, collection, shard, items)
                else:
                    gone.append(shard_name(collection, shard))
        return files, gone

    async def collections(
        self, described: dict[str, Dataset], *, everything: bool
    ) -> tuple[Files, list[str]]:
        """What the touched collections (or all) and the root say, and what is gone of them."""
        touched = {collection for collection, _ in self.touched}
        files: Files = {}
        for name, dataset in described.items():
            if everything or name in touched:
                span = await projection.span(self._db, self._place, name)
                extent = Extent(span.box, span.start, span.end)
                shards = await projection.shards(self._db, self._place, name)
                files |= static.collection_files(self._place.layout, dataset, extent, shards)
        files |= static.root_file(self._place.layout, described.values())
        gone = [
            file for name in touched - described.keys() for file in static.collection_names(name)
        ]
        return files, gone


def catalogued(lines: Iterable[Facts]) -> list[Facts]:
    """Those lines whose runs have files: their pipeline has a dataset."""
    return [line for line in lines if line.dataset is not None]


def key_of(facts: Facts | None) -> Key | None:
    """The item that a publication is; None when there is none, or nothing of it to read."""
    if facts is None or facts.item is None or facts.version is None or not facts.version.files:
        return None
    return facts.item.collection, facts.item.id


async def ahead(
    read: Callable[[int, int], Awaitable[T]],
    windows: Iterable[tuple[int, int]],
    *,
    one_at_a_time: bool = False,
) -> AsyncGenerator[T]:
    """What is read of each window, in turn. The next is read while one is dealt with.

    Not where all questions go over one connection: `one_at_a_time`.
    """
    coming: asyncio.Future[T] | None = None
    try:
        for window in windows:
            now, coming = coming, asyncio.ensure_future(read(*window))
            if one_at_a_time:
                yield await coming
                coming = None
            elif now is not None:
                yield await now
        if coming is not None:
            yield await coming
    finally:
        if coming is not None and not coming.done():
            coming.cancel()
            await asyncio.wait([coming])


def portions(things: Iterable[T], size: int) -> Iterator[list[T]]:
    """Things, so many at a time."""
    rest = iter(things)
    while portion := list(islice(rest, size)):
        yield portion


def _linked(facts: Facts, before: Sequence[Facts], key: Key) -> Facts:
    """These facts, pointing back only if what is there was the same item."""
    if facts.before is None or (before and key_of(before[0]) == key):
        return facts
    return replace(facts, before=None)


def _versions(key: Key, chain: Sequence[Facts]) -> Iterator[tuple[Facts, int | None]]:
    """The older versions of an item, the newest first, each with the number of its successor.

    None stands for what readers see now.
    """
    successor: int | None = None
    for n, facts in enumerate(chain):
        if facts.version is not None and key_of(facts) == key:
            yield _linked(facts, chain[n + 1 : n + 2], key), successor
            successor = facts.version.number
