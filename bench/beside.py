"""Beside the bare loop: every workload runs between two runs of it, and is told as their share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from headgate.runtime import loop

from . import bare
from .job import Count, events
from .result import Row
from .server import Place


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a workload."""

    events: int
    seconds: float
    count: Count


@dataclass(frozen=True, slots=True)
class Workload:
    """Something that does the common job, and how it is set up, in words."""

    system: str
    name: str
    how: str
    run: Callable[[Place, str, int], Ran]  # the place, an empty database's address, deliveries
    share: float = 1.0  # of the deliveries: slow ones get fewer, so that a go takes minutes


Say = Callable[[str], None]
BARE_HOW = "asyncpg, one connection, a transaction per 1000 deliveries"


def yardstick(place: Place, n: int) -> Ran:
    """The bare loop, once."""
    seconds, counted = loop.run(lambda: _bare(place, n))
    return Ran(n, seconds, counted)


async def _bare(place: Place, n: int) -> tuple[float, Count]:
    return await bare.run(await place.fresh(), events(n))


class Tally:
    """The runs of one workload."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.rates: list[float] = []
        self.ratios: list[float] = []
        self.events = self.lost = self.double = 0

    def add(self, ran: Ran, bare_rate: float) -> None:
        self.events = ran.events
        self.rates.append(ran.events / ran.seconds)
        self.ratios.append(self.rates[-1] / bare_rate)
        self.lost += ran.count.lost
        self.double += ran.count.double

    def row(self) -> Row:
        # Short enough to read, exact enough to compare: three digits of a ratio.
        w, ratios = self.workload, self.ratios
        return Row(
            system=w.system,
            workload=w.name,
            events_per_s=round(median(self.rates), 1),
            ratio=round(median(ratios), 4),
            lost=self.lost,
            double=self.double,
            events=self.events,
            repetitions=len(ratios),
            lowest_ratio=round(min(ratios), 4),
            highest_ratio=round(max(ratios), 4),
            how=w.how,
        )


def run(place: Place, workloads: Iterable[Workload], n: int, reps: int, say: Say) -> list[Row]:
    """Each workload `reps` times, round after round, each between two bare loops."""
    tallies = [Tally(w) for w in workloads]
    bare_tally = Tally(Workload("bare", "job", BARE_HOW, lambda *_: yardstick(place, n)))
    if not tallies:
        return []
    before = yardstick(place, n)
    for _ in range(reps):
        for tally in tallies:
            w = tally.workload
            url = loop.run(place.fresh)
            ran = w.run(place, url, max(1, round(n * w.share)))
            after = yardstick(place, n)
            bare_rate = (before.events / before.seconds + after.events / after.seconds) / 2
            tally.add(ran, bare_rate)
            bare_tally.add(after, after.events / after.seconds)  # its share of itself is one
            say(_line(tally, ran, bare_rate))
            before = after
    return [t.row() for t in [bare_tally, *tallies]]


def _line(tally: Tally, ran: Ran, bare_rate: float) -> str:
    w = tally.workload
    bad = f"  LOST {ran.count.lost} DOUBLE {ran.count.double}" if ran.count != Count(0, 0) else ""
    return (
        f"{w.system:>13} {w.name:12} {tally.rates[-1]:9.0f}/s"
        f"  of bare {bare_rate:7.0f}/s: {tally.ratios[-1]:6.3f}{bad}"
    )
