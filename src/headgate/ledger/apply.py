"""Free SQL: handlers that run statements of their own in the finalize transaction (C4.2).

They share one transaction, in chunks behind savepoints. A handler that fails costs its chunk a
rerun, not the batch; the others lose nothing but time. Measured, a savepoint for each entry is
half as fast, and rolling the whole batch back collapses at one percent of poison.

Handlers that are awaited and only write run a chunk at a time, side by side (`together.py`).

As long as nothing was sent, nothing has to be taken back: a handler that fails before its first
statement costs nobody anything, and handlers that only defer share one flush, however many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from headgate.errors import DeadlineExceeded, EffectRefused, LedgerUnavailable
from headgate.model import doing
from headgate.model.object import Object
from headgate.model.step import ApplyStep, Step
from headgate.pg import Link, driver
from headgate.pg.link import is_away

from .attempt import Attempt
from .deferred import Deferred, Deferring, send
from .run import RunNow, in_thread, mishap
from .together import Habit, InDoubt, Line, ManyRefused, SharedTx
from .transaction import DRIVERS, REFUSED, BlockingTx, Statements, Tx

CHUNK = 32
# Who has to run again since somebody of many failed, runs with so many times fewer at once.
FEWER = 4
# How a chunk gets its savepoint: the first one travels with BEGIN, the last one is left to COMMIT.
BEGIN_CHUNK = "SAVEPOINT headgate_chunk"
_NEXT = f"RELEASE headgate_chunk; {BEGIN_CHUNK}"
# The clock is set anew when so much of the time is gone, not for every entry.
_SLACK = 0.1
# The whole transaction is run again, and nobody is charged.
_NOBODYS_FAULT = (driver.Deadlock, driver.SerializationFailed)

Failed = list[tuple[Attempt, BaseException]]
Ended = tuple[Attempt, Tx, BaseException | None]
Write = Callable[[Link, Sequence[Attempt]], Awaitable[None]]


async def apply(
    link: Link,
    steps: Sequence[ApplyStep],
    attempts: Sequence[Attempt],
    write_rows: Write | None,
    limit_seconds: float,
    *,
    habit: Habit,
    deferring: Deferring,
    pooler: bool = False,
) -> Failed:
    """Run every handler for every entry, rows first; the entries that failed, undone, with why.

    `BEGIN_CHUNK` is the last that was said on this connection.

    With the right `habit` they need not take turns, since nobody could tell.
    """
    link.lent = True
    chunks = _Chunks(link, steps, write_rows, limit_seconds, habit, deferring, pooler)
    await chunks.run(list(attempts))
    return chunks.failed


class _Chunks:
    """One batch's way through its `apply` handlers."""

    def __init__(
        self,
        link: Link,
        steps: Sequence[ApplyStep],
        write_rows: Write | None,
        limit_seconds: float,
        habit: Habit,
        deferring: Deferring,
        pooler: bool,
    ) -> None:
        self.failed: Failed = []
        self._loop = asyncio.get_running_loop()  # to ask for it takes longer than what it tells
        self._link = link
        self._steps = steps
        self._write_rows = write_rows
        self._limit_seconds = limit_seconds
        self._behind: str | None = None  # it stands
        # Behind a pooler the next transaction may meet another server that knows none of them.
        self._statements: Statements | None = None if pooler else {}
        self._habit = None if pooler or not all(map(_is_async, steps)) else habit
        self._deferring = None if pooler else deferring
        self._sure: set[str] = set()  # statements whose tables are locked, and were asked for
        self._in_order = False  # what is deferred is sent as it was said

    async def run(self, attempts: list[Attempt]) -> None:
        while attempts:
            attempts = attempts[await self._chunk(attempts) :]

    async def _chunk(self, attempts: list[Attempt]) -> int:
        """Run the first of these, behind a savepoint; how many that was."""
        if self._behind is not None:
            await self._link.execute(self._behind)
        self._behind = _NEXT
        habit = self._habit if len(attempts) > 1 else None
        together = habit is not None and habit.may_share and habit.asks
        if together or self._write_rows is not None:
            attempts = attempts[:CHUNK]
        if self._write_rows is not None:
            await self._write_rows(self._link, attempts)
        if habit is None or not together:
            ended = await self._in_turn(attempts)
            await self._keep(ended)
            return len(ended)
        try:
            await self._keep(await self._side_by_side(attempts, habit))
        except InDoubt as doubt:
            if isinstance(doubt.__cause__, _NOBODYS_FAULT):
                raise doubt.__cause__ from None
            _wait_out(self._link, doubt.__cause__ or doubt)
            fewer = len(attempts) // FEWER if habit.may_share else len(attempts)
            failed = len(self.failed)
            await self._again(*_parts(attempts, max(1, fewer)))
            if len(self.failed) > failed:
                pass
            elif isinstance(doubt, ManyRefused) and self._deferring is not None:
                self._deferring.refused(doubt.__cause__ or doubt)
            else:  # nobody's fault but ours: alone, each of them can
                habit.may_share = False
        return len(attempts)

    async def _keep(self, ended: list[Ended]) -> None:
        """Send what was deferred; or run those again that did well, if others have to be undone."""
        done: list[Attempt] = []
        deferred: list[Deferred] = []
        undo = False
        if self._habit is not None:
            self._habit.asks = any(tx.sent for _, tx, _ in ended)
        for attempt, tx, wrong in ended:
            # Who failed behind one that has to be undone may have failed since that had been there.
            if wrong is None or undo:
                done.append(attempt)
                deferred += tx.deferred
            else:
                self.failed.append((attempt, wrong))
                undo = tx.sent or self._write_rows is not None
        if undo:
            await self._again(done)
        else:
            await self._flush(done, deferred)

    async def _side_by_side(self, attempts: list[Attempt], habit: Habit) -> list[Ended]:
        """Run these at the same time."""
        assert self._statements is not None
        assert self._deferring is not None
        line = Line(self._link, self._statements, habit, self._deferring, self._sure)
        txs = [SharedTx(line, n, self._statements, a.run) for n, a in enumerate(attempts)]
        unlimited = asyncio.timeout(None)  # the line looks at the time, for all of them

        async def entry(tx: SharedTx, attempt: Attempt) -> BaseException | None:
            tx.task = asyncio.current_task()
            doing.enter(doing.Doing())
            return await self._entry(tx, attempt, unlimited)

        wrong = await line.serve(list(map(entry, txs, attempts)), self._limit_seconds)
        return list(zip(attempts, txs, wrong, strict=True))

    async def _in_turn(self, attempts: list[Attempt]) -> list[Ended]:
        """Run these one after the other, until there is something to undo, or enough to keep."""
        ended: list[Ended] = []
        sent = self._write_rows is not None
        async with asyncio.timeout(None) as limit:
            for attempt in attempts:
                self._wind_up(limit)
                tx = Tx(self._link.raw, self._statements)
                wrong = await self._entry(tx, attempt, limit)
                ended.append((attempt, tx, wrong))
                sent = sent or tx.sent
                undo = wrong is not None and (tx.sent or self._write_rows is not None)
                if undo or (sent and len(ended) >= CHUNK) or limit.expired():
                    break
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise asyncio.CancelledError  # by somebody else, while our own limit ended
        return ended

    def _wind_up(self, limit: asyncio.Timeout) -> None:
        """Give the next entry its time, and a little more: setting a clock is not free."""
        now, ends = self._loop.time(), limit.when()
        if ends is None or ends - now < self._limit_seconds:
            limit.reschedule(now + self._limit_seconds * (1 + _SLACK))

    async def _flush(self, done: list[Attempt], deferred: Sequence[Deferred]) -> None:
        """Send what was deferred. Whose it was that failed is found by running fewer at once."""
        limit = asyncio.timeout(self._limit_seconds)
        deferring = None if self._in_order or len(deferred) <= CHUNK else self._deferring
        as_said = deferring is None
        try:
            async with limit:
                if deferring is None:
                    await send(self._link, deferred)
                else:
                    parcel = await deferring.pack(self._link, deferred)
                    as_said = parcel.as_said
                    await parcel.send(self._link)
        except _NOBODYS_FAULT:
            raise
        except (*REFUSED, TimeoutError) as raised:
            late = limit.expired()
            error = self._late() if late else raised
            _wait_out(self._link, error)
            if len(done) == 1 and (as_said or late):
                self.failed.append((done[0], error))
                await self._again([])
                return
            failed, in_order = len(self.failed), self._in_order
            self._in_order = in_order or not as_said
            await self._again(*_parts(done, CHUNK if len(done) > CHUNK else 1))
            self._in_order = in_order
            if deferring is not None and not (as_said or late or len(self.failed) > failed):
                deferring.refused(error)

    async def _again(self, *parts: list[Attempt]) -> None:
        """Undo this chunk, and run these entries of it again."""
        await self._link.execute("ROLLBACK TO headgate_chunk")
        self._sure.clear()  # the locks went, too
        self._behind = None  # there it stands again, as new
        for part in parts:
            await self.run(part)

    async def _entry(
        self, tx: Tx, attempt: Attempt, limit: asyncio.Timeout
    ) -> BaseException | None:
        """Run one entry's handlers; what was wrong with them."""
        try:
            try:
                for step, obj in _due(self._steps, attempt):
                    await _call(step, tx, obj, attempt.run)
                    if tx.failed is not None:
                        raise tx.failed
            finally:
                if running := tx.end():
                    await asyncio.wait(running)
        except _NOBODYS_FAULT:
            raise
        except BaseException as raised:
            if limit.expired():  # the handler may also raise a TimeoutError of its own
                _wait_out(self._link, tx.failed or raised)
                return self._late()
            error = mishap(raised)
            _wait_out(self._link, tx.failed or error)
            return error
        # It may have swallowed its own cancellation; it was late all the same.
        return self._late() if limit.expired() else None

    def _late(self) -> DeadlineExceeded:
        return DeadlineExceeded(f"apply ran longer than {self._limit_seconds:g} s")


def _is_async(step: ApplyStep) -> bool:
    return step.step.is_async and (step.undo is None or step.undo.is_async)


def _parts(attempts: list[Attempt], size: int) -> Iterator[list[Attempt]]:
    return (attempts[at : at + size] for at in range(0, len(attempts), size))


def _wait_out(link: Link, error: BaseException) -> None:
    """Raise `LedgerUnavailable` when it was Postgres that failed: no entry is charged for that."""
    if link.closed or (isinstance(error, DRIVERS) and is_away(error)):
        raise LedgerUnavailable(
            f"Postgres went away while apply ran: {error}", upstream="postgres"
        ) from error


def _due(steps: Sequence[ApplyStep], attempt: Attempt) -> Iterator[tuple[Step, Object]]:
    """What to call for an attempt: take the version before back, the last first, then apply."""
    if attempt.retired:
        return
    if attempt.previous is not None:
        for step in reversed(steps):
            if step.undo is not None:
                yield step.undo, attempt.previous
    for step in steps:
        if attempt.object is not None:
            yield step.step, attempt.object
        elif step.undo is None:
            raise EffectRefused(
                f"{attempt.claim.uri} was removed; what {step.step.name} did cannot be taken back",
                hint="Undo it by hand, then: headgate quarantine discard ENTRY --because ...",
            )


async def _call(step: Step, tx: Tx, obj: Object, run: RunNow) -> None:
    run.enter_apply()
    try:
        if step.is_async:
            args: tuple[Any, ...] = (tx, obj, run)
            await step.function(*args[: step.takes])
        else:
            blocking = BlockingTx(tx, asyncio.get_running_loop())
            args = (blocking, obj, run)
            await in_thread(step.function, *args[: step.takes])
    finally:
        run.leave_apply()
