"""The post of the demo: who is told what and when, and when everybody is killed.

The plan is the same for all consumers and in every run. A file lands when it is told of for the
first time; it is told of again later, out of order.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

SECONDS_PER_FILE = 0.035
# The post waits for whoever is further behind than this.
BEHIND_AT_MOST = 24
TOLD_AGAIN = 1.5
# Kills come while files within these shares of all are new. The reserve, as many again, is only
# used when a naive script came through the first ones unharmed.
_MAIN, _RESERVE = (0.04, 0.76), (0.80, 0.97)


@dataclass(frozen=True, slots=True)
class Kill:
    """One `kill -9`: so far into the work on a delivery; of the whole tree, or of its workers."""

    share: float
    whole: bool


@dataclass(slots=True)
class Plan:
    """Deliveries in their order, with the share of the time that has passed at each."""

    deliveries: list[str]
    moments: list[float]
    kills: dict[int, Kill]
    reserve: dict[int, Kill]
    turn: int

    @classmethod
    def make(cls, files: list[str], kills: int) -> Plan:
        """`kills` at even distances, each at a delivery that brings a new file."""
        chance = random.Random(7)
        first = chance.sample(files, len(files))
        told = [(n / len(first), file) for n, file in enumerate(first)]
        for _ in range(int(len(first) * TOLD_AGAIN)):
            at, file = chance.choice(told[: len(first)])
            told.append((chance.uniform(at, 1.0), file))
        told.sort()
        position: dict[str, int] = {}
        for n, (_, file) in enumerate(told):
            position.setdefault(file, n)

        def spread(many: int, within: tuple[float, float]) -> dict[int, Kill]:
            low, high = (share * len(first) for share in within)
            places = [int(low + (high - low) * n / max(1, many - 1)) for n in range(many)]
            return {
                position[first[place]]: Kill(chance.uniform(0.1, 1.0), n % 4 == 3)
                for n, place in enumerate(places)
            }

        main, reserve = spread(kills, _MAIN), spread(kills, _RESERVE)
        turn = position[first[int(_MAIN[1] * len(first)) + 1]]
        return cls([f for _, f in told], [at for at, _ in told], main, reserve, turn)


@dataclass(slots=True)
class Post:
    """Releases one delivery after the other. Consumers may fall behind; nothing is lost."""

    plan: Plan
    land: Callable[[str], None]
    released: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(
        self, behind: Callable[[], int], at_the_turn: Callable[[], Awaitable[bool]]
    ) -> None:
        """Deliver everything. `at_the_turn` says whether the reserve of kills is needed."""
        loop, plan = asyncio.get_running_loop(), self.plan
        seconds = SECONDS_PER_FILE * len(set(plan.deliveries))
        began = loop.time()
        for n, file in enumerate(plan.deliveries):
            asked = loop.time()
            if n == plan.turn and await at_the_turn():
                plan.kills |= plan.reserve
            while behind() > BEHIND_AT_MOST:  # noqa: ASYNC110 (three runners, each at its pace)
                await asyncio.sleep(0.01)
            began += loop.time() - asked
            await asyncio.sleep(max(0.0, began + plan.moments[n] * seconds - loop.time()))
            self.land(file)
            self.released = n + 1
            self._news.set()
            self._news = asyncio.Event()

    async def wait_for(self, n: int) -> None:
        """Until delivery `n` is there."""
        while self.released <= n:
            await self._news.wait()
