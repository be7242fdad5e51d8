"""Files through the whole path: found in a folder, fetched, digested, stored, published.

The yardstick of small files is a loop that writes and syncs as many of them; that of a large one is
`cp` and a sync.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, time

import asyncpg

import headgate as hg
from headgate.ledger import FUNCTIONS, MIGRATIONS
from headgate.model.signal import COMMIT_SECONDS, listen
from headgate.pg import Database, migrate
from headgate.runtime import inline, loop
from headgate.runtime.tuning import Tuning

from . import processes
from .gate import TIMEOUT_SECONDS, set_as_up_does
from .job import Count
from .processes import Report, Together
from .result import Figure, Row
from .server import Place

SMALL_BYTES = 8 * 1024
SMALL_FILES = 1000
LARGE_BYTES = 1 << 30
TOUCHED_FILES = 6
PIECE = 1 << 20


def write_small(folder: Path, n: int) -> float:
    """Write and sync n small files; no two have the same bytes."""
    dice = random.Random(n)
    contents = [dice.randbytes(SMALL_BYTES) for _ in range(n)]
    folder.mkdir(parents=True, exist_ok=True)
    began = perf_counter()
    for k, content in enumerate(contents):
        with open(folder / f"{k:05d}.bin", "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    return perf_counter() - began


def _write_large(path: Path, size: int) -> None:
    dice = random.Random(size)
    path.parent.mkdir(parents=True)
    with open(path, "wb") as file:
        for left in range(size, 0, -PIECE):
            file.write(dice.randbytes(min(PIECE, left)))
        file.flush()
        os.fsync(file.fileno())


def _touch_disk(folder: Path, size: int) -> None:
    """Write to places that were never written to: on many virtual disks the first time is slow.

    Which of two files gets such a place is chance, and no merit of its writer.
    """
    folder.mkdir()
    for n in range(TOUCHED_FILES):
        _write_large(folder / f"{n}" / "file", size)
    shutil.rmtree(folder)


def _copy_large(source: Path, target: Path) -> float:
    began = perf_counter()
    subprocess.run(["cp", source, target], check=True)
    with open(target, "rb") as file:
        os.fsync(file.fileno())
    seconds = perf_counter() - began
    target.unlink()
    return seconds


async def _take_in(url: str, folder: Path) -> Report:
    pipeline = hg.Pipeline(
        "files",
        sources=[hg.Directory(folder / "incoming", settle=0, every=0.5)],
        store=str(folder / "lake"),
    )
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
        await inline.run(db, [pipeline], Tuning(), until_idle=True)
        stop_listening()
    return {"seconds": last - began, "peak_mb": _peak_mb()}


def take_in(together: Together, url: str, folder: Path) -> Report:
    """A process that takes in a folder and ends."""
    together.begin()
    return loop.run(lambda: _take_in(url, folder))


def _take_in_alone(url: str, folder: Path) -> Report:
    return processes.run({"files": (take_in, (url, folder))}, TIMEOUT_SECONDS)["files"]


def _take_in_and_remove(url: str, folder: Path) -> Report:
    """The same for large files, which would fill the disk and are few."""
    report = _take_in_alone(url, folder)
    shutil.rmtree(folder)
    return report


def _peak_mb() -> float:
    try:
        # Of this process as it is; getrusage also counts what it was forked from.
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        unit = 1024 if sys.platform != "darwin" else 1024 * 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


async def _published(url: str) -> int:
    link = await asyncpg.connect(url)
    try:
        return await link.fetchval("SELECT count(*) FROM headgate.publication")
    finally:
        await link.close()


def through(
    place: Place,
    prepare: Callable[[Path], object],
    n: int,
    run: Callable[[str, Path], Report] | None = None,
) -> tuple[Report, Count]:
    """A folder of files through Headgate, in a process of its own; what became of them.

    The folder stays until the end of the go: for minutes after thousands of files were removed,
    ext4 makes new ones several times more slowly.
    """
    folder = place.new_folder("files")
    prepare(folder)
    url = loop.run(place.fresh)
    report = (run or _take_in_alone)(url, folder)
    published = loop.run(lambda: _published(url))
    return report, Count(max(0, n - published), max(0, published - n))


def row(name: str, how: str, n: int, runs: list[tuple[float, float, Count]]) -> Row:
    rates = [n / seconds for seconds, _, _ in runs]
    ratios = [base / seconds for seconds, base, _ in runs]
    return Row(
        system="headgate",
        workload=name,
        events_per_s=round(median(rates), 3),
        ratio=round(median(ratios), 4),
        lost=sum(c.lost for _, _, c in runs),
        double=sum(c.double for _, _, c in runs),
        events=n,
        repetitions=len(runs),
        lowest_ratio=round(min(ratios), 4),
        highest_ratio=round(max(ratios), 4),
        how=how,
    )


def small(place: Place, reps: int, n: int) -> tuple[list[Row], list[Figure]]:
    """Small files beside a loop that writes and syncs as many."""

    def base() -> float:
        return write_small(place.new_folder("bare-files"), n)

    runs: list[tuple[float, float, Count]] = []
    before = base()
    for _ in range(reps):
        report, counted = through(place, lambda f: write_small(f / "incoming", n), n)
        after = base()
        runs.append((report["seconds"], (before + after) / 2, counted))
        before = after
    how = f"{n} files of 8 KiB from a folder, beside writing and syncing as many"
    return [row("small_files", how, n, runs)], []


def large(place: Place, reps: int, size: int) -> tuple[list[Row], list[Figure]]:
    """One large file beside `cp` and a sync, and the memory it took."""
    place_of = place.folder / "bare-file"
    runs: list[tuple[float, float, Count]] = []
    peaks: list[float] = []
    original, copy = place_of / "large.bin", place_of / "copy.bin"
    _touch_disk(place.folder / "touched", size)
    _write_large(original, size)

    def bring(folder: Path) -> None:
        (folder / "incoming").mkdir(parents=True)
        (folder / "incoming" / "large.bin").hardlink_to(original)

    before = _copy_large(original, copy)
    for _ in range(reps):
        report, counted = through(place, bring, 1, _take_in_and_remove)
        after = _copy_large(original, copy)
        peaks.append(report["peak_mb"])
        runs.append((report["seconds"], (before + after) / 2, counted))
        before = after
    shutil.rmtree(place_of)
    how = f"one file of {size / 2**30:g} GiB from a folder, beside cp and a sync"
    return [row("large_file", how, 1, runs)], [
        Figure("large_file_peak", round(max(peaks)), "MB", "memory of the process, at its peak")
    ]
