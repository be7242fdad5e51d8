"""The meter: a worker's processor time, shared out to the runs it was spent on.

A handler that has a thread for itself is charged what its thread took; what ran together (quick
handlers, async handlers, the claim, the commit before) is shared by the entries of a batch. What an
idle worker takes is nobody's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from operator import attrgetter

from headgate.ledger.attempt import Attempt
from headgate.model.energy import Assumed, Charge, Used
from headgate.model.signal import CARBON, CPU_SECONDS, ENERGY, emit

from .tuning import Tuning

# Finer than the clocks of most machines; and the same number many times is written once.
DIGITS = 6
_CPU = attrgetter("cpu_seconds")


def meter_of(tuning: Tuning) -> Meter | None:
    """A meter, if energy is asked for."""
    if not tuning.energy:
        return None
    assumed = Assumed(tuning.energy_core_watts, tuning.energy_overhead, tuning.energy_grid_grams)
    return Meter(assumed)


class Meter:
    """One per worker process, for all its lanes."""

    def __init__(self, assumed: Assumed) -> None:
        self._assumed = assumed
        self._last = time.process_time()

    def begin(self) -> None:
        """There is work again: what was taken while there was none is nobody's."""
        self._last = time.process_time()

    def share(self, pipeline: str, batch: Sequence[Attempt]) -> None:
        """Charge these attempts for what was taken since the last ones were."""
        now = time.process_time()
        taken, self._last = now - self._last, now
        handling = sum(map(_CPU, batch))
        rest = max(0.0, taken - handling) / len(batch)
        known: dict[float, Charge] = {}  # most of a batch took the same
        for attempt in batch:
            charge = known.get(attempt.cpu_seconds)
            if charge is None:
                cpu = round(attempt.cpu_seconds + rest, DIGITS)
                charge = known[attempt.cpu_seconds] = Charge(Used.of(cpu, self._assumed))
            attempt.energy = charge
        used = Used.of(handling + rest * len(batch), self._assumed)
        emit(CPU_SECONDS, used.cpu_seconds, pipeline=pipeline)
        emit(ENERGY, used.joules, pipeline=pipeline)
        emit(CARBON, used.grams, pipeline=pipeline)
