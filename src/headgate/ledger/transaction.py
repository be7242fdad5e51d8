"""The handler's view of the finalize transaction: statements, and nothing that could end it.

Only the extended protocol is used, so one call is one statement. A statement that fails dooms its
entry even if the handler swallows the exception: Postgres has thrown away the work by then.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from headgate.errors import EffectRefused
from headgate.pg import Connection, driver
from headgate.pg.driver import Statement

from .deferred import Deferred, portions

_FORBIDDEN = frozenset(
    [
        "begin",
        "start",
        "commit",
        "end",
        "rollback",
        "abort",
        "savepoint",
        "release",
        "set",
        "reset",
        "listen",
        "unlisten",
        "notify",
        "discard",
        "copy",
        "vacuum",
        "cluster",
        "reindex",
        "prepare",
        "execute",
        "deallocate",
        "declare",
        "fetch",
        "close",
        "load",
        "lock",
        "checkpoint",
    ]
)
# A comment inside a comment is skipped by hand: Postgres nests them. A semicolon alone is nothing.
_BLANK = re.compile(r"[\s;]+|--[^\r\n]*")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_WORD = re.compile(r"\(|[a-z]+", re.IGNORECASE)
_SESSION = re.compile(r"\bset_config\b|\bpg_(?:try_)?advisory_(?:un)?lock", re.IGNORECASE)


@lru_cache(512)
def check(sql: str) -> str:
    """Refuse what would reach beyond this entry's effects."""
    first = _WORD.match(sql, _begin(sql))
    word = first.group().lower() if first else ""
    if not word or word in _FORBIDDEN:
        raise EffectRefused(
            f"tx: {word.upper() or repr(sql[:40])} is not allowed in apply",
            hint="Headgate opens and ends the transaction; write plain statements",
        )
    if _SESSION.search(sql):
        raise EffectRefused("tx: session settings and session locks are not allowed in apply")
    return sql


def _begin(sql: str) -> int:
    """Where the statement begins, after blanks and comments as Postgres sees them."""
    at = depth = 0
    while True:
        if depth == 0 and (blank := _BLANK.match(sql, at)) is not None:
            at = blank.end()
        elif depth == 0 and not sql.startswith("/*", at):
            return at
        elif (edge := _COMMENT_EDGE.search(sql, at)) is None:
            return len(sql)
        else:
            depth += 1 if edge.group() == "/*" else -1
            at = edge.end()


Statements = dict[str, Statement]
REMEMBERED = 100
# What a handler raises by itself may look alike: a refused connection to somewhere else, say.
DRIVERS = (driver.PostgresError, driver.InterfaceError, driver.InternalClientError)
# The same, or what is wrong with the arguments.
REFUSED = (*DRIVERS, ValueError, TypeError)
OVER = EffectRefused("tx: the handler's time in apply is over")


class Tx:
    """`hg.Transaction`: the connection of the finalize transaction, for one entry."""

    failed: BaseException | None = None
    sent = False
    _turn: asyncio.Lock | None = None
    _running: frozenset[asyncio.Task[Any]] = frozenset()

    def __init__(self, connection: Connection, statements: Statements | None = None) -> None:
        self._connection = connection
        self._statements = statements
        self.deferred: list[Deferred] = []

    async def execute(self, sql: str, *args: Any) -> str:
        """Run one statement; its status, as in `INSERT 0 1`."""
        return await self._run(self._execute, sql, args)

    async def executemany(self, sql: str, args: list[tuple[Any, ...]]) -> None:
        """Run one statement for each of many arguments."""
        await self._run(self._many, sql, args)

    async def fetch(self, sql: str, *args: Any) -> list[Mapping[str, Any]]:
        """All rows of a query."""
        return await self._run(self._fetch, sql, args)

    async def fetchrow(self, sql: str, *args: Any) -> Mapping[str, Any] | None:
        """The first row of a query, or None."""
        return await self._run(self._fetchrow, sql, args)

    async def fetchval(self, sql: str, *args: Any) -> Any:
        """The first value of the first row, or None."""
        row = await self._run(self._fetchrow, sql, args)
        return None if row is None else row[0]

    def later(self, sql: str, *args: Any) -> None:
        """A statement that needs no answer: many of them travel together, in their order."""
        if self.failed is not None:
            raise self.failed
        try:
            self.deferred.append((check(sql), args))
        except EffectRefused as error:
            self.failed = self.failed or error
            raise

    def end(self) -> frozenset[asyncio.Task[Any]]:
        """Nothing of this handler reaches the connection any more, whatever still runs of it.

        A plain handler that ran out of time goes on in its thread, perhaps in a statement: that
        one is cancelled, and has to be waited for.
        """
        self.failed = self.failed or OVER
        for task in self._running:
            task.cancel()
        return self._running

    async def _execute(self, sql: str, args: Sequence[Any]) -> str:
        if self._statements is None and args:
            return await self._connection.execute(check(sql), *args)
        statement = await self._statement(sql)
        await statement.fetch(*args)
        return statement.get_statusmsg()

    async def _many(self, sql: str, args: Sequence[Any]) -> None:
        check(sql)
        for some in portions(args):
            await self._connection.executemany(sql, some)

    async def _fetch(self, sql: str, args: Sequence[Any]) -> list[Any]:
        if self._statements is None:
            return await self._connection.fetch(check(sql), *args)
        return await (await self._statement(sql)).fetch(*args)

    async def _fetchrow(self, sql: str, args: Sequence[Any]) -> Any:
        if self._statements is None:
            return await self._connection.fetchrow(check(sql), *args)
        return await (await self._statement(sql)).fetchrow(*args)

    async def _statement(self, sql: str) -> Statement:
        # Prepared, since the simple protocol takes several statements at once, COMMIT among them.
        # Most handlers say the same few things for every entry: those are remembered.
        known = self._statements
        if known is None:
            return await self._connection.prepare(check(sql))
        if (statement := known.get(sql)) is None:
            if len(known) >= REMEMBERED:
                known.clear()
            statement = known[sql] = await self._connection.prepare(check(sql))
        return statement

    async def _run(
        self, send: Callable[[str, Sequence[Any]], Awaitable[Any]], sql: str, args: Sequence[Any]
    ) -> Any:
        if self.failed is not None:
            raise self.failed
        task = asyncio.current_task()
        assert task is not None
        self.sent = True
        self._running |= {task}
        try:
            if self._turn is None:
                self._turn = asyncio.Lock()
            async with self._turn:  # a handler may ask for several things at once
                if self.failed is not None:
                    raise self.failed
                return await send(sql, args)
        except BaseException as error:
            self.failed = self.failed or error
            raise
        finally:
            self._running -= {task}


class BlockingTx:
    """The same for a plain function, which runs in a thread beside the event loop."""

    def __init__(self, tx: Tx, loop: asyncio.AbstractEventLoop) -> None:
        self._tx = tx
        self._loop = loop

    def execute(self, sql: str, *args: Any) -> str:
        return self._wait(self._tx.execute(sql, *args))

    def executemany(self, sql: str, args: list[tuple[Any, ...]]) -> None:
        self._wait(self._tx.executemany(sql, args))

    def fetch(self, sql: str, *args: Any) -> list[Mapping[str, Any]]:
        return self._wait(self._tx.fetch(sql, *args))

    def fetchrow(self, sql: str, *args: Any) -> Mapping[str, Any] | None:
        return self._wait(self._tx.fetchrow(sql, *args))

    def fetchval(self, sql: str, *args: Any) -> Any:
        return self._wait(self._tx.fetchval(sql, *args))

    def later(self, sql: str, *args: Any) -> None:
        self._tx.later(sql, *args)

    def _wait(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
