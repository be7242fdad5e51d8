"""How long it takes until something happens: the first word of `--help`, a server of one's own."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from time import perf_counter

from headgate.pg import embedded

from .result import Figure
from .server import folder

TIMES = 10


def _seconds(command: list[str]) -> float:
    began = perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - began


def help_figures() -> list[Figure]:
    """`headgate --help`, without what the interpreter takes to start and stop."""
    headgate = str(Path(sys.executable).with_name("headgate"))
    _seconds([headgate, "--help"])  # compiled and in the cache, as on every day but the first
    more = [
        _seconds([headgate, "--help"]) - _seconds([sys.executable, "-c", "pass"])
        for _ in range(TIMES)
    ]
    how = f"`headgate --help` less `python -c pass`, median of {TIMES}"
    return [Figure("help", round(median(more) * 1e3, 1), "ms", how)]


def import_figures() -> list[Figure]:
    """`import headgate`, without what the interpreter takes to start and stop."""
    bare, ours = ([sys.executable, "-c", code] for code in ("pass", "import headgate"))
    _seconds(ours)
    more = [_seconds(ours) - _seconds(bare) for _ in range(TIMES)]
    how = f"`import headgate` less `python -c pass`, median of {TIMES}"
    return [Figure("import", round(median(more) * 1e3, 1), "ms", how)]


def _stopped(home: Path) -> None:
    """Wait until the keeper of a home has let go."""
    with (home / "postgres" / "keeper.lock").open("ab") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.02)
            else:
                return


def _start(home: Path) -> float:
    began = perf_counter()
    with embedded.start(home):
        seconds = perf_counter() - began
    _stopped(home)
    return seconds


def embedded_figures(reps: int) -> list[Figure]:
    """A server for an empty home, and for a home that has one but where nobody runs it."""
    with folder() as here:
        homes = [here / f"home{n}" for n in range(reps)]
        first = [_start(home) for home in homes]
        later = [_start(home) for home in homes]
    how = f"until it accepts connections, median of {reps}"
    return [
        Figure("embedded_first_start", round(median(first), 3), "s", how),
        Figure("embedded_later_start", round(median(later), 3), "s", how),
    ]
