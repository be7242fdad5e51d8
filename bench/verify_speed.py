"""How long `verify`, `overview` and look-ups take on a large ledger.

    .venv/bin/python -m bench.verify_speed [ENTRIES] [WITH_FILES]

ENTRIES go through the real path with a row each; WITH_FILES more have their bytes in the store.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Awaitable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import TypedDict, TypeVar

import headgate as hg
from headgate.ledger import entries as listed
from headgate.ledger import history, inbox
from headgate.model.envelope import Envelope
from headgate.pg import Database
from headgate.runtime import inline, station
from headgate.runtime.ledger_home import Ledger, connected
from headgate.runtime.tuning import Tuning
from headgate.runtime.verify import verify

from . import server

T = TypeVar("T")


class Row(TypedDict):
    id: int


def pipeline(folder: Path, name: str, files: bool) -> hg.Pipeline:
    p = hg.Pipeline(name, store=str(folder / "lake"))

    @p.rows(f"{name}_row", key="id", schema=Row)
    def rows(obj: hg.Object, run: hg.Run) -> Iterator[dict[str, str]]:
        yield {"id": obj.text()}

    if files:

        @p.transform
        def copy(obj: hg.Object, run: hg.Run) -> dict[str, bytes]:
            return {"copy": obj.read()}

    return p


def event(n: int) -> Envelope:
    now = datetime.now(UTC)
    return Envelope(
        event_id=str(n),
        source="bench",
        provider="log",
        detector="log",
        uri=f"event:{n}",
        event_time=now,
        received_at=now,
        data=str(n).encode(),
    )


async def fill(db: Database, declared: hg.Pipeline, entries: int) -> None:
    at = await station.register(db, declared)
    for begin in range(0, entries, 1000):
        batch = [event(n) for n in range(begin, min(begin + 1000, entries))]
        await inbox.receive(db, at, "bench", batch)
    await inline.run(db, [declared], Tuning(), until_idle=True)


async def timed(what: str, doing: Awaitable[T]) -> T:
    began = perf_counter()
    result = await doing
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what:32} {perf_counter() - began:8.2f} s   peak {memory:.0f} MB", flush=True)
    return result


async def main(folder: Path, entries: int, with_files: int) -> None:
    async with connected(Ledger(None, folder / "home")) as db:
        await timed(f"{entries} entries", fill(db, pipeline(folder, "rows", False), entries))
        await timed(
            f"{with_files} with files", fill(db, pipeline(folder, "files", True), with_files)
        )
        for deep in (False, True):
            report = await timed(f"verify(deep={deep})", verify(db, deep=deep))
            print(f"  ok={report.ok} {report.checked}")
        await timed("overview", history.overview(db))
        middle = str(entries // 2)
        (one,) = await timed("find by id", history.find(db, middle))
        await timed("find by key", history.find(db, one.key))
        await timed("find by uri", history.find(db, one.uri))
        await timed("explain", history.explain(db, one.entry))
        await timed("newest 50", listed.entries(db))
        await timed("quarantined (none)", listed.entries(db, status="quarantined"))
        for view in ("wal", "processed_events", "idempotency_log", "rollback_registry"):
            sql = f"SELECT * FROM headgate.{view} WHERE entry = $1"
            await timed(f"{view} by entry", db.fetch(sql, one.entry))


if __name__ == "__main__":
    given = [int(x) for x in sys.argv[1:]]
    with server.folder() as here:
        asyncio.run(main(here, *(given + [300_000, 20_000][len(given) :])))
