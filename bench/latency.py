"""The time from before `receive` is called until the effect is committed, at a light load.

The worker says when: the signal of a finalize transaction comes right after its COMMIT. The order
of commits in the ledger says which event it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from time import time

import asyncpg

from headgate.ledger import inbox
from headgate.ledger.inbox import Registered
from headgate.model.signal import COMMIT_SECONDS, Signal, listen
from headgate.pg import Database
from headgate.runtime import loop, station
from headgate.runtime.tuning import Tuning
from headgate.runtime.work import Worker

from . import processes
from .gate import TIMEOUT_SECONDS, effects, prepare, set_as_up_does, until_idle
from .job import Count, events, ids
from .pipelines import declare, envelope, message
from .processes import Report, Together

PER_SECOND = 50.0
WARM_UP = 25  # of the first events: connections are made, plans are learned
COMMITS = """
    SELECT convert_from(e.data, 'UTF8')::json ->> 'id' AS id, c.pos
    FROM headgate.commit c JOIN headgate.journal j USING (batch)
    JOIN headgate.entry e ON e.id = j.entry
"""


async def _tell(db: Database, at: Registered, n: int) -> dict[str, float]:
    """Deliver one event after the other, on time; when each was first told."""
    told: dict[str, float] = {}
    start = time()
    for k, event in enumerate(events(n, "l")):
        await asyncio.sleep(max(0.0, start + k / PER_SECOND - time()))
        now = time()
        told.setdefault(event.id, now)
        await inbox.receive(db, at, "bench", [envelope(event, message(event, now))])
    return told


@asynccontextmanager
async def _working(db: Database, folder: Path) -> AsyncGenerator[list[float]]:
    """A worker, for the length of the block; the moments at which its commits were known."""
    commits: list[float] = []

    def hear(signal: Signal, value: float, labels: Mapping[str, str]) -> None:
        if signal is COMMIT_SECONDS:
            commits.append(time())

    tuning = Tuning()
    paths = await station.paths(db, [declare("rows", folder)], tuning)
    worker = Worker(db, paths, tuning, name="bench")
    set_as_up_does()
    stop_listening = listen(hear)
    working = asyncio.create_task(worker.run())
    try:
        yield commits
    finally:
        worker.stop()
        await working
        stop_listening()


async def _until_done(db: Database, together: Together) -> None:
    await asyncio.to_thread(together.received.wait)
    await until_idle(db)


async def _receiver(together: Together, url: str, folder: Path, n: int) -> Report:
    async with await Database.open(url) as db:
        at = await station.register(db, declare("rows", folder))
        await asyncio.to_thread(together.begin)
        told = await _tell(db, at, n)
        together.received.set()
        return told


async def _worker(together: Together, url: str, folder: Path) -> Report:
    async with await Database.open(url) as db:
        async with _working(db, folder) as commits:
            await asyncio.to_thread(together.begin)
            await _until_done(db, together)
        return {f"{n}": at for n, at in enumerate(commits, 1)}


async def _both(together: Together, url: str, folder: Path, n: int) -> Report:
    async with await Database.open(url) as db:
        at = await station.register(db, declare("rows", folder))
        async with _working(db, folder) as commits:
            told = await _tell(db, at, n)
            together.received.set()
            await _until_done(db, together)
        return told | {f"{n}": at for n, at in enumerate(commits, 1)}


def receiver(together: Together, url: str, folder: Path, n: int) -> Report:
    return loop.run(lambda: _receiver(together, url, folder, n))


def worker(together: Together, url: str, folder: Path) -> Report:
    return loop.run(lambda: _worker(together, url, folder))


def both(together: Together, url: str, folder: Path, n: int) -> Report:
    return loop.run(lambda: _both(together, url, folder, n))


def measure(url: str, folder: Path, n: int, *, one_process: bool) -> tuple[list[float], Count]:
    """Seconds from the call to the commit, for each new event after the warm-up."""
    deliveries = events(n, "l")
    loop.run(lambda: prepare(url, "rows", folder))
    mains: dict[str, tuple[processes.Main, tuple[object, ...]]] = {
        "receiver": (receiver, (url, folder, n)),
        "worker": (worker, (url, folder)),
    }
    if one_process:
        mains = {"receiver": (both, (url, folder, n))}
    reports = processes.run(mains, TIMEOUT_SECONDS)
    told = reports["receiver"]
    known = reports.get("worker", told)
    commits = loop.run(lambda: _commits(url))
    if len({pos for _, pos in commits}) != sum(1 for name in known if name.isdigit()):
        raise processes.Failed("the worker told of another number of commits than the ledger holds")
    taken = {event: known[str(pos)] - told[event] for event, pos in commits}
    warm = ids(deliveries[:WARM_UP])
    measured = [seconds for event, seconds in taken.items() if event not in warm]
    return measured, loop.run(lambda: effects(url, "rows", deliveries))


async def _commits(url: str) -> list[tuple[str, int]]:
    link = await asyncpg.connect(url)
    try:
        return [(r["id"], r["pos"]) for r in await link.fetch(COMMITS)]
    finally:
        await link.close()


def percentile(values: list[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
