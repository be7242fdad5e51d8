"""`python -m bench`: choose workloads, run them, show and keep what came out."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from headgate.runtime import loop

from . import beside, clock, server, table
from .files import SMALL_FILES
from .processes import Failed
from .result import LATEST, Figure, Result, machine
from .workloads import APART, BESIDE, Size

NAMES = [*BESIDE, *APART]


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("workloads", nargs="*", help="which ones; all when none is named")
    parser.add_argument("--n", type=int, default=60_000, help="deliveries of the common job")
    parser.add_argument("--reps", type=int, default=3, help="rounds; the median counts")
    parser.add_argument("--files", type=int, default=SMALL_FILES, help="files of `small_files`")
    parser.add_argument("--gib", type=float, default=1.0, help="size of `large_file`")
    parser.add_argument("--out", type=Path, help="write the result here as JSON")
    parser.add_argument("--list", action="store_true", help="show the workloads' names")
    asked = parser.parse_args(given)
    unknown = [name for name in asked.workloads if name not in NAMES]
    if unknown:
        parser.error(f"no workload {', '.join(unknown)}; there are {', '.join(NAMES)}")
    asked.all = not asked.workloads
    asked.workloads = asked.workloads or NAMES
    if asked.all and asked.out is None:
        asked.out = LATEST
    return asked


def say(line: str) -> None:
    print(line, flush=True)


def measure(asked: argparse.Namespace) -> Result:
    """Everything that was asked for, on one server."""
    with server.serving() as place:
        chosen = [BESIDE[name] for name in asked.workloads if name in BESIDE]
        rows = beside.run(place, chosen, asked.n, asked.reps, say)
        figures: list[Figure] = []
        size = Size(asked.n, asked.reps, asked.files, round(asked.gib * 2**30))
        for name in (name for name in asked.workloads if name in APART):
            say(f"{name} …")
            more_rows, more_figures = APART[name](place, size)
            rows += more_rows
            figures += more_figures
        facts = machine(loop.run(place.facts), server.filesystem(place.folder))
    return Result(facts, rows, figures)


def main() -> int:
    asked = arguments()
    if asked.list:
        say("\n".join(NAMES))
        return 0
    if clock.is_coarse():
        say(f"bench: this machine's clock is too coarse to measure with. {clock.ADVICE}")
        return 1
    try:
        result = measure(asked)
    except Failed as failure:
        say(f"bench: {failure}\nNothing was written.")
        return 1
    say("\n" + table.text(result))
    invalid = [f"{row.system} {row.workload}" for row in result.rows if not row.is_valid]
    if invalid:
        say(f"\nbench: lost or done twice: {', '.join(invalid)}. Nothing was written.")
        return 1
    if asked.out is not None:
        result.save(asked.out)
        say(f"\nwritten to {os.path.relpath(asked.out)}; for the page: make bench-page")
    return 0


if __name__ == "__main__":
    sys.exit(main())
