"""Backfill: as fast as the steady path, and live changes hardly notice.

Objects that were never seen are brought in by a replay, beside the same files taken in by watching
their folder. And a light load of live changes is timed alone, and beside a replay of everything.
"""

from __future__ import annotations

import asyncio
import shutil
from datetime import datetime
from pathlib import Path
from statistics import median
from time import time

import asyncpg

import headgate as hg
from headgate.ledger import FUNCTIONS, MIGRATIONS, inbox, replay
from headgate.model.signal import COMMIT_SECONDS, listen
from headgate.pg import Database, migrate
from headgate.runtime import loop, station
from headgate.runtime.again import gather
from headgate.runtime.replays import pins_of
from headgate.runtime.tuning import Tuning
from headgate.runtime.work import Worker

from . import files, gate, processes
from .gate import TIMEOUT_SECONDS, set_as_up_does
from .job import Count, Event
from .latency import PER_SECOND, WARM_UP, percentile
from .pipelines import declare, envelope, message
from .processes import Failed, Report, Together
from .result import Figure, Row
from .server import Place

LIVE_SECONDS = 20
LEFT = "SELECT coalesce(max(inputs - done), 0) FROM headgate.replay"
ENDED = "SELECT state = 'done' FROM headgate.replay"
LIVE_IS_DONE = """
    SELECT NOT EXISTS (SELECT FROM headgate.work w JOIN headgate.entry e ON e.id = w.id
                       WHERE e.replay IS NULL)
"""
LIVE = """
    SELECT convert_from(e.data, 'UTF8')::json ->> 'id' AS id, j.at
    FROM headgate.entry e JOIN headgate.journal j ON j.entry = e.id AND j.outcome = 'finalized'
    WHERE e.uri LIKE 's3://b/live/%'
"""


async def _bring_in(url: str, folder: Path) -> Report:
    """Freeze what is in the folder as a replay, and let a worker do it."""
    source = hg.Directory(folder / "incoming", settle=0)
    pipeline = hg.Pipeline("files", sources=[source], store=str(folder / "lake"))
    last = 0.0

    def hear(signal: object, *_: object) -> None:
        nonlocal last
        if signal is COMMIT_SECONDS:
            last = time()

    async with await Database.open(url) as db:
        await migrate.migrate(db, MIGRATIONS, FUNCTIONS)
        set_as_up_does()
        began = time()
        stop_listening = listen(hear)
        paths = await station.paths(db, [pipeline], Tuning())
        unseen = await gather.never_seen(db, pipeline, gather.Window())
        await _ask(db, pipeline, unseen=unseen, known=False)
        await _until(db, Worker(db, paths, Tuning(), name="bench"))
        stop_listening()
    return {"seconds": last - began}


async def _ask(db: Database, pipeline: hg.Pipeline, **wanted: object) -> None:
    given = {"because": "bench", **wanted}
    frozen = replay.Wanted(pipeline.name, "publish", pins_of(pipeline), {}, **given)  # pyright: ignore[reportArgumentType]
    await replay.ask(db, frozen)


async def _until(db: Database, worker: Worker) -> None:
    working = asyncio.create_task(worker.run())
    while not await db.fetchval(ENDED):
        if working.done():
            working.result()
            raise Failed("the worker stopped before the replay was done")
        await asyncio.sleep(0.1)
    worker.stop()
    await working


def bring_in(together: Together, url: str, folder: Path) -> Report:
    """A process that brings in a folder by a replay, and ends."""
    together.begin()
    return loop.run(lambda: _bring_in(url, folder))


def _alone(url: str, folder: Path) -> Report:
    return processes.run({"files": (bring_in, (url, folder))}, TIMEOUT_SECONDS)["files"]


def throughput(place: Place, reps: int, n: int) -> Row:
    """Files by a replay, beside the same files by watching."""

    def prepare(folder: Path) -> object:
        return files.write_small(folder / "incoming", n)

    runs: list[tuple[float, float, Count]] = []
    before, _ = files.through(place, prepare, n)
    for _ in range(reps):
        report, counted = files.through(place, prepare, n, _alone)
        after, _ = files.through(place, prepare, n)
        steady = (before["seconds"] + after["seconds"]) / 2
        runs.append((report["seconds"], steady, counted))
        before = after
    how = f"{n} files of 8 KiB never seen, beside the same by watching their folder"
    return files.row("backfill", how, n, runs)


async def _live(together: Together, url: str, folder: Path, n: int) -> Report:
    """Deliver one live change after the other, on time; when each was told."""
    async with await Database.open(url) as db:
        at = await station.register(db, declare("rows", folder))
        await asyncio.to_thread(together.begin)
        told: dict[str, float] = {}
        start = time()
        for k in range(n):
            payload = {"key": f"live/{k}", "etag": "e", "size": k}
            event = Event(f"live-{k:07d}", "t", payload)
            await asyncio.sleep(max(0.0, start + k / PER_SECOND - time()))
            told[event.id] = time()
            await inbox.receive(db, at, "live", [envelope(event, message(event))])
        together.received.set()
        return told


async def _work(together: Together, url: str, folder: Path) -> Report:
    async with await Database.open(url) as db:
        paths = await station.paths(db, [declare("rows", folder)], Tuning())
        worker = Worker(db, paths, Tuning(), name="bench")
        set_as_up_does()
        working = asyncio.create_task(worker.run())
        await asyncio.to_thread(together.begin)
        await asyncio.to_thread(together.received.wait)
        left = await db.fetchval(LEFT)
        await _live_is_done(db)
        worker.stop()
        await working
        return {"left": left}


async def _live_is_done(db: Database) -> None:
    """Replayed work may be left over; nothing live may."""
    done = False
    while not done:
        await asyncio.sleep(0.05)
        done = await db.fetchval(LIVE_IS_DONE)


def live(together: Together, url: str, folder: Path, n: int) -> Report:
    return loop.run(lambda: _live(together, url, folder, n))


def work(together: Together, url: str, folder: Path) -> Report:
    return loop.run(lambda: _work(together, url, folder))


def _timed(url: str, folder: Path, n: int) -> tuple[list[float], float]:
    """Seconds from telling to the journal's line, and what a replay had still to do."""
    mains: dict[str, tuple[processes.Main, tuple[object, ...]]] = {
        "live": (live, (url, folder, n)),
        "work": (work, (url, folder)),
    }
    reports = processes.run(mains, TIMEOUT_SECONDS)
    told = {id: at for id, at in reports["live"].items() if int(id[-7:]) >= WARM_UP}
    ended = loop.run(lambda: _ended(url))
    return [ended[id].timestamp() - at for id, at in told.items()], reports["work"]["left"]


async def _ended(url: str) -> dict[str, datetime]:
    link = await asyncpg.connect(url)
    try:
        return {r["id"]: r["at"] for r in await link.fetch(LIVE)}
    finally:
        await link.close()


async def _replay_all(url: str, folder: Path) -> None:
    async with await Database.open(url) as db:
        await _ask(db, declare("rows", folder))


def beside_live(place: Place, reps: int, n: int) -> list[Figure]:
    """A light load of live changes: alone, and beside a replay of n changes of its pipeline."""
    many = int(LIVE_SECONDS * PER_SECOND)
    alone: list[float] = []
    beside: list[float] = []
    multiples: list[float] = []
    for _ in range(reps):
        url = loop.run(place.fresh)
        gate.end_to_end(url, "rows", place.folder, n)
        quiet, _ = _timed(url, place.folder, many)
        shutil.rmtree(place.folder / "lake", ignore_errors=True)
        url = loop.run(place.fresh)
        gate.end_to_end(url, "rows", place.folder, n)
        loop.run(lambda at=url: _replay_all(at, place.folder))
        busy, left = _timed(url, place.folder, many)
        if not left:
            raise Failed(f"a replay of {n} changes ended before the live load did: ask for more")
        alone += quiet
        beside += busy
        multiples.append(percentile(busy, 0.95) / percentile(quiet, 0.95))
    how = f"{many} live changes, {PER_SECOND:g} a second, beside a replay of {n} deliveries"
    return [
        Figure("live_p95", round(percentile(alone, 0.95) * 1e3, 2), "ms", how),
        Figure("backfill_live_p95", round(percentile(beside, 0.95) * 1e3, 2), "ms", how),
        Figure("backfill_live_p95_multiple", round(median(multiples), 2), "×", how),
    ]


def cost(place: Place, reps: int, n: int, small: int) -> tuple[list[Row], list[Figure]]:
    """Both."""
    return [throughput(place, reps, small)], beside_live(place, reps, n)
