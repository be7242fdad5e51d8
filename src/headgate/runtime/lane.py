"""A lane: one pipeline inside one worker. Claimed entries go in, settled ones are forgotten.

It holds as much as it can finish in about half a second, so that a slow handler does not keep work
from other workers and a fast one does not wait for the next claim. Quick handlers run on the loop's
own thread, while Postgres settles the batch before theirs and claims the one after.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

from headgate.errors import LedgerUnavailable
from headgate.ledger import gate, pace
from headgate.ledger.apply import CHUNK
from headgate.ledger.attempt import Attempt
from headgate.ledger.run import AtWork, NeedsThread
from headgate.model import doing
from headgate.model.signal import OUTAGE, STAGE_SECONDS, emit
from headgate.model.verdict import Quarantine, Release, Retry
from headgate.pg import Database
from headgate.pipeline import Path
from headgate.telemetry.log import get_logger

from . import batch_spans
from .crew import Crew
from .marker import Marker
from .meter import Meter
from .pile import Pile
from .tuning import Tuning

HELD_SECONDS = 0.5
# Handing an entry to a thread and back costs as much as a handler this quick.
QUICK_SECONDS = 0.0002
QUICK_SLICE = 100
# Where handlers wait for Postgres inside a commit, only so much is handled at a time as fits into
# such a wait.
ONE_BY_ONE_SLICE = 2
# The first entry of a slice finds everything cold: it may take as long as so many more of them.
COLD = 4
# Threads that fight for the interpreter look slower than they are, so a few entries are tried on
# the loop's own thread now and then, unless that could hold it up.
TRY_SECONDS = 0.01
TRY_SLICE = 8
TRY_EVERY_SECONDS = 2.0
RESCAN_SECONDS = 2.0
# While Postgres ends one batch of rows, it begins the next. What free SQL does in the order of its
# entries has one committer; what is independent has several, as long as each has something to do.
COMMITTERS = 2
INDEPENDENT_COMMITTERS = 4
LOGGED_PER_BATCH = 5
FIRST_PAUSE_SECONDS = 0.05

# Where a thread has no account of its own, the whole process answers: it sees a wait too many.
_WHOM = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)

log = get_logger("headgate.work")


def _waits() -> int:
    """How often this thread gave up its processor by itself."""
    return resource.getrusage(_WHOM).ru_nvcsw


def slots(tuning: Tuning) -> int:
    """Places in a marker that one lane needs: threads or tasks, the loop itself, committers."""
    return tuning.concurrency + 1 + INDEPENDENT_COMMITTERS * CHUNK


class _InCommit(AtWork):
    """Handlers that run in a committer may kill the process as well as any other."""

    def __init__(self, marker: Marker, first_slot: int) -> None:
        self._marker = marker
        self._free = list(range(first_slot, first_slot + CHUNK))
        self._at: dict[int, int] = {}

    def begin(self, entry: int) -> None:
        slot = self._at[entry] = self._free.pop()
        self._marker.begin(slot, entry)

    def end(self, entry: int) -> None:
        if (slot := self._at.pop(entry, None)) is not None:
            self._marker.end(slot)
            self._free.append(slot)


class Lane:
    """One pipeline's claims, handlers and commits in this process."""

    def __init__(
        self,
        path: Path,
        db: Database,
        tuning: Tuning,
        marker: Marker,
        first_slot: int,
        settled: Callable[[], None],
        meter: Meter | None = None,
    ) -> None:
        self.path = path
        self.holding: set[int] = set()
        self.drained = False  # the last claim took all there was
        self._loner = 0
        self._db = db
        self._tuning = tuning
        self._settled = settled
        self._meter = meter
        self._doing = doing.Doing()
        self._floor = 0
        self._rescan_at = 0.0
        self._is_async = path.declared.is_async
        self._may_be_quick = True
        self._try_at = 0.0
        self._was_slow = False  # the last slice that was handled here
        self._marker = marker
        self._first_slot = first_slot
        self._slots = asyncio.Semaphore(tuning.concurrency)
        self._free_slots = list(range(first_slot, first_slot + tuning.concurrency))
        self._here = first_slot + tuning.concurrency
        self._tasks: set[asyncio.Task[None]] = set()
        self._near: deque[gate.Claim] = deque()  # for the loop's own thread
        self._here_task: asyncio.Task[None] | None = None
        self._awaited: dict[int, asyncio.Future[bool]] = {}  # by entry: who waits for its end
        self._closing = False
        applies = bool(path.declared.applies)
        shares = applies and path.declared.independent
        self._at_once = 1 if applies else COMMITTERS  # batches that may be settled
        committers = INDEPENDENT_COMMITTERS if shares else self._at_once
        self._pile = Pile(tuning.batch_max, committers if shares else None)
        self.crew = Crew(
            0 if self._is_async else tuning.concurrency,
            marker,
            first_slot,
            path.prepare,
            self._pile.put,
            self._pile.look,
        )
        self.crew.metered = meter is not None
        self._committers = [
            asyncio.create_task(self._commit(_InCommit(marker, self._here + 1 + n * CHUNK)))
            for n in range(committers)
        ]

    @property
    def has_loner(self) -> bool:
        """Does it hold an entry that must run alone? Then the worker takes nothing else."""
        return self._loner in self.holding

    @property
    def in_flight(self) -> int:
        """Entries between their claim and the end of their attempt."""
        return len(self.holding)

    def room(self) -> int:
        """How many more entries it makes sense to hold."""
        pace = self.crew.seconds_per_entry
        # One batch is claimed, one handled, the others are settled.
        most = (2 + self._at_once) * self._tuning.batch_max
        width = self._tuning.concurrency
        wanted = most if 0 < pace < 1e-4 else int(HELD_SECONDS * width / pace) if pace else width
        return max(0, min(most, max(width, wanted)) - self.in_flight)

    async def claim(self, worker: int, *, idle: bool) -> int:
        """Take what is ready, up to the room there is; how many entries that was."""
        most = min(self.room(), self._tuning.batch_max)
        # Refilling in small sips would make every claim a round trip for a handful of entries.
        if most < self._tuning.batch_max and most < self.in_flight:
            return 0
        now = asyncio.get_running_loop().time()
        if now >= self._rescan_at:
            self._floor, self._rescan_at = 0, now + RESCAN_SECONDS
        if self._meter is not None and idle:
            self._meter.begin()
        claims = await gate.claim(
            self._db, self.path.at.pipeline, worker, most, floor=self._floor, idle=idle
        )
        if self.path.declared.coalesce_seconds is not None:
            await pace.started(self._db, claims)
        fresh = [c.id for c in claims if not c.waited]
        self.drained = len(claims) < most
        self._floor = fresh[-1] + 1 if not self.drained and fresh else 0
        self._loner = next((c.id for c in claims if c.alone), self._loner)
        self._begin(claims, now)
        return len(claims)

    def take(self, claim: gate.Claim) -> asyncio.Future[bool]:
        """Work on what was claimed for us where it was admitted.

        True when the end of its attempt is committed; False when it was lost.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[bool] = loop.create_future()
        if self._closing:  # its worker is about to give back all it holds
            ended.set_result(False)
            return ended
        self._awaited[claim.id] = ended
        if self._meter is not None:
            self._meter.begin()
        self._begin([claim], loop.time())
        return ended

    def _begin(self, claims: list[gate.Claim], now: float) -> None:
        self.holding.update(c.id for c in claims)
        if self._is_async:
            for claim in claims:
                task = asyncio.create_task(self._handle(self.path.begin(claim)))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        elif self._is_quick(now):
            self._near += claims
            if self._here_task is None or self._here_task.done():
                self.check()
                self._here_task = asyncio.create_task(self._handle_here())
        else:
            self._submit(claims)

    def _submit(self, claims: Iterable[gate.Claim]) -> None:
        self.crew.submit([self.path.begin(c) for c in claims])

    def _is_quick(self, now: float) -> bool:
        pace = self.crew.seconds_per_entry
        return self._may_be_quick and 0 < pace < TRY_SECONDS and now >= self._try_at

    async def _handle_here(self) -> None:
        """Run quick handlers on the loop's own thread, a slice at a time, while more is claimed."""
        size = TRY_SLICE if self.crew.seconds_per_entry > QUICK_SECONDS else QUICK_SLICE
        doing.enter(self._doing)
        while self._near:
            if self._pile.is_full:
                # Later, while Postgres settles what is ready: then there is nothing else to do.
                await self._pile.emptier()
                continue
            part = [self._near.popleft() for _ in range(min(size, len(self._near)))]
            began, busy, waits = time.perf_counter(), time.thread_time(), _waits()
            done = [a for c in part if (a := self._handle_one(c)) is not None]
            self._doing.run = None
            self._marker.end(self._here)
            pace = (time.perf_counter() - began) / len(part)
            busy = (time.thread_time() - busy) / len(part)
            self._pile.add(done)
            self.crew.learn(pace, weight=0.5)
            size = ONE_BY_ONE_SLICE if self.path.settler.asks else QUICK_SLICE
            # A handler that waits is better off in a thread. One that was only made to wait, for a
            # processor that others use, is not.
            waiting = pace > 3 * busy + QUICK_SECONDS and _waits() - waits > len(part) / 10
            slow = busy * len(part) > QUICK_SECONDS * (len(part) + COLD)
            was_slow, self._was_slow = self._was_slow, slow or waiting
            if self._was_slow and not was_slow:
                # Once may be the garbage collector, or a cold start: a few more, and we know.
                size = min(size, TRY_SLICE)
            elif self._was_slow:
                self._try_at = asyncio.get_running_loop().time() + TRY_EVERY_SECONDS
                self._submit(self._near)
                self._near.clear()
            await asyncio.sleep(0)

    def _handle_one(self, claim: gate.Claim) -> Attempt | None:
        """Begin and prepare at once, while it is all at hand; None when a thread has to do it."""
        attempt = self.path.begin(claim)
        self._marker.begin(self._here, claim.id)
        self._doing.run = attempt.run
        try:
            self.path.prepare(attempt)
        except NeedsThread:
            self._may_be_quick = False
            attempt.discard()
            self._submit([claim])
            return None
        except Exception as error:
            attempt.give_up(error)
        return attempt

    def check(self) -> None:
        """Raise what broke one of its tasks: who cannot commit must not go on claiming."""
        for task in (*self._committers, self._here_task):
            if task is not None and task.done():
                task.result()

    async def drain(self, seconds: float) -> bool:
        """Give back what was not begun, let the rest finish; False when time ran out first."""
        back = [*self.crew.unstarted(), *map(self.path.begin, self._near)]
        self._near.clear()
        for attempt in back:
            attempt.verdict = Release("draining")
        self._pile.add(back)
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self.in_flight and loop.time() < until:
            self.check()
            await asyncio.sleep(0.01)
        return self.in_flight == 0

    def close(self) -> None:
        self._closing = True
        for ended in self._awaited.values():
            if not ended.done():
                ended.set_result(False)
        self.crew.close()
        for task in (*self._committers, *self._tasks, self._here_task):
            if task is not None:
                task.cancel()

    async def _handle(self, attempt: Attempt) -> None:
        async with self._slots:
            slot = self._free_slots.pop()
            self._marker.begin(slot, attempt.claim.id)
            doing.enter(doing.Doing(attempt.run))
            loop = asyncio.get_running_loop()
            began = loop.time()
            deadline = self.path.declared.deadline_seconds or self._tuning.deadline_seconds
            try:
                await self.path.prepare_async(attempt, deadline)
            except (Exception, asyncio.CancelledError) as error:
                if self._closing:
                    raise
                attempt.give_up(error)  # a handler may even cancel the task it runs in
            finally:
                self.crew.learn(loop.time() - began)
                self._marker.end(slot)
                self._free_slots.append(slot)
        self._pile.add([attempt])

    async def _commit(self, at_work: _InCommit) -> None:
        """Settle what is on the pile, batch after batch."""
        doing.enter(doing.Doing())
        while True:
            batch = await self._pile.take()
            if self.path.declared.applies:
                for attempt in batch:
                    attempt.run.at_work = at_work
            await self._settle(batch)
            self._pile.settled()
            self.holding.difference_update(a.claim.id for a in batch)
            if self._awaited:
                self._tell(batch)
            self._settled()

    def _tell(self, batch: Iterable[Attempt]) -> None:
        for attempt in batch:
            ended = self._awaited.pop(attempt.claim.id, None)
            if ended is not None and not ended.done():
                ended.set_result(not attempt.lost)

    async def _settle(self, batch: list[Attempt]) -> None:
        pause = FIRST_PAUSE_SECONDS
        loop = asyncio.get_running_loop()
        began = loop.time()
        if self._meter is not None:
            self._meter.share(self.path.declared.name, batch)
        settling = batch_spans.begin(self.path.declared.name, batch)
        while True:
            try:
                await self.path.settle(batch)
                break
            except LedgerUnavailable as error:
                # What the handlers did is still here; the fence decides whether it still counts.
                emit(OUTAGE)
                if pause == FIRST_PAUSE_SECONDS:
                    log.warning("the ledger is away, waiting for it", why=str(error))
                await asyncio.sleep(pause)
                pause = min(pause * 2, 5.0)
        self.path.finish(batch)
        emit(STAGE_SECONDS, self.crew.seconds_per_entry, stage="handle")
        emit(STAGE_SECONDS, loop.time() - began, stage="settle")
        if settling is not None:
            settling.end()
        self._log(batch)

    def _log(self, attempts: Sequence[Attempt]) -> None:
        """Say what went wrong, a few lines per batch at most: the ledger has all of it."""
        wrong = [s for s in attempts if isinstance(s.verdict, (Retry, Quarantine)) and not s.lost]
        for s in wrong[:LOGGED_PER_BATCH]:
            assert isinstance(s.verdict, (Retry, Quarantine))
            log.warning(
                "quarantined" if isinstance(s.verdict, Quarantine) else "will be retried",
                **s.run.said(),
                attempt=s.claim.attempts,
                reason=s.verdict.reason,
                error=s.verdict.error,
            )
        if len(wrong) > LOGGED_PER_BATCH:
            more = len(wrong) - LOGGED_PER_BATCH
            log.warning("and more like these", pipeline=self.path.declared.name, entries=more)
        said = [s.checks.said for s in wrong if s.checks is not None]
        failed = Counter(f"{c.name}: {c.reason}" for checks in said for c in checks if not c.passed)
        if failed:
            log.warning(
                "checks failed",
                pipeline=self.path.declared.name,
                entries=sum(any(not c.passed for c in checks) for checks in said),
                checks=[f"{what} ({n})" for what, n in failed.most_common(LOGGED_PER_BATCH)],
            )
