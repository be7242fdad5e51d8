"""A lively world: after the acts the stations go on sending, and misbehave now and then.

Files arrive, are told of twice or thrice, are sent anew with other numbers, get a new date and the
same bytes, or are no readings at all and are mended later. Now and then a worker is killed. It goes
on until somebody has seen enough; then the sum is compared once more.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from headgate.model.whole import whole

from .headgate import Headgate
from .world import BROKEN_TEXT, LIVELY, World

# None of those that the acts count.
STATIONS = ("accra-9", "cork-11", "davao-12", "hobart-10")
# So many files, then they are only sent anew: the world does not grow for ever.
FILES = 400
BROKEN = 12
PAUSE_SECONDS = (0.05, 1.2)
KILL_EVERY_SECONDS = 45.0


@dataclass(slots=True)
class Lively:
    """Stations that send, and what they have sent so far."""

    world: World
    gate: Headgate
    chance: random.Random = field(default_factory=random.Random)
    notices: int = 0
    kills: int = 0
    _broken: list[str] = field(default_factory=list[str])

    async def run(self) -> None:
        """Send for ever."""
        loop = asyncio.get_running_loop()
        kill_at = loop.time() + KILL_EVERY_SECONDS
        while True:
            # A file that is sent and never told of would not be in the last sum.
            await whole(self._something())
            if loop.time() > kill_at:
                kill_at = loop.time() + KILL_EVERY_SECONDS
                await self._kill()
            await asyncio.sleep(self.chance.uniform(*PAUSE_SECONDS))

    async def _something(self) -> None:
        there = sorted(p.name for p in self.world.incoming.glob(f"{LIVELY}*.csv"))
        what = self.chance.random()
        if what < 0.60 and len(there) < FILES:
            await self._send(f"{LIVELY}{len(there):04}.csv")
        elif what < 0.72 and there:
            await self._send(self.chance.choice(there))
        elif what < 0.80 and there:
            file = self.chance.choice(there)
            os.utime(self.world.incoming / file)
            await self._tell(file)
        elif what < 0.84:
            await self._break_or_mend(there)
        elif there:
            # A sender that is not sure says it all again.
            await self._tell(*self.chance.choices(there, k=self.chance.randint(1, 8)))

    async def _send(self, file: str) -> None:
        if file in self._broken:
            self._broken.remove(file)
        self.world.put(file, self._readings(file))
        await self._tell(*[file] * self.chance.choice((1, 1, 1, 2, 3)))

    async def _break_or_mend(self, there: list[str]) -> None:
        if len(self._broken) >= BROKEN or (self._broken and self.chance.random() < 0.5):
            await self._send(self._broken[0])
        else:
            new = f"{LIVELY}{len(there):04}.csv"
            file = new if len(there) < FILES else self.chance.choice(there)
            self._broken.append(file)
            self.world.put(file, BROKEN_TEXT)
            await self._tell(file)

    async def _tell(self, *files: str) -> None:
        self.notices += len(files)
        await self.gate.tell(files)

    async def _kill(self) -> None:
        if (victim := await self.gate.some_worker()) is not None:
            os.kill(victim, signal.SIGKILL)
            self.kills += 1

    def _readings(self, file: str) -> str:
        """A file of its own station and hours: no two files ever say something of the same hour."""
        number = int(file.removeprefix(LIVELY).removesuffix(".csv"))
        station = STATIONS[number % len(STATIONS)]
        first = datetime(2026, 6, 1, tzinfo=UTC) + timedelta(days=number // len(STATIONS))
        lines = ["station,at,mm"]
        for k in range(self.chance.randint(1, 6)):
            mm = Decimal(self.chance.randrange(0, 2400)) / 100
            lines.append(f"{station},{first + timedelta(hours=4 * k):%Y-%m-%dT%H:%M:%SZ},{mm:.2f}")
        return "\n".join(lines) + "\n"
