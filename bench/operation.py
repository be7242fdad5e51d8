"""`hg.operation` beside Powertools' idempotency on Redis that syncs every write (AOF always).

Both have the same number of callers in flight, in one process, and go in turns. Ours commits an
effect with each first call: a row, in the same transaction as the record. Theirs has no effect.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headgate.runtime import loop

from .others import PYTHON, ROOT
from .processes import Failed
from .result import Figure
from .server import Place

CALLERS = 64
CALLS = 6000
REPEATS_ALONE = 500


def figures(place: Place, reps: int) -> list[Figure]:
    """First calls and repeats; a share of Powertools' where there is a Redis."""
    ours: list[dict[str, float]] = []
    theirs: list[dict[str, float]] = []
    with _redis(place.folder) as socket:
        for _ in range(reps):
            if socket is not None:
                theirs.append(_theirs(socket))
            ours.append(_ours(loop.run(place.fresh)))
    how = f"{CALLS} calls, {CALLERS} in flight in one process; {reps} rounds in turns"
    made = [
        Figure("operation_first", round(_median(ours, "first")), "/s", f"{how}; a row each"),
        Figure("operation_repeats", round(_median(ours, "repeats")), "/s", how),
        Figure(
            "operation_repeat_p50",
            round(_median(ours, "p50") * 1e3, 2),
            "ms",
            "one after the other",
        ),
    ]
    if not theirs:
        print("bench: there is no redis-server here: Powertools is not measured", flush=True)
        return made
    share = statistics.median(t["first"] / o["first"] for t, o in zip(theirs, ours, strict=True))
    return [
        *made,
        Figure("powertools_first", round(_median(theirs, "first")), "/s", f"{how}; no effect"),
        Figure("powertools_repeats", round(_median(theirs, "repeats")), "/s", how),
        Figure("operation_first_share", round(share, 3), "×", f"{how}; the median of the rounds"),
    ]


def _median(rounds: list[dict[str, float]], name: str) -> float:
    return statistics.median(one[name] for one in rounds)


@contextmanager
def _redis(folder: Path) -> Iterator[str | None]:
    """A Redis that answers when a write is on the disk; None where there is no redis-server."""
    program = shutil.which("redis-server")
    if program is None:
        yield None
        return
    home = folder / "redis"
    home.mkdir()
    socket = home / "socket"
    options = ["--port", "0", "--unixsocket", str(socket), "--dir", str(home), "--save", ""]
    options += ["--appendonly", "yes", "--appendfsync", "always", "--logfile", "log"]
    server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 10
        while not socket.exists():
            if time.monotonic() > end:
                raise Failed("redis-server did not start within 10 s")
            time.sleep(0.05)
        yield str(socket)
    finally:
        server.terminate()
        server.wait()


def _theirs(socket: str) -> dict[str, float]:
    if not PYTHON.exists():
        raise Failed("powertools is not installed: `make bench` installs it")
    return _said([PYTHON, "-m", "bench.peers.powertools", "--socket", socket])


def _ours(url: str) -> dict[str, float]:
    return _said([Path(sys.executable), "-m", "bench.operation", "--url", url])


def _said(command: list[Any]) -> dict[str, float]:
    command += ["--n", str(CALLS), "--callers", str(CALLERS)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise Failed(f"{command[2]} failed:\n{ran.stderr[-3000:]}")
    return json.loads(ran.stdout.splitlines()[-1])


async def measure(n: int, callers: int) -> dict[str, float]:
    """In a process of its own: all callers are tasks of one event loop."""
    import headgate as hg

    async def call(number: int) -> None:
        async with hg.operation("charge", key={"order": number}) as op:
            if not op.done:
                op.tx.later("INSERT INTO payment VALUES ($1)", number)
                op.result = {"ok": number}

    async def all_of(numbers: range) -> float:
        left = iter(numbers)

        async def caller() -> None:
            for number in left:
                await call(number)

        began = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(callers)))
        return time.perf_counter() - began

    async with hg.operation("prepare") as op:
        await op.tx.execute("CREATE TABLE payment (id int PRIMARY KEY)")
    await all_of(range(-200, 0))
    first, repeats = await all_of(range(n)), await all_of(range(n))
    async with hg.operation("count") as op:
        counted = await op.tx.fetchval("SELECT count(*) FROM payment")
    if counted != n + 200:
        raise Failed(f"{n + 200} operations left {counted} rows")
    return {"first": n / first, "repeats": n / repeats, "p50": _alone(min(n, REPEATS_ALONE))}


def _alone(n: int) -> float:
    """Repeats of plain code, one after the other: half are quicker than this."""
    import headgate as hg

    taken: list[float] = []
    for number in range(n):
        began = time.perf_counter()
        with hg.operation("charge", key={"order": number}) as op:
            assert op.done
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def main() -> None:
    import os

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--n", type=int, required=True)
    parser.add_argument("--callers", type=int, required=True)
    asked = parser.parse_args()
    os.environ["HEADGATE_DATABASE_URL"] = asked.url
    print(json.dumps(asyncio.run(measure(asked.n, asked.callers))))


if __name__ == "__main__":
    main()
