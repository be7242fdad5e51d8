"""The handler's view of the finalize transaction: statements, and nothing that could end it.

Only the extended protocol is used, so one call is one statement. A statement that fails dooms its
entry even if the handler swallows the exception: Postgres has thrown away the work by then.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from headgate.errors import EffectRefused
from headgate.pg import Connection

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
_COMMENT = re.compile(r"\s+|--[^\n]*(?:\n|$)|/\*.*?\*/", re.DOTALL)
_SET_CONFIG = re.compile(r"\bset_config\s*\(|\bpg_advisory_(?:un)?lock", re.IGNORECASE)


def check(sql: str) -> str:
    """Refuse what would reach beyond this entry's effects."""
    at = 0
    while (blank := _COMMENT.match(sql, at)) is not None:
        at = blank.end()
    first = re.match(r"\w*", sql[at:])
    word = first.group().lower() if first else ""
    if word in _FORBIDDEN:
        raise EffectRefused(
            f"tx: {word.upper()} is not allowed in apply",
            hint="Headgate opens and ends the transaction; write plain statements",
        )
    if _SET_CONFIG.search(sql):
        raise EffectRefused("tx: session settings and session locks are not allowed in apply")
    return sql


class Tx:
    """`hg.Transaction`: the connection of the finalize transaction, for one entry."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.failed: BaseException | None = None
        self.deferred: list[tuple[str, tuple[Any, ...]]] = []

    async def execute(self, sql: str, *args: Any) -> str:
        """Run one statement; its status, as in `INSERT 0 1`."""
        if not args:
            # Without arguments asyncpg would use the simple protocol, which takes several
            # statements at once, COMMIT among them.
            statement = await self._run(lambda: self._connection.prepare(check(sql)))
            await self._run(statement.fetch)
            return statement.get_statusmsg()
        return await self._run(lambda: self._connection.execute(check(sql), *args))

    async def executemany(self, sql: str, args: list[tuple[Any, ...]]) -> None:
        """Run one statement for each of many arguments."""
        await self._run(lambda: self._connection.executemany(check(sql), args))

    async def fetch(self, sql: str, *args: Any) -> list[Mapping[str, Any]]:
        """All rows of a query."""
        return await self._run(lambda: self._connection.fetch(check(sql), *args))

    async def fetchrow(self, sql: str, *args: Any) -> Mapping[str, Any] | None:
        """The first row of a query, or None."""
        return await self._run(lambda: self._connection.fetchrow(check(sql), *args))

    async def fetchval(self, sql: str, *args: Any) -> Any:
        """The first value of the first row, or None."""
        return await self._run(lambda: self._connection.fetchval(check(sql), *args))

    def later(self, sql: str, *args: Any) -> None:
        """A statement that needs no answer: many of them travel together, in their order."""
        self.deferred.append((check(sql), args))

    async def _run(self, statement: Callable[[], Awaitable[Any]]) -> Any:
        if self.failed is not None:
            raise self.failed
        try:
            return await statement()
        except BaseException as error:
            self.failed = error
            raise


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
