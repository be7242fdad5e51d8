"""Work: a worker claims, runs handlers and commits, until it is told to stop.

The worker's lease is kept by its supervisor, or by itself when it runs alone. A worker that was
buried by mistake registers anew; what it held before is fenced, and changes nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from headgate.errors import Fenced, LedgerUnavailable
from headgate.ledger import budget, gate, nearby
from headgate.ledger import worker as workers
from headgate.model.signal import OUTAGE, emit
from headgate.pg import Database
from headgate.pg.bell import Bell
from headgate.pipeline import Path

from .lane import Lane, slots
from .marker import Marker
from .meter import meter_of
from .replays import Replays
from .tuning import Tuning

ALONE_CHECK_SECONDS = 1.0
SHORTEST_PAUSE_SECONDS = 0.002


class _Nearby:
    """A lane whose worker takes lone changes that are admitted in its own process."""

    def __init__(self, of: Worker, lane: Lane) -> None:
        self._of = of
        self._lane = lane
        self.reserved = False
        self.doubt = of.doubt
        self.take = lane.take

    def reserve(self) -> int | None:
        if self.reserved or not (self._of.is_idle and self._lane.drained):
            return None
        self.reserved = True
        return self._of.id

    def free(self) -> None:
        self.reserved = False


class Worker:
    """One process's worker, with a lane for each pipeline."""

    def __init__(
        self,
        db: Database,
        paths: Sequence[Path],
        tuning: Tuning,
        *,
        name: str,
        marker: Marker | None = None,
        registered: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._db = db
        self._tuning = tuning
        self._name = name
        self._registered = registered
        self._wake = asyncio.Event()
        self._bell = Bell(db, self._ring)
        self._stop = asyncio.Event()
        self.id = 0
        marker = marker or Marker.alone(len(paths) * slots(tuning))
        meter = meter_of(tuning)
        self._lanes = [
            Lane(path, db, tuning, marker, n * slots(tuning), self._wake.set, meter)
            for n, path in enumerate(paths)
        ]
        most, wake = tuning.batch_max, self._wake.set
        self._replays = [Replays(db, lane, most, wake) for lane in self._lanes]
        self._nearby = [(lane.path.at.pipeline, _Nearby(self, lane)) for lane in self._lanes]
        self._alone_at = 0.0
        self._budgets_at = 0.0
        self._clearing = False
        self._doubts = False  # it may hold what it does not know of
        self._asking = False  # it may be about to learn that it holds something

    def stop(self) -> None:
        """Claim nothing more; finish or give back what is held."""
        self._stop.set()
        self._wake.set()

    @property
    def holds(self) -> int:
        """Entries between their claim and the end of their attempt."""
        return sum(lane.in_flight for lane in self._lanes)

    @property
    def is_idle(self) -> bool:
        """Does it hold a lease, as far as it knows, and nothing else?"""
        busy = self.holds or self._asking or self._doubts or self._clearing
        return bool(self.id) and not (busy or self._stop.is_set())

    def doubt(self) -> None:
        """A claim was made for it, perhaps, and the answer was lost."""
        self._doubts = True
        self._wake.set()

    @property
    def pinned(self) -> list[bytes]:
        """What its pipelines depend on: which replays it may go on with."""
        return [replays.pins for replays in self._replays]

    async def run(self) -> bool:
        """Work until stopped; False when handlers did not finish in time."""
        await self._patiently(self._register)
        listening = asyncio.create_task(self._bell.listen())
        for pipeline, idle in self._nearby:
            nearby.offer(self._db, pipeline, idle)
        try:
            await self._work()
        finally:
            for pipeline, idle in self._nearby:
                nearby.withdraw(self._db, pipeline, idle)
            listening.cancel()
        clean = all(
            await asyncio.gather(*(lane.drain(self._tuning.drain_seconds) for lane in self._lanes))
        )
        for replays in self._replays:
            replays.close()
        for lane in self._lanes:
            lane.close()
        # Also what did not finish in time: this process ends now, and nobody may be left to do it.
        await workers.bury(self._db, self.id, "stopped", running=(), innocent=True)
        return clean

    async def _work(self) -> None:
        pause = SHORTEST_PAUSE_SECONDS
        while not self._stop.is_set():
            self._wake.clear()  # before we look: what is admitted while we do wakes us again
            if self._doubts:
                # A claim that is still on its way to its commit cannot be found.
                await self._sleep(random.uniform(0.05, 0.5))
                # Whoever doubts while we look is not heard too early: then we look once more.
                self._doubts, self._asking = False, True
                try:
                    await self._patiently(self._give_back_unknown)
                finally:
                    self._asking = False
            try:
                claimed = await self._claim()
                for replays in self._replays:
                    await replays.feed()
            except Fenced:
                await self._patiently(self._register)
                continue
            except LedgerUnavailable:
                emit(OUTAGE)
                self._wake.clear()
                await self._sleep(random.uniform(0.05, 0.5))
                await self._patiently(self._give_back_unknown)
                continue
            longest = self._tuning.poll_seconds
            if self._bell.hears and all(lane.drained for lane in self._lanes):
                pause = longest  # whatever comes next, the bell will tell
            elif claimed:
                pause = SHORTEST_PAUSE_SECONDS
            else:
                # Asking again at once would find the same nothing; wait longer each time.
                pause = min(pause * 1.5, longest)
            await self._sleep(pause)

    def _ring(self, said: str) -> None:
        if not said or any(said == str(lane.path.at.pipeline) for lane in self._lanes):
            self._wake.set()

    async def _claim(self) -> int:
        """One round over the lanes. What must run alone gets the whole worker for itself."""
        await self._look_for_loners()
        await self._look_at_budgets()
        claimed = 0
        for lane in self._lanes:
            lane.check()
            if (self._clearing and self.holds) or any(other.has_loner for other in self._lanes):
                break
            if lane.room():
                # What runs alone shares the worker with nobody, nor with what is being handed over.
                handed = any(idle.reserved for _, idle in self._nearby)
                self._asking = True
                try:
                    claimed += await lane.claim(self.id, idle=self.holds == 0 and not handed)
                finally:
                    self._asking = False
        if self._clearing and claimed:
            self._clearing = False
        return claimed

    async def _look_for_loners(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._clearing or now < self._alone_at or not self.holds:
            return
        self._alone_at = now + ALONE_CHECK_SECONDS
        for lane in self._lanes:
            if await gate.alone_is_due(self._db, lane.path.at.pipeline):
                self._clearing = True

    async def _look_at_budgets(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._budgets_at:
            return
        self._budgets_at = now + self._tuning.sweep_seconds
        spent = await budget.spent(self._db)
        for lane in self._lanes:
            lane.path.slowed = lane.path.at.pipeline in spent

    async def _register(self) -> None:
        self.id = await workers.register(self._db, self._name, self._tuning.lease_seconds)
        self._registered(self.id)

    async def _give_back_unknown(self) -> None:
        # A claim whose answer was lost may have been made. Nobody would run those entries for as
        # long as our lease is renewed.
        known = {entry for lane in self._lanes for entry in lane.holding}
        await workers.give_back(self._db, self.id, known)

    async def _patiently(self, do: Callable[[], object]) -> None:
        pause = 0.05
        while not self._stop.is_set():
            try:
                result = do()
                if asyncio.iscoroutine(result):
                    await result
                return
            except LedgerUnavailable:
                emit(OUTAGE)
                self._wake.clear()
                await self._sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, 5.0)

    async def _sleep(self, seconds: float) -> None:
        if self._stop.is_set():
            return
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass
