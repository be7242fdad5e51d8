"""The catalog: what it costs to have one, and how fast it is made again from nothing.

Its cost is the throughput of small files with everything on (items, provenance, the files of every
run) as a share of the same without a dataset: how many changes a second readers see, on a machine
that writes all those files at the same time. The files come after what they tell of. Two figures
say how far: the share until the last of them is durable, and what a bare loop takes that writes the
same bytes under the same names. Publishing and that loop together are the least there can be.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import headgate as hg
from headgate.ledger import FUNCTIONS, MIGRATIONS, inbox, projection
from headgate.model.layout import PLAIN
from headgate.pg import Database, migrate
from headgate.runtime import loop, station
from headgate.runtime.rebuild import rebuild
from headgate.runtime.tuning import Tuning
from headgate.runtime.work import Worker

from . import processes
from .files import row, through, write_small
from .gate import LEFT, LOOK_SECONDS, TIMEOUT_SECONDS, set_as_up_does
from .job import Count
from .processes import Failed, Report, Together
from .result import Figure, Row
from .server import Place

ITEMS = 100_000
AT_ONCE = 1000
# So many times as many files as elsewhere: the catalog is at work all the while, and not only at
# the end.
LONGER = 5
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
# From the first file that was seen to the last that is published, and to the last of the catalog.
TOOK = """
SELECT extract(epoch FROM (SELECT min(received_at) FROM headgate.entry))::float8,
       extract(epoch FROM (SELECT max(at) FROM headgate.commit))::float8,
       extract(epoch FROM (SELECT max(moved_at) FROM headgate.projection))::float8
"""


PIPELINE = """
import headgate as hg

files = hg.Pipeline(
    "files",
    sources=[hg.Directory({incoming!r}, settle=0, every=0.5)],
    store={lake!r},
    dataset={dataset!r},
)
"""


def take_in(dataset: str | None, url: str, folder: Path) -> Report:
    """Take in a folder with `headgate up`, from the first file it saw.

    Until every file is published and, where there is a catalog, in it.
    """
    target = folder / "pipeline.py"
    incoming, lake = str(folder / "incoming"), str(folder / "lake")
    target.write_text(
        PIPELINE.format(incoming=incoming, lake=lake, dataset=dataset), encoding="utf-8"
    )
    up = [sys.executable, "-m", "headgate", "up", str(target), "--until-idle"]
    ended = subprocess.run(
        up,
        cwd=folder,
        env={**os.environ, "HEADGATE_DATABASE_URL": url, "HEADGATE_LOG_LEVEL": "error"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    if ended.returncode:
        raise Failed(f"headgate up failed:\n{ended.stderr}")
    return loop.run(lambda: _took(url))


async def _took(url: str) -> Report:
    async with await Database.open(url) as db:
        row = await db.fetchrow(TOOK)
        assert row is not None, "an aggregate has one row"
        began, published, written = row
    return {"seconds": (written or published) - began, "published": published - began}


def cost(place: Place, reps: int, n: int) -> tuple[list[Row], list[Figure]]:
    """Small files with a catalog beside the same without."""
    n *= LONGER
    bare: list[float] = []

    def once(dataset: str | None) -> tuple[Report, Count]:
        return through(
            place, lambda f: write_small(f / "incoming", n), n, partial(take_in, dataset)
        )

    def with_catalog(url: str, folder: Path) -> Report:
        report = take_in("files", url, folder)
        again: Report = processes.run(
            {"bare": (write_bare, (folder / "lake", place.new_folder("bare-catalog")))},
            TIMEOUT_SECONDS,
        )["bare"]
        bare.append(again["seconds"] / n)
        return report

    runs: list[tuple[float, float, Count]] = []
    until_written: list[float] = []
    before = once(None)[0]["published"]
    for _ in range(reps):
        report, counted = through(place, lambda f: write_small(f / "incoming", n), n, with_catalog)
        after = once(None)[0]["published"]
        runs.append((report["published"], (before + after) / 2, counted))
        until_written.append((before + after) / 2 / report["seconds"])
        before = after
    how = f"{n} files of 8 KiB from a folder with everything catalogued, beside the same without"
    written = Figure("catalog_written", round(median(until_written), 3), "×", how)
    alone = Figure("catalog_bare", round(median(bare) * 1e6), "µs", how)
    return [row("catalog", how, n, runs)], [written, alone]


def write_bare(together: Together, lake: Path, folder: Path) -> Report:
    """Write the files of a catalog once more, and have them on the disk: no more than that."""
    files = [
        (folder / path.relative_to(lake), path.read_bytes())
        for top in PLAIN.folders
        for path in (lake / top).rglob("*")
        if path.is_file()
    ]
    together.begin()
    os.sync()
    began = perf_counter()
    there: set[Path] = set()
    for path, content in files:
        if path.parent not in there:
            path.parent.mkdir(parents=True, exist_ok=True)
            there.add(path.parent)
        with open(path, "wb", buffering=0) as file:
            file.write(content)
    os.sync()
    return {"seconds": perf_counter() - began}


def _pipeline(folder: Path) -> hg.Pipeline:
    return hg.Pipeline("items", store=str(folder / "lake"), dataset="items")


def _envelope(n: int) -> hg.Envelope:
    return hg.Envelope(
        event_id=f"e-{n}",
        source="bench",
        provider="webhook",
        detector="event",
        kind="created",
        uri=f"bench://items/{n:06d}.json",
        event_time=WHEN,
        received_at=WHEN,
        data=b'{"n": %d}' % n,
    )


async def publish(db: Database, pipeline: hg.Pipeline, n: int) -> None:
    """Publish n items without writing a file of theirs."""
    at = await station.register(db, pipeline)
    for first in range(0, n, AT_ONCE):
        some = [_envelope(k) for k in range(first, min(first + AT_ONCE, n))]
        await inbox.receive(db, at, "bench", some)
    worker = Worker(db, await station.paths(db, [pipeline], Tuning()), Tuning(), name="bench")
    working = asyncio.create_task(worker.run())
    while await db.fetchval(LEFT):
        if working.done():
            raise Failed("catalog_rebuild: the worker stopped before its work was done")
        await asyncio.sleep(LOOK_SECONDS)
    worker.stop()
    await working


async def _rebuild(url: str, folder: Path, n: int) -> float:
    async with await Database.open(url) as db:
        await migrate.migrate(db, MIGRATIONS, FUNCTIONS)
        await publish(db, _pipeline(folder), n)
        # As where a catalog was there, and is lost.
        (files,) = await projection.stores(db)
        async with db.transaction() as link:
            await projection.move(link, files, await projection.latest(link))
        await db.execute("ANALYZE; CHECKPOINT")
        set_as_up_does()
        began = perf_counter()
        (told,) = await rebuild(db, Tuning())
        seconds = perf_counter() - began
    if told.items != n:
        raise Failed(f"catalog_rebuild: {told.items} items of {n}")
    return seconds


def rebuilt(place: Place, n: int) -> list[Figure]:
    """Everything of n items made again from nothing."""
    folder = place.new_folder("catalog")
    url = loop.run(place.fresh)
    seconds = loop.run(lambda: _rebuild(url, folder, n))
    how = f"{n} items: STAC, DCAT and PROV from an empty folder, durable"
    return [Figure("catalog_rebuild", round(seconds / n * 1e6), "µs", how)]
