"""Energy and carbon of a run: estimated from its processor time, under assumptions that are kept.

    joules = processor seconds × watts of a busy processor × overhead of the building
    grams of CO2e = joules ÷ 3.6 million × grams per kilowatt hour of the grid

It is an estimate of what computing took, good for comparing runs with one another. Memory, disks,
the network, the database's own processors and the making of machines are not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

JOULES_PER_KWH = 3_600_000.0


@dataclass(frozen=True, slots=True)
class Assumed:
    """What the estimate rests on; all three are settings."""

    core_watts: float
    overhead: float
    grid_grams: float


class Used(NamedTuple):
    """What one run took. The journal keeps these four numbers; the rest follows from them."""

    cpu_seconds: float
    core_watts: float
    overhead: float
    grid_grams: float

    @classmethod
    def of(cls, cpu_seconds: float, assumed: Assumed) -> Used:
        return cls(cpu_seconds, assumed.core_watts, assumed.overhead, assumed.grid_grams)

    @classmethod
    def restore(cls, kept: Sequence[float]) -> Used:
        """From what the journal keeps."""
        return cls(*kept)

    @property
    def joules(self) -> float:
        return self.cpu_seconds * self.core_watts * self.overhead

    @property
    def grams(self) -> float:
        return self.joules / JOULES_PER_KWH * self.grid_grams
