"""The common job: N deliveries, one in five of them told before, of eight types.

Only the standard library is used here: this file is also read by the environment of the peers.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

BATCH = 1000
DUPLICATES = 0.2
TYPES = 8
SEED = 7
ETAG = "d41d8cd98f00b204e9800998ecf8427e"
POISONED_OF = 100  # one id in so many
WARM_UP = 200  # deliveries before the clock runs: whoever works, and whoever tells, has begun

# `count` makes a second application visible. Who keeps effects in a table of its own declares it.
EFFECTS = """
    CREATE TABLE effects (
        key text PRIMARY KEY,
        count int NOT NULL,
        etype text,
        t_enq float8,
        t_done timestamptz NOT NULL DEFAULT clock_timestamp())
"""


@dataclass(frozen=True, slots=True)
class Event:
    """One delivery. A duplicate equals the first one."""

    id: str
    type: str
    payload: dict[str, Any]

    def body(self, sent: float = 0.0) -> dict[str, Any]:
        """The event as a message; `sent` is when its producer let go of it."""
        return {"id": self.id, "type": self.type, "payload": self.payload, "t": sent}

    @property
    def is_poison(self) -> bool:
        return is_poison(self.id)


def is_poison(event_id: str) -> bool:
    """Does the handler of the poisoned workload refuse this event, for good?"""
    return int(event_id[-7:]) % POISONED_OF == POISONED_OF // 2


def events(n: int, tag: str = "a", folder: str = "scene") -> list[Event]:
    """The deliveries, in order; the same ones every time."""
    dice = random.Random(SEED)
    told: list[Event] = []
    first: list[Event] = []
    for i in range(n):
        if i > 10 and dice.random() < DUPLICATES:
            told.append(first[dice.randrange(len(first))])
            continue
        payload = {"bucket": "b", "key": f"{folder}/{i}.tif", "size": i, "etag": ETAG}
        first.append(Event(f"{tag}-{i:07d}", f"t{i % TYPES}", payload))
        told.append(first[-1])
    return told


def warm_up() -> list[Event]:
    """What everybody is told before the job, the bare loop too: other events, of other objects."""
    return events(WARM_UP, "w", "warm")


def ids(deliveries: Iterable[Event]) -> set[str]:
    return {event.id for event in deliveries}


def batches(deliveries: Sequence[Event], size: int = BATCH) -> list[Sequence[Event]]:
    return [deliveries[i : i + size] for i in range(0, len(deliveries), size)]


def payload_text(event: Event) -> str:
    return json.dumps(event.payload)


@dataclass(frozen=True, slots=True)
class Count:
    """What became of the job. A run is valid only if both are zero."""

    lost: int
    double: int


def count(expected: set[str], found: Iterable[tuple[str, int]]) -> Count:
    """Compare the effects with what was to be done; an effect nobody asked for counts as double."""
    applied = dict(found)
    lost = len(expected - applied.keys())
    again = sum(1 for times in applied.values() if times > 1)
    return Count(lost, again + len(applied.keys() - expected))
