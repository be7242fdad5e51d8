"""Energy and carbon of a run: estimated from its processor time, under assumptions that are kept.

    joules = processor seconds × watts of a busy processor × overhead of the building
    grams of CO2e = joules ÷ 3.6 million × grams per kilowatt hour of the grid

It is an estimate of what computing took, good for comparing runs with one another. Memory, disks,
the network, the database's own processors and the making of machines are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .kept import kept_json

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


class Charge:
    """What each of several runs took that are charged the same: put into words once."""

    __slots__ = ("_documents", "used")

    def __init__(self, used: Used) -> None:
        self.used = used
        self._documents: dict[tuple[tuple[str, int], ...], bytes] = {}

    def document(self, rows: Mapping[str, int] | None) -> bytes:
        """The document of a journal line that says this, and how many rows were made."""
        counts = tuple(rows.items()) if rows else ()
        said = self._documents.get(counts)
        if said is None:
            told = {"rows": dict(counts)} if counts else {}
            said = self._documents[counts] = kept_json({**told, "energy": list(self.used)})
        return said
