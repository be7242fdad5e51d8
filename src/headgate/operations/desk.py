"""One desk per process: callers that come at the same time are served together.

While one batch is on its way to Postgres, whoever comes next waits and shares the next one: many
keys are looked at in one statement, and many operations are recorded by one commit, with the SQL
that each deferred (`op.tx.later`). A lone caller never waits for company.

Each still stands for itself. If a batch fails, nothing of it was applied, and each member is tried
alone: only the culprit hears of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from headgate import errors
from headgate.ledger import operation as ledger
from headgate.ledger.deferred import Deferred, send
from headgate.ledger.operation import Answer, Asking, Ending, Lease
from headgate.model.crash import reached
from headgate.model.operation import Manner, Moment
from headgate.pg import Database, driver

from .holder import holder
from .lent import lent
from .train import Train

TAKES = 200
# Not all in one: while some wait for the disk, others are taken, work, and come to their end.
ENDS = 32
TRIES = 5
# What a batch is refused for by one of its members.
_REFUSED = (driver.PostgresError, driver.InterfaceError, ValueError, TypeError)


class Leaving(NamedTuple):
    """An operation that succeeded, on its way into the ledger, with the SQL it deferred."""

    lease: Lease
    ending: Ending
    lock_key: int
    manner: Manner
    deferred: Sequence[Deferred]


class Desk:
    """Takes and records operations of this process, together where it can."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.takes: Train[Asking, Answer] = Train(TAKES, self._take_all, self._unheard)
        self.ends: Train[Leaving, None] = Train(ENDS, self._end_all, lambda _, __: None)
        self._giving: set[asyncio.Future[None]] = set()

    async def take(self, asking: Asking) -> Answer:
        """Look at a key, and take it if it is free."""
        if not asking.alone:
            return await self.takes.board(asking)
        # Two locks in one transaction could be another caller's two in the other order.
        alone = asyncio.ensure_future(ledger.take(self._db, holder(), asking))
        try:
            return await asyncio.shield(alone)
        except asyncio.CancelledError:
            alone.add_done_callback(lambda _: self._unheard(asking, _answer_of(alone)))
            raise

    def _unheard(self, asking: Asking, answer: Answer | BaseException) -> None:
        """The caller was cancelled. What it was given all the same, nobody should wait for."""
        if isinstance(answer, Lease):
            giving = ledger.give_back(self._db, asking.key, asking.token, asking.lock_key)
            self._giving.add(task := asyncio.ensure_future(giving))
            task.add_done_callback(self._giving.discard)

    async def end(self, leaving: Leaving) -> None:
        """Record a success with its deferred SQL, durably. Raises `Fenced`."""
        if leaving.manner.alone:
            await self._end_one(leaving)
        else:
            await self.ends.board(leaving)

    async def _take_all(
        self, asking: Sequence[Asking], _: Callable[[], None]
    ) -> Sequence[Answer | BaseException]:
        if len(asking) == 1:
            return [await ledger.take(self._db, holder(), asking[0])]
        order = sorted(range(len(asking)), key=lambda n: asking[n].key)
        found = await ledger.take_many(self._db, holder(), [asking[n] for n in order])
        by_place = dict(zip(order, found, strict=True))
        return [by_place[n] for n in range(len(asking))]

    async def _end_all(
        self, leaving: Sequence[Leaving], depart: Callable[[], None]
    ) -> Sequence[BaseException | None]:
        if len(leaving) > 1:
            try:
                await self._end_together(leaving, depart)
            except errors.LedgerUnavailable as error:
                return [error] * len(leaving)
            except (errors.Fenced, *_REFUSED):
                pass  # nothing was applied; who it was shows when each goes alone
            else:
                return [None] * len(leaving)
        return [await _outcome(self._end_one(one)) for one in leaving]

    async def _end_together(self, leaving: Sequence[Leaving], depart: Callable[[], None]) -> None:
        """One commit for all."""
        idle = min(one.manner.lease_seconds for one in leaving)
        async with lent(self._db, idle) as link:
            await send(link, _in_turn([one.deferred for one in leaving]))
            await ledger.end_many(link, [(one.lease, one.ending) for one in leaving])
            reached(Moment.RECORDED)
            depart()  # while the disk is written, the next batch can be loaded

    async def _end_one(self, leaving: Leaving) -> None:
        if not leaving.deferred:
            await self._end_alone(leaving)
            return
        seconds = leaving.manner.lock_timeout_seconds
        enter = f"SELECT headgate.operation_enter({leaving.lock_key}, {round(seconds * 1000)})"
        idle = leaving.manner.lease_seconds
        try:
            async with lent(self._db, idle, (enter,)) as link:
                await send(link, leaving.deferred)
                await ledger.end_within(link, leaving.lease, leaving.ending)
                reached(Moment.RECORDED)
        except driver.LockNotAvailable as error:
            raise lock_timeout(seconds) from error

    async def _end_alone(self, leaving: Leaving) -> None:
        """One statement, which may be sent again: its token makes the second one harmless."""
        seconds = leaving.manner.lock_timeout_seconds
        for tried in range(TRIES):
            try:
                await ledger.end(self._db, leaving.lease, leaving.ending, leaving.lock_key, seconds)
            except errors.LedgerUnavailable as error:
                if tried == TRIES - 1:
                    raise errors.LedgerUnavailable(
                        f"{error}: whether this operation was recorded is not known",
                        upstream="postgres",
                        reason="commit_unknown",
                        hint="Call it again: if it was, its result is there.",
                    ) from error
                await asyncio.sleep(0.1 * 2**tried)
            except driver.LockNotAvailable as error:
                raise lock_timeout(seconds) from error
            else:
                reached(Moment.RECORDED)
                return


def lock_timeout(seconds: float) -> errors.InProgress:
    """The commit's lock was not free in time."""
    return errors.InProgress(f"the lock was not free within {seconds:g} s", reason="lock_timeout")


def _in_turn(each: Sequence[Sequence[Deferred]]) -> list[Deferred]:
    """All first statements, then all second ones: same texts together, each one's order kept."""
    longest = max(map(len, each), default=0)
    return [one[n] for n in range(longest) for one in each if n < len(one)]


async def _outcome(work: Awaitable[Any]) -> BaseException | None:
    try:
        await work
    except Exception as error:
        return error
    return None


def _answer_of(task: asyncio.Task[Answer]) -> Answer | BaseException:
    if task.cancelled():
        return asyncio.CancelledError()
    return task.exception() or task.result()
