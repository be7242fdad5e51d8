"""SQL in the transaction that also records the operation: both are committed, or neither.

The transaction is opened by the first statement, or at the end if there are only deferred ones. It
begins with the advisory lock on the operation's lock key, which goes when it does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from headgate.errors import EffectRefused
from headgate.ledger.deferred import Deferred, send
from headgate.ledger.transaction import Tx, check
from headgate.model.crash import reached
from headgate.model.operation import Moment
from headgate.pg import Database, Link, driver

from .desk import lock_timeout
from .lent import lent


class OperationTx:
    """`hg.Transaction` of one attempt. Lives on the background loop."""

    def __init__(
        self,
        database: Callable[[], Awaitable[Database]],
        lock_key: int,
        *,
        lock_timeout_seconds: float,
        idle_seconds: float,
    ) -> None:
        self._database = database
        self._lock_key = lock_key
        self._lock_timeout_seconds = lock_timeout_seconds
        self._idle_seconds = idle_seconds
        self._transaction = AsyncExitStack()
        self._one_at_a_time = asyncio.Lock()
        self._tx: Tx | None = None
        self._over = False
        self.link: Link | None = None
        self.deferred: list[Deferred] = []
        self.statements = 0

    async def execute(self, sql: str, *args: Any) -> str:
        return await self._run(lambda tx: tx.execute(sql, *args))

    async def executemany(self, sql: str, args: list[tuple[Any, ...]]) -> None:
        await self._run(lambda tx: tx.executemany(sql, args))

    async def fetch(self, sql: str, *args: Any) -> list[Mapping[str, Any]]:
        return await self._run(lambda tx: tx.fetch(sql, *args))

    async def fetchrow(self, sql: str, *args: Any) -> Mapping[str, Any] | None:
        return await self._run(lambda tx: tx.fetchrow(sql, *args))

    async def fetchval(self, sql: str, *args: Any) -> Any:
        return await self._run(lambda tx: tx.fetchval(sql, *args))

    def later(self, sql: str, *args: Any) -> None:
        """A statement that needs no answer: sent before the next one that does, or at the end."""
        self._refuse_if_over()
        self.deferred.append((check(sql), args))

    @property
    def open(self) -> bool:
        """Was a statement sent?"""
        return self._tx is not None

    async def _run(self, send_it: Callable[[Tx], Awaitable[Any]]) -> Any:
        async with self._one_at_a_time:
            self._refuse_if_over()
            tx = await self._opened()
            await self._flush(tx)
            self.statements += 1
            return await send_it(tx)

    def _refuse_if_over(self) -> None:
        if self._over:
            raise EffectRefused(
                "op.tx: this operation is over",
                hint="Use op.tx inside the with block, and only where op.done is false.",
            )

    async def _opened(self) -> Tx:
        if self._tx is None:
            db = await self._database()
            milliseconds = round(self._lock_timeout_seconds * 1000)
            enter = f"SELECT headgate.operation_enter({self._lock_key}, {milliseconds})"
            transaction = lent(db, self._idle_seconds, (enter,))
            try:
                link = await self._transaction.enter_async_context(transaction)
            except driver.LockNotAvailable as error:
                raise lock_timeout(self._lock_timeout_seconds) from error
            self.link, self._tx = link, Tx(link.raw)
            reached(Moment.OPENED)
        return self._tx

    async def _flush(self, tx: Tx) -> None:
        if self.deferred:
            assert self.link is not None
            if tx.failed is not None:
                raise tx.failed
            deferred, self.deferred = self.deferred, []
            self.statements += len(deferred)
            await send(self.link, deferred)

    async def finish(self, record: Callable[[Link], Awaitable[None]]) -> None:
        """Send what was deferred, record, and commit. Leaving normally means committed."""
        async with self._one_at_a_time:
            try:
                tx = await self._opened()
                self._over = True
                if tx.failed is not None:  # also where the caller swallowed it
                    raise tx.failed
                await self._flush(tx)
                assert self.link is not None
                await record(self.link)
            except BaseException as error:
                await self._roll_back(error)
                raise
            await self._transaction.aclose()

    async def abandon(self, error: BaseException) -> None:
        """Nothing of it is kept."""
        self._over = True
        if self._tx is not None:
            for running in self._tx.end():
                running.cancel()
        async with self._one_at_a_time:
            await self._roll_back(error)

    def end(self) -> list[Deferred]:
        """Nothing may be sent any more; what was deferred is handed over."""
        self._over = True
        self.statements += len(self.deferred)
        return self.deferred

    async def _roll_back(self, error: BaseException) -> None:
        self._over = True
        try:
            await self._transaction.__aexit__(type(error), error, error.__traceback__)
        except BaseException as raised:
            if raised is not error:
                raise
