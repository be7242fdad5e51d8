"""The ledger's database: a pool, a schema, and transactions whose end is always known.

    async with db.transaction() as link:
        link.xid = await link.fetchval("SELECT pg_current_xact_id()::text::bigint")
        ...

leaves the block normally only if the transaction is committed. When the answer to COMMIT is lost
the server is asked how it ended (`outcome.py`); COMMIT is never sent twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from headgate import errors
from headgate.model.whole import whole
from headgate.pg import driver, fitness, outcome
from headgate.pg.address import redact, where
from headgate.pg.driver import Connection, Pool, Record
from headgate.pg.link import SCHEMA, Link, is_away, quoted

CONNECT_SECONDS = 15.0

IDLE_SECONDS = 120.0


class Database:
    """A pool of connections to one ledger. Open it with `Database.open`."""

    def __init__(
        self, pool: Pool, url: str, schema: str, *, pooler: bool, options: dict[str, Any]
    ) -> None:
        self._pool = pool
        self._options = options
        self.url = url
        self.schema = schema
        self.pooler = pooler  # behind a pooler: no LISTEN, no session state
        self.outcome_deadline_seconds = outcome.DEADLINE_SECONDS
        self.outcome_grace_seconds = outcome.GRACE_SECONDS

    def __repr__(self) -> str:
        return f"Database({redact(self.url)!r}, schema={self.schema!r})"

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        schema: str = SCHEMA,
        max_size: int = 10,
        pooler: bool = False,
        allow_unsafe: bool = False,
        application_name: str = "headgate",
    ) -> Database:
        """Connect, and refuse a server that could not keep the ledger's promises.

        An empty url means libpq's PG* variables. `LedgerUnavailable` when the server is away,
        `LedgerRefused` when it is there and cannot be used, `ConfigError` for a bad url.
        """
        quoted(schema)
        # A pooler hands each transaction another server connection: prepared statements and
        # settings made on one of them would be missing, or a stranger's, on the next.
        options: dict[str, Any] = {"dsn": url or None, "timeout": CONNECT_SECONDS}
        # Nothing is tidied up when a connection comes back: we leave no state in a session, and
        # asking the server to forget would cost a round trip each time.
        pool_options: dict[str, Any] = {"max_size": max_size, "reset": _no_reset}
        if pooler:
            options["statement_cache_size"] = 0
        else:
            options["server_settings"] = {"application_name": application_name}
        pool = driver.pool(**options, **pool_options)
        db = cls(pool, url, schema, pooler=pooler, options=options)
        try:
            await pool
            async with db.connection() as link:
                await fitness.require(link, where(url), allow_unsafe=allow_unsafe)
        except BaseException:
            pool.terminate()
            raise
        return db

    async def close(self) -> None:
        """Wait for borrowed connections to come back and close all."""
        try:
            await asyncio.wait_for(self._pool.close(), timeout=CONNECT_SECONDS)
        except BaseException as error:
            self._pool.terminate()
            if not (isinstance(error, TimeoutError) or is_away(error)):
                raise

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Link]:
        """A connection of one's own for the length of the block, outside any transaction."""
        try:
            raw = await self._pool.acquire()
        except Exception as error:
            raise self._no_connection(error) from error
        link = Link(raw, self.schema)
        try:
            yield link
        finally:
            # The block is over, and may have committed: a server that dies while the connection
            # is tidied up must not make it look as if it failed. The pool drops such a one.
            with suppress(Exception):
                try:
                    if link.lent and not self.pooler:
                        await raw.reset(timeout=CONNECT_SECONDS)
                except BaseException:
                    raw.terminate()  # whatever state it is in, nobody gets it again
                    raise
                finally:
                    await self._pool.release(raw)

    @asynccontextmanager
    async def transaction(
        self, *, idle_seconds: float = IDLE_SECONDS, first: Sequence[str] = ()
    ) -> AsyncGenerator[Link]:
        """BEGIN … COMMIT around the block; an exception or a cancellation rolls back.

        A process that is stopped in here holds locks that others wait for, beyond any lease. After
        `idle_seconds` without a statement, Postgres ends the transaction for them. Statements that
        need no arguments and whose answer nobody reads can be `first`: they travel with BEGIN.

        Leaving normally means committed. `LedgerUnavailable` means not applied, unless its
        reason is `commit_unknown`. A task cancelled during COMMIT still finds out first, leaves
        the answer in `link.committed`, and is then cancelled; a second cancellation ends the wait.
        """
        async with self.connection() as link, self.within(link, idle_seconds, first):
            yield link

    @asynccontextmanager
    async def within(
        self, link: Link, idle_seconds: float = IDLE_SECONDS, first: Sequence[str] = ()
    ) -> AsyncGenerator[None]:
        """The same on a connection that is already at hand."""
        try:
            limit = f"idle_in_transaction_session_timeout = {round(idle_seconds * 1000)}"
            await link.execute("; ".join(("BEGIN", f"SET LOCAL {limit}", *first)))
            yield
        except BaseException:
            link.committed = False
            await _roll_back(link)
            raise
        # Cancelled with COMMIT on its way: only the server's answer tells what it did.
        await whole(self._commit(link))

    async def fetch(self, sql: str, *args: Any) -> list[Record]:
        """Every row, on any connection."""
        async with self.connection() as link:
            return await link.fetch(sql, *args)

    async def fetchrow(self, sql: str, *args: Any) -> Record | None:
        """The first row or None, on any connection."""
        async with self.connection() as link:
            return await link.fetchrow(sql, *args)

    async def fetchval(self, sql: str, *args: Any) -> Any:
        """The first value or None, on any connection."""
        async with self.connection() as link:
            return await link.fetchval(sql, *args)

    async def execute(self, sql: str, *args: Any) -> str:
        """Run a statement on any connection; it commits by itself."""
        async with self.connection() as link:
            return await link.execute(sql, *args)

    async def _commit(self, link: Link) -> None:
        if link.closed:
            link.committed = False
            raise errors.LedgerUnavailable(
                f"the connection to {where(self.url)} was lost before COMMIT: nothing was applied",
                upstream="postgres",
            )
        try:
            tag = await link.raw.execute("COMMIT")
        except Exception as error:
            if not is_away(error):
                link.committed = False
                raise
            await self._find_out(link, error)
            return
        link.committed = tag == "COMMIT"
        if not link.committed:
            # Postgres answers the COMMIT of a failed transaction with a quiet ROLLBACK.
            raise driver.TransactionFailed(
                "a statement of this transaction failed and the failure was swallowed:"
                " everything in it was rolled back"
            )

    async def _find_out(self, link: Link, lost: Exception) -> None:
        end: outcome.Outcome = "unknown"
        if link.xid is not None:
            end = await outcome.find_out(
                self.connect_anew,
                link.xid,
                link.proof,
                self.schema,
                deadline_seconds=self.outcome_deadline_seconds,
                grace_seconds=self.outcome_grace_seconds,
            )
        if end == "committed":
            link.committed = True
            return
        if end == "aborted":
            link.committed = False
            raise errors.LedgerUnavailable(
                f"{where(self.url)} went away during COMMIT; it says that nothing was applied",
                upstream="postgres",
            ) from lost
        raise errors.LedgerUnavailable(
            f"{where(self.url)} went away during COMMIT and cannot say how it ended",
            upstream="postgres",
            reason="commit_unknown",
            hint="Look for the rows of this transaction before running it again.",
        ) from lost

    async def connect_anew(self) -> Connection:
        """A connection of its own: all places of the pool may be taken by others who wait."""
        return await driver.connect(**self._options)

    def _no_connection(self, error: Exception) -> Exception:
        """The error to raise when a connection could not be had."""
        place = where(self.url)
        if is_away(error) or isinstance(error, TimeoutError):
            why = str(error) or f"no answer within {CONNECT_SECONDS:g} s"
            return errors.LedgerUnavailable(f"cannot reach {place}: {why}", upstream="postgres")
        if isinstance(error, driver.LoginRefused):
            return errors.LedgerRefused(
                f"{place} refused the login: {error}",
                hint="Check user and password in HEADGATE_DATABASE_URL, and pg_hba.conf there.",
            )
        if isinstance(error, driver.NoSuchDatabase):
            return errors.LedgerRefused(
                f"{place} does not exist", hint="Create it: createdb NAME, then run again"
            )
        if isinstance(error, ValueError):
            return _bad_url(self.url, error)
        return error


async def _no_reset(_: Connection) -> None:
    """Nothing to tidy up: no session state is ever made. `Link.lent` is the exception."""


async def _roll_back(link: Link) -> None:
    """End the transaction, or the connection with it; the server then rolls back by itself."""
    try:
        await asyncio.wait_for(link.raw.execute("ROLLBACK"), timeout=CONNECT_SECONDS)
    except BaseException as error:
        with suppress(driver.InterfaceError):
            link.raw.terminate()
        if not isinstance(error, Exception):
            raise


def _bad_url(url: str, error: Exception) -> errors.ConfigError:
    return errors.ConfigError(
        f"the database address {redact(url)!r} cannot be used: {redact(str(error))}",
        hint="HEADGATE_DATABASE_URL: postgresql://user@host:5432/database",
    )
