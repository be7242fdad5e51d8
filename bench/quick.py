"""`python -m bench.quick`: a small job, the ratios held against their guards. For CI.

What is below its guard is measured once more, so that a busy moment of the machine does not fail
it. What is below twice is slower than it was.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from . import beside, server
from .floors import GUARDS
from .result import Row
from .workloads import HEADGATE

N = 8000
REPS = 3


def judge(rows: Sequence[Row]) -> dict[str, str]:
    """What is wrong with which workload, in words; empty when all is well."""
    wrong: dict[str, str] = {}
    for row in rows:
        guard = GUARDS.get(row.workload, 0.0) if row.system == "headgate" else 0.0
        if not row.is_valid:
            wrong[row.workload] = f"{row.lost} events lost, {row.double} applied twice"
        elif row.ratio < guard:
            margin = row.ratio / guard - 1
            wrong[row.workload] = (
                f"{row.ratio:.3f} of the bare loop, {margin:+.0%} from its guard of {guard:.3f}"
                f" (between {row.lowest_ratio:.3f} and {row.highest_ratio:.3f})"
            )
    return wrong


def say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    with server.serving() as place:
        workloads = [HEADGATE[name] for name in GUARDS]
        wrong = judge(beside.run(place, workloads, N, REPS, say))
        if wrong:
            say(f"once more: {', '.join(wrong)}")
            again = [w for w in workloads if w.name in wrong]
            wrong = judge(beside.run(place, again or workloads, N, REPS, say))
    for name, words in wrong.items():
        say(f"bench: {name}: {words}")
    if wrong:
        say(
            "It was measured twice. If it became slower for a good reason, lower the guard in"
            " bench/floors.py and say why; else look with: .venv/bin/python -m bench "
            + " ".join(wrong)
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
