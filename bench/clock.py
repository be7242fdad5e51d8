"""The machine's clock, before anything is measured with it.

On some virtual machines the clock stands still between two ticks of the kernel: it moves in steps
of 4 to 50 ms, now and then backwards from one core to the other. No figure means anything there.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

COARSE_SECONDS = 0.0005
LOOKS = 10
ADVICE = (
    "On Linux, as root: cat /sys/devices/system/clocksource/clocksource0/available_clocksource,"
    " and write another one of them to current_clocksource beside it."
)


def step(clock: Callable[[], float] = perf_counter) -> float:
    """The smallest step that the clock was seen to make, in seconds."""
    return min(_next_step(clock) for _ in range(LOOKS))


def _next_step(clock: Callable[[], float]) -> float:
    before = clock()
    while (now := clock()) == before:
        pass
    return abs(now - before)


def is_coarse() -> bool:
    """Does it move in steps that are as long as what is measured?"""
    return step() > COARSE_SECONDS
