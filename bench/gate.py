"""The common job through Headgate: one process receives, another one works.

The worker's process is set as `headgate up` sets it. Both are warm, as everybody is who does the
job. The clock runs from before the first delivery until the last effect is committed.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from time import time

import asyncpg

from headgate.ledger import FUNCTIONS, MIGRATIONS, inbox
from headgate.ledger.inbox import Registered
from headgate.model.envelope import Envelope
from headgate.pg import Database, migrate
from headgate.runtime import loop, station
from headgate.runtime.intake import count as count_shown
from headgate.runtime.intake import telling
from headgate.runtime.tuning import Tuning
from headgate.runtime.work import Worker
from headgate.telemetry.log import configure

from . import processes
from .job import EFFECTS, Count, Event, batches, count, events, ids, warm_up
from .pipelines import Kind, declare, envelope, message
from .processes import Report, Together
from .shown import showing, supervisor

TIMEOUT_SECONDS = 600.0
LOOK_SECONDS = 0.02  # each look is work that the clock counts
LEFT = "SELECT EXISTS (SELECT FROM headgate.work)"
# Declared rows are replaced, not added up. Whatever touches one a second time is written down.
AGAIN = """
    CREATE TABLE again (key text NOT NULL);
    CREATE FUNCTION noticed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO again VALUES (OLD.key); RETURN NULL; END $$;
    CREATE TRIGGER noticed AFTER UPDATE OR DELETE ON effects
        FOR EACH ROW EXECUTE FUNCTION noticed()
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: how long it took, and what became of the job."""

    seconds: float
    count: Count
    receive_seconds: float = 0.0


async def prepare(url: str, kind: Kind, folder: Path) -> None:
    """A ledger in an empty database, and the effects table, as a first start leaves them."""
    async with await Database.open(url) as db:
        await migrate.migrate(db, MIGRATIONS, FUNCTIONS)
        if kind != "rows":
            await db.execute(EFFECTS)
        await station.paths(db, [declare(kind, folder)], Tuning())
        if kind == "rows":
            await db.execute(AGAIN)
        await db.execute("CHECKPOINT")


async def _receive(
    together: Together,
    url: str,
    kind: Kind,
    folder: Path,
    deliveries: Sequence[Event],
    in_flight: int,
    line: Connection | None = None,
    *,
    worked: bool = True,
) -> Report:
    async with await Database.open(url) as db:
        at = await station.register(db, declare(kind, folder))
        warm, told = _messages(warm_up()), _messages(deliveries)
        places = asyncio.Semaphore(in_flight)
        set_as_up_does()
        together.begin()
        with showing(line):
            await _tell(db, at, warm, places)
            if worked:
                await until_idle(db)
            began = time()
            await _tell(db, at, told, places)
        ended = time()
        together.received.set()
        return {"began": began, "ended": ended}


async def until_idle(db: Database) -> None:
    """Wait until nothing is left to do."""
    while True:
        if not await db.fetchval(LEFT):
            return
        await asyncio.sleep(LOOK_SECONDS)


Messages = list[list[tuple[Event, bytes]]]


def _messages(deliveries: Sequence[Event]) -> Messages:
    return [[(e, message(e)) for e in batch] for batch in batches(deliveries)]


async def _tell(db: Database, at: Registered, told: Messages, places: asyncio.Semaphore) -> None:
    async def receive(envelopes: list[Envelope]) -> None:
        with telling("drain bench", "consumer", envelopes):
            count_shown("bench", await inbox.receive(db, at, "bench", envelopes))

    async with asyncio.TaskGroup() as receiving:
        for batch in told:
            await places.acquire()
            envelopes = [envelope(e, data) for e, data in batch]
            task = receiving.create_task(receive(envelopes))
            task.add_done_callback(lambda _: places.release())


def receiver(
    together: Together,
    url: str,
    kind: Kind,
    folder: Path,
    n: int,
    in_flight: int,
    line: Connection | None = None,
) -> Report:
    """The receiving process. While Postgres writes a batch, it may prepare the next."""
    return loop.run(lambda: _receive(together, url, kind, folder, events(n), in_flight, line))


def lone_receiver(together: Together, url: str, folder: Path, n: int, in_flight: int) -> Report:
    """The same where nobody works."""
    told = events(n)
    return loop.run(lambda: _receive(together, url, "rows", folder, told, in_flight, worked=False))


def set_as_up_does() -> None:
    """What `headgate up` does to the process of a worker; but only errors are logged."""
    configure(level="error")
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
    sys.setswitchinterval(0.001)


async def _work(
    together: Together,
    url: str,
    kind: Kind,
    folder: Path,
    expected: int,
    line: Connection | None = None,
) -> Report:
    tuning = Tuning(energy=line is not None)
    async with await Database.open(url) as db:
        paths = await station.paths(db, [declare(kind, folder)], tuning)
        worker = Worker(db, paths, tuning, name="bench")
        set_as_up_does()
        together.begin()
        with showing(line):
            working = asyncio.create_task(worker.run())
            while not await _finished(db, together, expected):
                if working.done():
                    working.result()
                    raise RuntimeError("the worker stopped before its work was done")
                await asyncio.sleep(LOOK_SECONDS)
            ended = time()
            worker.stop()
            await working
        return {"ended": ended}


async def _finished(db: Database, together: Together, expected: int) -> bool:
    # The commits are few rows; only when they seem to be all does it look at the work itself.
    if not together.received.is_set():
        return False
    settled = await db.fetchval("SELECT coalesce(sum(n), 0) FROM headgate.commit")
    return settled >= expected and not await db.fetchval(LEFT)


def worker(
    together: Together,
    url: str,
    kind: Kind,
    folder: Path,
    expected: int,
    line: Connection | None = None,
) -> Report:
    """The working process."""
    return loop.run(lambda: _work(together, url, kind, folder, expected, line))


async def effects(url: str, kind: Kind, deliveries: Sequence[Event]) -> Count:
    """What became of the job, by the effects table."""
    expected = ids(e for e in deliveries if kind != "poison" or not e.is_poison)
    counts = "SELECT key, count FROM effects"
    if kind == "rows":
        counts = "SELECT key, 1 FROM effects UNION ALL SELECT key, 2 FROM again"
    link = await asyncpg.connect(url)
    try:
        return count(expected, [tuple(row) for row in await link.fetch(counts)])
    finally:
        await link.close()


def everything(n: int) -> list[Event]:
    """All that is told in a run: the warm-up, then the job."""
    return [*warm_up(), *events(n)]


def end_to_end(url: str, kind: Kind, folder: Path, n: int) -> Outcome:
    """Receive and work at once, in two processes, in an empty database."""
    loop.run(lambda: prepare(url, kind, folder))
    return through(url, kind, folder, n)


def through(url: str, kind: Kind, folder: Path, n: int, collector: str = "") -> Outcome:
    """The same where everything is prepared; with a collector, everything is shown to it."""
    deliveries = everything(n)
    heard = [processes.SERVER.Pipe(duplex=False) for _ in range(2 if collector else 0)]
    said: list[Connection | None] = [w for _, w in heard] or [None, None]
    mains: dict[str, tuple[processes.Main, tuple[object, ...]]] = {
        "receiver": (receiver, (url, kind, folder, n, 1, said[0])),
        "worker": (worker, (url, kind, folder, len(ids(deliveries)), said[1])),
    }
    if collector:
        mains["supervisor"] = supervisor, ([r for r, _ in heard], collector)
    reports = processes.run(mains, TIMEOUT_SECONDS, leaving=[w for _, w in heard])
    if collector and reports["supervisor"]["dropped"]:
        raise processes.Failed(f"{reports['supervisor']['dropped']:g} spans were dropped")
    got, done = reports["receiver"], reports["worker"]
    return Outcome(
        max(got["ended"], done["ended"]) - got["began"],
        loop.run(lambda: effects(url, kind, deliveries)),
        got["ended"] - got["began"],
    )


def receive_alone(url: str, folder: Path, n: int) -> Outcome:
    """Only receive, two batches at a time; what arrived is counted in the ledger."""
    loop.run(lambda: prepare(url, "rows", folder))
    report = processes.run({"receiver": (lone_receiver, (url, folder, n, 2))}, TIMEOUT_SECONDS)
    got = report["receiver"]
    seconds = got["ended"] - got["began"]
    return Outcome(seconds, loop.run(lambda: _admitted(url, everything(n))), seconds)


async def _admitted(url: str, deliveries: Sequence[Event]) -> Count:
    link = await asyncpg.connect(url)
    try:
        found = await link.fetch(
            "SELECT convert_from(data, 'UTF8')::json ->> 'id', count(*)"
            " FROM headgate.entry GROUP BY 1"
        )
    finally:
        await link.close()
    return count(ids(deliveries), [tuple(row) for row in found])
