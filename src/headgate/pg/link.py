"""One connection to the ledger: our SQL in the configured schema, outages under one name.

Our SQL says `headgate.entry`; a ledger may live in another schema, so the prefix is replaced on
the way out. What the driver raises when Postgres is away becomes `LedgerUnavailable`; everything
else (a violated constraint, a deadlock, a timeout of one statement) passes through as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from types import TracebackType
from typing import Any

from headgate import errors
from headgate.pg import driver
from headgate.pg.driver import Connection, Record

SCHEMA = "headgate"

# A schema's name goes into SQL text, string literals and dollar-quoted bodies: no quotes, no $.
# It is also part of a channel's name, which may have 63 characters.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,55}")
_PREFIX = re.compile(r"(?<![\w$.])headgate\.")

_AWAY = frozenset(
    {
        "25006",  # read-only: this server became a standby
        "53100",  # disk full
        "53200",  # out of memory
        "53300",  # too many connections
        "57P01",  # shutdown by an administrator
        "57P02",  # another backend crashed
        "57P03",  # starting up or shutting down
        "57P05",  # idle session timed out
        "58030",  # I/O error
    }
)


class Link:
    """A connection that speaks for one ledger schema.

    `xid` and `proof` are for the caller of `Database.transaction()`: they let a COMMIT whose
    answer was lost be looked up afterwards. `committed` is None until the end is known. `lent` says
    that a handler's own SQL ran here: whatever that left in the session is undone.
    """

    __slots__ = ("committed", "lent", "proof", "raw", "schema", "xid")

    def __init__(self, raw: Connection, schema: str = SCHEMA) -> None:
        self.raw = raw
        self.schema = schema
        self.xid: int | None = None
        self.proof: tuple[str, tuple[Any, ...]] | None = None
        self.committed: bool | None = None
        self.lent = False

    @property
    def closed(self) -> bool:
        """True when the connection is gone: the next statement cannot reach the server."""
        try:
            return self.raw.is_closed()
        except driver.InterfaceError:  # a pooled connection that died was already taken back
            return True

    async def execute(self, sql: str, *args: Any, timeout: float | None = None) -> str:
        """Run one statement (or, without arguments, several) and return its command tag."""
        with _TRANSLATED:
            # Without arguments it may be a text of its own each time: that is not remembered.
            text = localize(sql, self.schema) if args else rename(sql, self.schema)
            return await self.raw.execute(text, *args, timeout=timeout)

    async def executemany(
        self, sql: str, rows: Iterable[Sequence[Any]], *, timeout: float | None = None
    ) -> None:
        """Run one statement for every row, atomically."""
        with _TRANSLATED:
            await self.raw.executemany(localize(sql, self.schema), rows, timeout=timeout)

    async def fetch(self, sql: str, *args: Any, timeout: float | None = None) -> list[Record]:
        """Every row."""
        with _TRANSLATED:
            return await self.raw.fetch(localize(sql, self.schema), *args, timeout=timeout)

    async def fetchrow(self, sql: str, *args: Any, timeout: float | None = None) -> Record | None:
        """The first row, or None."""
        with _TRANSLATED:
            return await self.raw.fetchrow(localize(sql, self.schema), *args, timeout=timeout)

    async def fetchval(self, sql: str, *args: Any, timeout: float | None = None) -> Any:
        """The first column of the first row, or None."""
        with _TRANSLATED:
            return await self.raw.fetchval(localize(sql, self.schema), *args, timeout=timeout)

    async def copy(
        self,
        table: str,
        columns: Sequence[str],
        records: Iterable[Sequence[Any]],
        *,
        timeout: float | None = None,
    ) -> None:
        """COPY records into a table of the ledger's schema."""
        with _TRANSLATED:
            await self.raw.copy_records_to_table(
                table,
                columns=list(columns),
                records=records,
                schema_name=self.schema,
                timeout=timeout,
            )


def rename(sql: str, schema: str) -> str:
    """Our SQL with the prefix `headgate.` replaced by the schema the ledger lives in."""
    return sql if schema == SCHEMA else _PREFIX.sub(f"{quoted(schema)}.", sql)


localize = lru_cache(maxsize=4096)(rename)


def quoted(schema: str) -> str:
    """The schema as an identifier for SQL; `ConfigError` when it cannot be one."""
    if not _NAME.fullmatch(schema) or schema.startswith("pg_"):
        raise errors.ConfigError(
            f"the ledger cannot live in a schema called {schema!r}",
            hint="HEADGATE_SCHEMA: letters, digits, _ and -, at most 56, not starting with pg_",
        )
    return f'"{schema}"'


def is_away(error: BaseException) -> bool:
    """True when the error says that Postgres cannot be reached or cannot work now."""
    if isinstance(error, driver.PostgresError):
        return isinstance(error, driver.ConnectionFailed) or driver.sqlstate(error) in _AWAY
    if isinstance(error, driver.InternalClientError):
        # The driver lost track of the conversation, as when the server dies between two messages.
        return True
    if isinstance(error, driver.InterfaceError):
        return "closed" in str(error) or "released back to the pool" in str(error)
    if isinstance(error, TimeoutError):
        # Without an errno it is a statement's own time limit, not a connection that went silent.
        return error.errno is not None
    return isinstance(error, OSError)


class _Translated:
    """`with` block that renames outages; entered for every statement, so it holds no state."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and is_away(error):
            raise errors.LedgerUnavailable(
                f"the connection to the ledger failed: {error}", upstream="postgres"
            ) from error


_TRANSLATED = _Translated()
