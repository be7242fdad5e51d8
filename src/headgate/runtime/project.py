"""Project: tail the journal and write what it says beside the data: catalogs, provenance, runs.

It knows nothing of user code: everything it needs is in the ledger. It never holds up who
publishes; when a store is away, the files wait and the lag shows. Any number may run: one at a time
writes to a store. How far the files are moves after they are durable, so whoever dies is followed
by one who does the same page again, and the same files come of it.

A page is written from the leaves to the root, and removed the other way round: a reader who follows
links downwards finds what they point to. An item may point to a run of its page that is about to
be written.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from time import perf_counter

from headgate.catalog import static
from headgate.catalog.static import Files
from headgate.errors import HeadgateError, LedgerUnavailable
from headgate.ledger import projection
from headgate.ledger.projection import Place
from headgate.model.crash import reached
from headgate.model.dataset import Dataset
from headgate.model.entry import Point
from headgate.model.facts import Facts
from headgate.model.layout import Layout
from headgate.model.ports import Store
from headgate.model.signal import LAG, OUTAGE, emit
from headgate.model.whole import whole
from headgate.pg import Database, Link
from headgate.stores import open_store
from headgate.telemetry.log import get_logger

from .page import Changes, Page, ahead, catalogued, portions
from .placed import Named, Placed
from .tuning import Tuning

log = get_logger("headgate.project")

# So many lines are rendered and written at a time, and so many portions share one look at the lists
# of items: rewriting those costs by how many items there are, not by how many are new.
LINES = 500
PORTIONS = 8
# While one portion waits for the disk, another one is written.
WRITTEN_AT_ONCE = 2
# A cloud may be slow, and repeats what fails by itself for a while.
IDLE_SECONDS = 900.0
# Between two looks at nothing new; and after a failure, up to.
SHORTEST_SECONDS, LONGEST_SECONDS, AWAY_SECONDS = 0.05, 0.5, 30.0


@dataclass(slots=True)
class _Trouble:
    """Why a store's files wait, and until when it is left alone."""

    why: str
    until: float
    pause: float


class Projector:
    """Writes the files of the stores that some pipelines (None: all) keep their bytes in."""

    def __init__(
        self, db: Database, tuning: Tuning, pipelines: Collection[str] | None = None
    ) -> None:
        self._db = db
        self._tuning = tuning
        self._pipelines = pipelines
        self._stores: dict[str, Store] = {}
        self._described: dict[int, tuple[Layout, dict[str, Dataset]]] = {}
        self._troubles: dict[int, _Trouble] = {}
        # Pages that were being written when the ledger went away. Somebody else may have gone on
        # from there meanwhile, and what we wrote last may be older than what they did.
        self._doubtful: dict[int, int] = {}
        self._listing = 0.0  # seconds that the lists took in this round

    @property
    def failing(self) -> str | None:
        """What keeps files from being written, if anything does."""
        return next((t.why for t in self._troubles.values()), None)

    async def run(self, told: Callable[[], None] = lambda: None) -> None:
        """Follow the journal for ever. What is away is waited for."""
        pause = SHORTEST_SECONDS
        while True:
            moved, self._listing = False, 0.0
            try:
                moved = await self.round()
            except LedgerUnavailable:
                emit(OUTAGE)
            # The lists of a large catalog take their time, however little is new: less often then.
            pause = self._listing if moved else min(pause * 1.5, LONGEST_SECONDS)
            told()
            await asyncio.sleep(max(SHORTEST_SECONDS, pause))

    async def round(self) -> bool:
        """Bring every store as far as the journal is; False when there was nothing to do."""
        moved = False
        for place in await projection.stores(self._db, self._pipelines):
            trouble = self._troubles.get(place.id)
            behind = await projection.behind(self._db, place)
            emit(LAG, behind.seconds, store=place.uri)
            if trouble is not None and asyncio.get_running_loop().time() < trouble.until:
                continue
            try:
                moved |= await self._catch_up(place)
                self._troubles.pop(place.id, None)
            except LedgerUnavailable:
                raise
            except HeadgateError as error:
                self._complain(place, error)
        return moved

    async def _catch_up(self, place: Place) -> bool:
        moved = False
        while (now := await self._page(place)) is not None:
            place, moved = now, True
        return moved

    async def _page(self, place: Place) -> Place | None:
        """Write the next page; the place as it is then.

        None when there is none, or somebody else writes it.
        """
        behind = await projection.behind(self._db, place)
        if not behind.lines and await self._described_as_now(place):
            return None
        start: int | None = None
        try:
            async with self._db.transaction(idle_seconds=IDLE_SECONDS) as link:
                if not await projection.hold(link, place):
                    return None
                place = replace(place, layout=await projection.laid_out(link))
                position = await projection.position(link, place)
                start = min(position, self._doubtful.get(place.id, position))
                upto = await self._write(link, place, start)
                reached(Point.BEFORE_PROJECT)
            reached(Point.AFTER_PROJECT)
        except LedgerUnavailable:
            if start is not None:
                self._doubtful.setdefault(place.id, start)
            raise
        self._doubtful.pop(place.id, None)
        return replace(place, position=upto)

    async def _described_as_now(self, place: Place) -> bool:
        """Do the collections still say what was written of them? A deployment may say it anew."""
        described = await projection.collections(self._db, place)
        return self._described.get(place.id) == (place.layout, described)

    async def _write(self, link: Link, place: Place, after: int) -> int:
        """Write what the next commits change, and move on; the position that it is now."""
        page = Page(self._db, place)
        windows = await projection.windows(self._db, place, after, LINES, PORTIONS)
        gone: set[str] = set()
        async with Writer(Placed(self._store(place.uri), place.layout)) as writer:
            async with aclosing(ahead(page.read, windows)) as reading:
                async for lines in reading:
                    for some in portions(lines, LINES):
                        changes = await page.changes(page.touch(some))
                        files = await asyncio.to_thread(render, some, changes)
                        # What is gone for one portion may be there again for a later one.
                        gone = gone.union(changes.gone).difference(files)
                        await writer.write(files)
            described = await projection.collections(self._db, place)
            everything = self._described.get(place.id) != (place.layout, described)
            if page.touched or everything:
                began = perf_counter()
                lists, empty = await page.shards()
                about, ended = await page.collections(described, everything=everything)
                await writer.settle()
                await writer.write(lists)
                await writer.settle()
                await writer.write(about)
                await writer.remove([*ended, *empty, *sorted(gone)])
                self._listing += perf_counter() - began
            await writer.settle()
        self._described[place.id] = place.layout, described
        upto = windows[-1][1] if windows else after
        await projection.move(link, place, upto)
        return upto

    def _complain(self, place: Place, error: HeadgateError) -> None:
        before = self._troubles.get(place.id)
        pause = min(before.pause * 2, AWAY_SECONDS) if before else 0.5
        why = f"the catalog of store {place.uri} waits: {error}"
        if before is None or before.why != why:
            log.warning("catalog waits", store=place.uri, why=str(error), hint=error.hint)
        until = asyncio.get_running_loop().time() + pause
        self._troubles[place.id] = _Trouble(why, until, pause)

    def _store(self, uri: str) -> Store:
        if uri not in self._stores:
            self._stores[uri] = open_store(uri, self._tuning.local)
        return self._stores[uri]


async def is_behind(db: Database, pipelines: Collection[str]) -> bool:
    """Is there anything that the files of these pipelines' stores do not tell yet?"""
    places = await projection.stores(db, pipelines) if pipelines else []
    return any([(await projection.behind(db, place)).lines for place in places])


class Writer:
    """Writes to a store while the next files are made. Nothing of it is under way when it ends."""

    def __init__(self, store: Named) -> None:
        self._store = store
        self._under_way: deque[tuple[asyncio.Task[None], Files]] = deque()

    async def write(self, files: Files) -> None:
        """Begin to write these. Only what was written under the same names is there before."""
        while len(self._under_way) == WRITTEN_AT_ONCE or any(
            not files.keys().isdisjoint(earlier) for _, earlier in self._under_way
        ):
            await self._first()
        if files:
            writing = whole(asyncio.to_thread(self._store.project, files))
            self._under_way.append((asyncio.create_task(writing), files))

    async def settle(self) -> None:
        """Wait until all is durable."""
        while self._under_way:
            await self._first()

    async def _first(self) -> None:
        writing, _ = self._under_way.popleft()
        await writing
        reached(Point.PROJECTED)

    async def remove(self, names: Iterable[str]) -> None:
        """Remove files, after all else is durable."""
        await self.settle()
        if gone := list(names):
            await whole(asyncio.to_thread(self._store.remove, gone))
            reached(Point.PROJECTED)

    async def __aenter__(self) -> Writer:
        return self

    async def __aexit__(self, *_: object) -> None:
        # A thread cannot be stopped, and nobody else may write while ours still does.
        for writing, _files in self._under_way:
            with suppress(Exception):
                await writing


def render(lines: Iterable[Facts], changes: Changes) -> Files:
    """The files of some lines: first those of their runs, then those of items, which link there."""
    return render_runs(catalogued(lines)) | changes.render()


def render_runs(lines: Iterable[Facts]) -> Files:
    """The files of these runs."""
    files: Files = {}
    for line in lines:
        files |= static.run_files(line)
    return files
