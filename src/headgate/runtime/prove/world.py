"""Worlds: what may happen to a pipeline, one thing at a time.

In the reference world each sample is delivered once and nothing goes wrong. Every other world
changes one thing, and must end in the same state. A world is a value; `play` plays it.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from headgate.model.entry import Point

from .acting import CALLED
from .failing import Failing

Kind = Literal[
    "reference", "crash", "fails", "released", "told", "raced", "order", "alone",
    "clock", "random", "hash", "listing",
]  # fmt: skip
Pace = Literal["before", "amid", "each"]
KINDS: tuple[Kind, ...] = (
    "crash", "fails", "released", "told", "raced", "order", "alone",
    "clock", "random", "hash", "listing",
)  # fmt: skip

# A Wednesday in June, away from midnight, the end of a month and any change of clocks.
NOON = 1_781_697_600.0
HOUR, DAY = 3600.0, 86_400.0
MOST_HITS = 3
# A set of two has the same order under every other seed: eight leave one such set in 200 unseen.
SEEDS = (1, 2, 3, 4, 5, 6, 7, 8)
TIMES_TOLD = 3


@dataclass(frozen=True, slots=True)
class Weather:
    """What a handler may feel of the machine it runs on."""

    clock: float = NOON
    seed: int = 1
    hash_seed: int = 0
    listing: Literal["sorted", "reversed"] = "sorted"


CALM = Weather()


@dataclass(frozen=True, slots=True)
class World:
    """One way for things to go.

    `crashes` are the points at which one process after the other is killed; the last one lives.
    `deliver` are batches of samples, by number. With `alone` each batch has its own process.
    """

    kind: Kind
    name: str
    deliver: tuple[tuple[int, ...], ...]
    pace: Pace = "before"
    crashes: tuple[str, ...] = ()
    failing: Failing = ""
    weather: Weather = CALM
    processes: int = 1
    alone: bool = False

    @property
    def changed(self) -> str:
        """What is different here, to be read after "when": `killed at handled`."""
        match self.kind:
            case "reference":
                return "each sample is delivered once and nothing goes wrong"
            case "crash":
                return "killed " + ", then ".join(_at(point) for point in self.crashes)
            case "fails":
                return "each handler fails once and is retried"
            case "released":
                return "set aside and released"
            case "told":
                return f"told {TIMES_TOLD} times, shuffled"
            case "raced":
                return "two receivers and two workers race"
            case "order":
                return "the samples come in the opposite order"
            case "alone":
                return "each sample has a process of its own"
            case "clock":
                return "the clock shows another day and hour"
            case "random":
                return "chance falls otherwise"
            case "hash":
                return "sets have another order"
            case "listing":
                return "folders are listed the other way round"


def _at(crash: str) -> str:
    point, _, hit = crash.partition("#")
    point = "after a call, before its record" if point == CALLED else f"at {point}"
    return point if hit in ("", "1") else f"{point} (time {hit})"


def reference(samples: int) -> World:
    return World("reference", "reference", tuple((n,) for n in range(samples)))


def fails(samples: int) -> World:
    """Each handler fails once, after all of it has run."""
    return replace(reference(samples), kind="fails", name="fails", failing="once")


def released(samples: int) -> World:
    """Each sample is set aside once, and an operator releases it."""
    return replace(reference(samples), kind="released", name="released", failing="aside")


def crash(world: World, *crashes: str) -> World:
    """The same, with a process killed at each of these."""
    return replace(world, kind="crash", name=f"crash:{','.join(crashes)}", crashes=crashes)


def crashes(world: World, points: Mapping[str, int], wanted: Collection[str]) -> Iterator[World]:
    """A world for each time that each point is reached, up to the third."""
    for point in wanted:
        most = min(points.get(point, 0), len(world.deliver), MOST_HITS)
        yield from (crash(world, f"{point}#{n}") for n in range(1, most + 1))


def calm(samples: int, seed: int) -> list[World]:
    """Everything that needs no knowledge of the points: deliveries, order, weather."""
    plain = reference(samples)
    one_by_one = replace(plain, pace="each")
    backwards = tuple(reversed(plain.deliver))
    return [
        replace(plain, kind="told", name="told", pace="amid", deliver=_shuffled(samples, seed)),
        replace(
            plain, kind="raced", name="raced", pace="amid", processes=2,
            deliver=_shuffled(samples, seed + 1),
        ),
        replace(one_by_one, kind="order", name="order", deliver=backwards),
        replace(one_by_one, kind="alone", name="alone", alone=True),
        _weather(plain, "clock", "clock:1", Weather(clock=NOON + DAY + 7.2 * HOUR + 671)),
        _weather(plain, "clock", "clock:2", Weather(clock=NOON + 193 * DAY - 11.4 * HOUR)),
        _weather(plain, "random", "random:1", Weather(seed=2)),
        _weather(plain, "random", "random:2", Weather(seed=77)),
        _weather(plain, "listing", "listing", Weather(listing="reversed")),
        *(_weather(plain, "hash", f"hash:{s}", Weather(hash_seed=s)) for s in SEEDS),
    ]  # fmt: skip


def _weather(plain: World, kind: Kind, name: str, weather: Weather) -> World:
    return replace(plain, kind=kind, name=name, weather=weather)


def _shuffled(samples: int, seed: int) -> tuple[tuple[int, ...], ...]:
    """Every sample several times, in batches of up to two: a batch may say a thing twice itself."""
    told = [n for n in range(samples) for _ in range(TIMES_TOLD)]
    random.Random(seed).shuffle(told)
    return tuple(tuple(told[n : n + 2]) for n in range(0, len(told), 2))


def housekeeping(samples: int, first: str, points: Mapping[str, int]) -> list[World]:
    """A process that tidies up after one that was killed at `first` is killed too."""
    tidying = (
        Point.BEFORE_BURY, Point.AFTER_BURY, Point.BEFORE_CONDEMN, Point.AFTER_CONDEMN,
        Point.COLLECTED,
    )  # fmt: skip
    plain = reference(samples)
    return [crash(plain, first, f"{p}#1") for p in tidying if points.get(p)]


def choose(worlds: Sequence[World], only: Collection[str]) -> list[World]:
    """Those that were asked for, by kind or by name; all of them if nothing was."""
    if not only:
        return list(worlds)
    return [w for w in worlds if w.kind in only or w.name in only or w.name.split("#")[0] in only]


def is_world(name: str) -> bool:
    """Could a world be called so? Whether a pipeline comes by a point shows when it runs."""
    kind, _, rest = name.partition(":")
    if kind == "crash" and rest:
        return rest.partition("#")[0] in {*Point, CALLED}
    return name in KINDS or name in {w.name for w in calm(1, 1)}
