"""Handlers of several entries at the same time, on one connection, as long as they only write.

What several of them ask for in the same words travels as one: a round trip for all of them instead
of one for each, and one insert of many rows where it can be (`deferred.py`). Each gets an answer of
its own, and an entry's statements stay in their order.

Entries that are not independent write in their own order too: Postgres gets what it would get if
they had taken turns. So an entry's statement goes with those of its neighbours, but not before
one of them that comes first; and who asks for more, when a later one's statement is gone, has
asked too late.

They share a session and a transaction, where no lock keeps one from another. So who reads, locks
or asks for what a session remembers does not run like this: it would see what a neighbour is at.
That, and who asks too late, is found out at the first such statement. All of it is undone, and from
then on the pipeline's entries take turns.

Whose fault an error is cannot be told either, so nobody is blamed here: `InDoubt` says to run fewer
at once, and who runs alone answers for itself.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import lru_cache, partial
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from headgate.pg import Link

from .deferred import Deferring, portions
from .run import RunNow, mishap
from .transaction import OVER, REFUSED, Statements, Tx, check

_SQL, _PLACE = attrgetter("sql"), attrgetter("place")
Wrong = BaseException | None
Send = Callable[[str, Sequence[Any]], Awaitable[Any]]

_CHANGES = re.compile(r"\s*(insert|update|delete)\b", re.IGNORECASE)
_SAID = {"insert": "INSERT 0", "update": "UPDATE", "delete": "DELETE"}
# It answers by itself, would end what we put around it, or asks for what its session remembers.
_OF_ITS_OWN = re.compile(r"\breturning\b|;|\b(?:curr|last)val\b|_advisory_", re.IGNORECASE)


class InDoubt(Exception):
    """Something went wrong, or nobody ended for too long, while several were at it."""


class ManyRefused(InDoubt):
    """What was refused was one statement for many."""


class Habit:
    """What is known of a pipeline's handlers. `in_order`: its entries are not independent."""

    def __init__(self, *, in_order: bool) -> None:
        self.in_order = in_order
        self.may_share = True  # as far as we have seen
        self.asks = True  # or did the last ones only defer? Then there is nothing to share


class _Asked(NamedTuple):
    """A statement that the handler of the `place`-th entry waits for."""

    place: int
    sql: str
    send: Send
    args: Sequence[Any]
    answer: asyncio.Future[Any]


class SharedTx(Tx):
    """`hg.Transaction` for one of several entries that are at it at the same time."""

    def __init__(self, line: Line, place: int, statements: Statements, run: RunNow) -> None:
        super().__init__(line.connection, statements)
        self._line = line
        self._place = place
        self._of = run
        self.task: asyncio.Task[Any] | None = None  # the handler's own

    async def _execute(self, sql: str, args: Sequence[Any]) -> str:
        if counting(check(sql)) is None:
            return await self._line.leave()
        asking = self._line.ask(self._place, super()._execute, sql, args)
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

    def __init__(
        self, link: Link, statements: Statements, habit: Habit, deferring: Deferring, sure: set[str]
    ) -> None:
        self.connection = link.raw
        self._link = link
        self._statements = statements
        self._habit = habit
        self._deferring = deferring
        self._sure = sure
        self._waiting: list[_Asked] = []
        self._silent: dict[int, None] = {}  # who neither asked nor ended, the first first
        self._last = -1  # the last of them whose statement was sent
        self._stirred = asyncio.Event()
        self._left = self._size = 0
        self._in_doubt = False
        self._over = False

    async def ask(self, place: int, send: Send, sql: str, args: Sequence[Any]) -> str:
        """The status of a statement, when its turn has come."""
        if self._over:  # nobody would answer who asks while it is being stopped
            raise OVER
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Asked(place, sql, send, args, answer))
        self._silent.pop(place, None)
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
        self._habit.may_share = False
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
        left = self._left = self._size = len(tasks)
        self._silent = dict.fromkeys(range(left))
        for place, task in enumerate(tasks):
            task.add_done_callback(partial(self._ended, place))
        limit = asyncio.timeout(limit_seconds)
        try:
            async with limit:
                while self._left:
                    await self._stirred.wait()
                    self._stirred.clear()
                    if self._in_doubt or not self._habit.may_share:
                        raise InDoubt
                    if self._left < left:  # each has its time, as if it were alone
                        left = self._left
                        limit.reschedule(loop.time() + limit_seconds)
                    await self._answer()
                if self._in_doubt:
                    raise InDoubt
        except TimeoutError as error:
            raise InDoubt from error
        finally:
            self._over = True
            await _leave(tasks)
        # A handler may even cancel the task it runs in.
        stopped = mishap(asyncio.CancelledError())
        return [stopped if task.cancelled() else task.result() for task in tasks]

    def _ended(self, place: int, _: asyncio.Task[Any]) -> None:
        self._left -= 1
        self._silent.pop(place, None)
        self._stirred.set()

    async def _answer(self) -> None:
        """Send all that is asked for and may go now, and hand out the answers."""
        try:
            for sql, same in groupby(self._due(), key=_SQL):
                asked = list(same)
                if len(asked) > 1:
                    said = await self._together(sql, [one.args for one in asked])
                else:
                    said = [await asked[0].send(sql, asked[0].args)]
                for one, status in zip(asked, said, strict=True):
                    if not one.answer.done():  # who asked may have been cancelled meanwhile
                        one.answer.set_result(status)
        except REFUSED as error:
            raise InDoubt from error

    def _due(self) -> list[_Asked]:
        """What may be sent, in the order in which it is sent. The rest is asked for still."""
        asked, self._waiting = self._waiting, []
        if not self._habit.in_order:
            return sorted(asked, key=_SQL)
        asked.sort(key=_PLACE)
        first = next(iter(self._silent), self._size)
        due = [one for one in asked if one.place < first]
        self._waiting = asked[len(due) :]
        if due:
            if due[0].place < self._last:
                self._habit.may_share = False
                raise InDoubt
            self._last = due[-1].place
        return due

    async def _together(self, sql: str, args: list[Sequence[Any]]) -> list[str]:
        try:
            if await self._deferring.at_once(self._link, sql, args, self._sure):
                return ["INSERT 0 1"] * len(args)
        except REFUSED as error:
            raise ManyRefused from error
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
