"""A small world with every kind of ending in it, and copies of it to break.

a.csv was corrected once, b.csv published once, c.csv touched without a change; bad.csv is in
quarantine, junk.csv was discarded from there, again.csv was released and is in it again; slow.csv
and late.csv wait for a retry. An inline event was told twice, once with another payload, and an
older one came after it. Operations are told of in operations.py.
"""

from __future__ import annotations

import asyncio
import csv
import itertools
import os
import shutil
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TypedDict

from tests import scratch
from tests.verify import operations

import headgate as hg
from headgate.ledger import FUNCTIONS, MIGRATIONS, flow, inbox, quarantine
from headgate.model.envelope import Envelope
from headgate.model.verdict import RetryPlan
from headgate.pg import Database, Server, embedded, migrate
from headgate.runtime import inline, station
from headgate.runtime.tuning import Tuning
from headgate.stores import open_store

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PATIENT = RetryPlan("upstream-event", 8, 10 * 86400, 86400, 86400, "equal")
GOOD = "station,at,mm\n{0},2026-01-01T00:00:00,{1}\n"
_NUMBERS = itertools.count(1)


class Reading(TypedDict):
    station: str
    at: datetime
    mm: Decimal


def rain(folder: Path) -> hg.Pipeline:
    """Rows and a file of each object; refuses what is empty, and cannot yet do slow ones."""
    p = hg.Pipeline(
        "rain",
        sources=[hg.Directory(str(folder / "incoming"), settle=0, every=0.1)],
        store=str(folder / "lake"),
        retry=PATIENT,
        dataset="rain",
    )

    @p.validate
    def has_rows(obj: hg.Object) -> None:
        if obj.size == 0:
            raise hg.Permanent("empty file")

    @p.rows("reading", key=("station", "at"), schema=Reading)
    def readings(obj: hg.Object, run: hg.Run) -> Iterator[dict[str, str]]:
        if "slow" in obj.text() or "late" in obj.text():
            raise hg.Retryable("not yet")
        yield from csv.DictReader(obj.lines())

    @p.transform
    def copy(obj: hg.Object, run: hg.Run) -> dict[str, bytes]:
        return {"copy.csv": obj.read() + b"# copied\n", "second.csv": b"2" + obj.read()}

    return p


def archive(folder: Path) -> hg.Pipeline:
    """What vanishes from its folder is removed."""
    return hg.Pipeline(
        "archive",
        sources=[hg.Directory(str(folder / "archive"), settle=0)],
        store=str(folder / "lake"),
        removed="remove",
    )


def event(event_id: str, at: datetime, data: bytes, etag: str | None = None) -> Envelope:
    return Envelope(
        event_id=event_id,
        source="test",
        provider="log",
        detector="log",
        uri="event:one",
        event_time=at,
        received_at=NOON,
        data=data,
        etag=etag,
    )


@dataclass(frozen=True)
class World:
    """A ledger, the store beside it, and its entries by name: `a1` is the first of a.csv."""

    db: Database
    folder: Path
    entries: dict[str, int]

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def entry(self, name: str) -> int:
        return self.entries[name]


Copy = Callable[[], AbstractAsyncContextManager[World]]


async def build(db: Database, folder: Path) -> None:
    """Live through all of it."""
    await migrate.migrate(db, MIGRATIONS, FUNCTIONS)
    incoming = folder / "incoming"
    incoming.mkdir()
    pipelines = [rain(folder)]

    async def settle() -> None:
        await inline.run(db, pipelines, Tuning(), until_idle=True)

    for name in ("a", "b", "c"):
        (incoming / f"{name}.csv").write_text(GOOD.format(name, 1))
    for name in ("bad", "junk", "again"):
        (incoming / f"{name}.csv").write_text("station,at,mm\nS,never,1\n# " + name)
    for name in ("slow", "late"):
        (incoming / f"{name}.csv").write_text(GOOD.format(name, 1))
    await settle()

    (incoming / "a.csv").write_text(GOOD.format("a", 2) + GOOD.format("a2", 3).split("\n")[1])
    os.utime(incoming / "c.csv", (1, 1))
    at = await station.register(db, pipelines[0])
    new = event("new", NOON, GOOD.format("e", 1).encode())
    await inbox.receive(db, at, "test", [new, new])
    await settle()

    await inbox.receive(db, at, "test", [new])
    await inbox.receive(db, at, "test", [event("new", NOON, b"other", etag="x")])
    older = event("older", NOON - timedelta(days=1), GOOD.format("e", 0).encode())
    await inbox.receive(db, at, "test", [older])
    named = await names(db)
    await quarantine.release(db, [named["again1"]], because="try again", actor="tester")
    await settle()
    await quarantine.discard(db, [named["junk1"]], because="not needed", actor="tester")
    await settle()
    await operations.live(db, str(folder / "lake"))
    assert await flow.roll_up(db) == 0  # who sweeps leaves nothing behind


async def names(db: Database) -> dict[str, int]:
    """Entries by the name of their file and their number among its entries."""
    named: dict[str, int] = {}
    for row in await db.fetch("SELECT id, uri FROM headgate.entry ORDER BY id"):
        stem = row["uri"].rpartition("/")[2].removesuffix(".csv").replace("event:one", "event")
        n = next(n for n in itertools.count(1) if f"{stem}{n}" not in named)
        named[f"{stem}{n}"] = row["id"]
    return named


@contextmanager
def standing() -> Iterator[Copy]:
    """The world on a server of its own, to be copied from."""
    with scratch.open_folder("hg-world-") as base, embedded.start(base / "home") as server:
        folder = base / "world"
        folder.mkdir()
        yield partial(copied, server, make(server, folder), folder)


def make(server: Server, folder: Path) -> str:
    """Build the world in a database of its own; the name of the database."""
    name = f"world_{next(_NUMBERS)}"

    async def create() -> None:
        async with await Database.open(server.url) as db:
            await db.execute(f"CREATE DATABASE {name}")
        async with await Database.open(_url(server, name)) as db:
            await build(db, folder)

    asyncio.run(create())
    return name


@asynccontextmanager
async def copied(server: Server, template: str, folder: Path) -> AsyncGenerator[World]:
    """A copy of the world, database and store, that may be broken."""
    name = f"copy_{next(_NUMBERS)}"
    there = folder.parent / name
    shutil.copytree(folder, there)
    async with await Database.open(server.url) as db:
        await db.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    async with await Database.open(_url(server, name)) as db:
        before, now = (open_store(str(at / "lake")).uri for at in (folder, there))
        await db.execute("UPDATE headgate.store SET uri = $1", now)
        await db.execute("UPDATE headgate.operation SET store = $1 WHERE store = $2", now, before)
        for file in [*there.glob("lake/runs/*/*"), *there.glob("lake/prov/*")]:
            file.write_text(file.read_text().replace(before, now))
        yield World(db, there, await names(db))
    async with await Database.open(server.url) as db:
        await db.execute(f"DROP DATABASE {name}")
    shutil.rmtree(there)


def _url(server: Server, name: str) -> str:
    return server.url.replace("@/postgres?", f"@/{name}?")
