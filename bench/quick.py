"""`python -m bench.quick`: a small job, the ratios held against their guards. For CI.

What is below its guard is measured once more, so that a busy moment of the machine does not fail
it; what is below twice is slower than it was. Where many processes wait for each core, or the clock
stands still between two ticks, no ratio means anything: then it says so, and judges only that
nothing was lost or done twice.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from . import beside, clock, server
from .floors import GUARDS
from .processes import Failed
from .result import Row
from .workloads import HEADGATE

N = 8000
REPS = 3
BUSY_PER_CORE = 3.0  # our own processes are half of that at most

Measure = Callable[[Sequence[str]], list[Row]]


def below(rows: Sequence[Row]) -> dict[str, str]:
    """The workloads below their guards: ratio, guard and margin, in words."""
    words: dict[str, str] = {}
    for row in rows:
        guard = GUARDS.get(row.workload, 0.0) if row.system == "headgate" else 0.0
        if row.ratio < guard:
            margin = row.ratio / guard - 1
            words[row.workload] = (
                f"{row.ratio:.3f} of the bare loop, {margin:+.0%} from its guard of {guard:.3f}"
                f" (between {row.lowest_ratio:.3f} and {row.highest_ratio:.3f})"
            )
    return words


def invalid(rows: Sequence[Row]) -> dict[str, str]:
    """The workloads that lost something, or did it twice."""
    return {
        f"{row.system} {row.workload}": f"{row.lost} events lost, {row.double} applied twice"
        for row in rows
        if not row.is_valid
    }


def in_the_way() -> str | None:
    """What keeps a ratio from meaning anything on this machine now."""
    # So many processes want each core that waiting for it is most of what is measured.
    if os.getloadavg()[0] > BUSY_PER_CORE * (os.cpu_count() or 1):
        return "this machine is too busy. Run make bench-quick when it is not."
    if clock.is_coarse():
        return f"this machine's clock is too coarse. {clock.ADVICE}"
    return None


def say(line: str) -> None:
    print(line, flush=True)


def hold(measure: Measure, in_the_way: Callable[[], str | None]) -> int:
    """Measure, and once more what is below; the exit code."""
    names: list[str] = list(GUARDS)
    slow: dict[str, str] = {}
    for _ in range(2):
        rows = measure(names)
        if wrong := invalid(rows):
            _tell(wrong)
            return 1
        slow = below(rows)
        if not slow:
            return 0
        if why := in_the_way():
            _tell(slow)
            say(f"bench: not judged: {why}")
            return 0
        names = list(slow)
    _tell(slow)
    say(
        "bench: measured twice. Look with: .venv/bin/python -m bench " + " ".join(slow) + "\n"
        "If it became slower for a good reason, lower the guard in bench/floors.py and say why."
    )
    return 1


def _tell(words: dict[str, str]) -> None:
    for name, text in words.items():
        say(f"bench: {name}: {text}")


def main() -> int:
    with server.serving() as place:

        def measure(names: Sequence[str]) -> list[Row]:
            return beside.run(place, [HEADGATE[name] for name in names], N, REPS, say)

        try:
            return hold(measure, in_the_way)
        except Failed as failure:
            say(f"bench: {failure}")
            return 1


if __name__ == "__main__":
    sys.exit(main())
