"""Handlers of independent entries at the same time, on one connection, as long as they only write.

What several of them ask for in the same words travels as one: a round trip for all of them instead
of one for each. Each gets an answer of its own, and an entry's statements stay in their order.

They share a session and a transaction, where no lock keeps one from another. So who reads, locks
or asks for what a session remembers does not run like this: it would see what a neighbour is at.
That is found out at the first such statement, and from then on the pipeline's entries take turns.

Whose fault an error is cannot be told either, so nobody is blamed here: `InDoubt` says to run fewer
at once, and who runs alone answers for itself.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from headgate.pg import Connection

from .run import RunNow, mishap
from .transaction import OVER, REFUSED, Statements, Tx, check, portions

Wrong = BaseException | None
Send = Callable[[str, Sequence[Any]], Awaitable[Any]]

_CHANGES = re.compile(r"\s*(insert|update|delete)\b", re.IGNORECASE)
_SAID = {"insert": "INSERT 0", "update": "UPDATE", "delete": "DELETE"}
# It answers by itself, would end what we put around it, or asks for what its session remembers.
_OF_ITS_OWN = re.compile(r"\breturning\b|;|\b(?:curr|last)val\b|_advisory_", re.IGNORECASE)


class InDoubt(Exception):
    """Something went wrong, or nobody ended for too long, while several were at it."""


class Habit:
    """What is known of a pipeline's handlers."""

    def __init__(self) -> None:
        self.only_writes = True  # as far as we have seen


class _Asked(NamedTuple):
    """A statement that a handler waits for."""

    send: Send
    args: Sequence[Any]
    answer: asyncio.Future[Any]


class SharedTx(Tx):
    """`hg.Transaction` for one of several entries that are at it at the same time."""

    def __init__(self, line: Line, statements: Statements, run: RunNow) -> None:
        super().__init__(line.connection, statements)
        self._line = line
        self._of = run
        self.task: asyncio.Task[Any] | None = None  # the handler's own

    async def _execute(self, sql: str, args: Sequence[Any]) -> str:
        if counting(check(sql)) is None:
            return await self._line.leave()
        asking = self._line.ask(super()._execute, sql, args)
        if asyncio.current_task() is not self.task:  # the handler itself may be at work meanwhile
            return await asking
        self._of.rest()  # who only waits for Postgres does not kill the process
        try:
            return await asking
        finally:
            self._of.resume()

    async def _many(self, sql: str, args: Sequence[Any]) -> None:
        await self._line.leave()

    async def _fetch(self, sql: str, args: Sequence[Any]) -> list[Any]:
        return await self._line.leave()

    async def _fetchrow(self, sql: str, args: Sequence[Any]) -> Any:
        return await self._line.leave()


class Line:
    """Where handlers queue for a connection."""

    def __init__(self, connection: Connection, statements: Statements, habit: Habit) -> None:
        self.connection = connection
        self._statements = statements
        self._habit = habit
        self._waiting: dict[str, list[_Asked]] = {}
        self._stirred = asyncio.Event()
        self._left = 0
        self._in_doubt = False
        self._over = False

    async def ask(self, send: Send, sql: str, args: Sequence[Any]) -> str:
        """The status of a statement, when its turn has come."""
        if self._over:  # nobody would answer who asks while it is being stopped
            raise OVER
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(sql, []).append(_Asked(send, args, answer))
        self._stirred.set()
        try:
            return await answer
        except asyncio.CancelledError:
            # Its own patience ended, perhaps only since a neighbour's statement took so long.
            self._in_doubt = True
            self._stirred.set()
            raise

    async def leave(self) -> Any:
        """This is no line for whoever does more than write: all of them are stopped."""
        if self._over:
            raise OVER
        self._habit.only_writes = False
        self._stirred.set()
        await asyncio.get_running_loop().create_future()

    async def serve(
        self, handlers: Sequence[Coroutine[Any, Any, Wrong]], limit_seconds: float
    ) -> list[Wrong]:
        """Run them all; what was wrong with each. None of them runs any more when it ends.

        Raises `InDoubt`, and errors of Postgres that are no entry's fault as they are.
        """
        loop = asyncio.get_running_loop()
        tasks = [asyncio.create_task(handler) for handler in handlers]
        left = self._left = len(tasks)
        for task in tasks:
            task.add_done_callback(self._ended)
        limit = asyncio.timeout(limit_seconds)
        try:
            async with limit:
                while self._left:
                    await self._stirred.wait()
                    self._stirred.clear()
                    if self._in_doubt or not self._habit.only_writes:
                        raise InDoubt
                    if self._left < left:  # each has its time, as if it were alone
                        left = self._left
                        limit.reschedule(loop.time() + limit_seconds)
                    await self._answer()
        except TimeoutError as error:
            raise InDoubt from error
        finally:
            self._over = True
            await _leave(tasks)
        # A handler may even cancel the task it runs in.
        stopped = mishap(asyncio.CancelledError())
        return [stopped if task.cancelled() else task.result() for task in tasks]

    def _ended(self, _: asyncio.Task[Any]) -> None:
        self._left -= 1
        self._stirred.set()

    async def _answer(self) -> None:
        """Send all that is asked for, and hand out the answers."""
        waiting, self._waiting = self._waiting, {}
        try:
            for sql, asked in waiting.items():
                if len(asked) > 1:
                    said = await self._together(sql, [args for _, args, _ in asked])
                else:
                    ((send, args, _),) = asked
                    said = [await send(sql, args)]
                for (_, _, answer), status in zip(asked, said, strict=True):
                    if not answer.done():  # who asked may have been cancelled meanwhile
                        answer.set_result(status)
        except REFUSED as error:
            raise InDoubt from error

    async def _together(self, sql: str, args: list[Sequence[Any]]) -> list[str]:
        counted = counting(sql)
        assert counted is not None, "others are not in line"
        text, status = counted
        statement = self._statements.get(text)
        if statement is None:
            statement = self._statements[text] = await self.connection.prepare(text)
        counts = [n for some in portions(args) for (n,) in await statement.fetchmany(some)]
        return [f"{status} {n}" for n in counts]


@lru_cache(512)
def counting(sql: str) -> tuple[str, str] | None:
    """The statement as one that says how many rows it changed, and how its status begins.

    None where that cannot be had by putting words around it.
    """
    word = _CHANGES.match(sql)
    if word is None or _OF_ITS_OWN.search(sql):
        return None
    text = f"WITH headgate_did AS ({sql}\nRETURNING 1) SELECT count(*) FROM headgate_did"
    return text, _SAID[word[1].lower()]


async def _leave(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Nothing of these runs any more, and nobody is told of errors that do not matter now."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)
    for task in tasks:
        if not task.cancelled():
            task.exception()
