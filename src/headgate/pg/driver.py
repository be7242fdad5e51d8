"""asyncpg, with types: the driver has none of its own, so what is used of it is written down here.

No other file imports asyncpg.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

_UNTYPED = cast(Any, asyncpg)

Record = asyncpg.Record
PostgresError = asyncpg.PostgresError
InterfaceError = asyncpg.InterfaceError
InternalClientError = asyncpg.InternalClientError
ConnectionFailed = asyncpg.PostgresConnectionError
InsufficientPrivilege = asyncpg.InsufficientPrivilegeError
InvalidParameter = asyncpg.InvalidParameterValueError
LoginRefused = asyncpg.InvalidAuthorizationSpecificationError
NoSuchDatabase = asyncpg.InvalidCatalogNameError
TransactionFailed = asyncpg.InFailedSQLTransactionError
Deadlock = asyncpg.DeadlockDetectedError
SerializationFailed = asyncpg.SerializationError
LockNotAvailable = asyncpg.LockNotAvailableError
UniqueViolation = asyncpg.UniqueViolationError
NoSuchSchema = asyncpg.InvalidSchemaNameError

# Arrays that our statements carry, with the number and both names of what they hold. These numbers
# are the same in every Postgres.
ARRAYS = {
    1000: (16, "bool", "boolean"),
    1001: (17, "bytea", "bytea"),
    1005: (21, "int2", "smallint"),
    1007: (23, "int4", "integer"),
    1016: (20, "int8", "bigint"),
    1022: (701, "float8", "double precision"),
    1115: (1114, "timestamp", "timestamp without time zone"),
    1182: (1082, "date", "date"),
    1185: (1184, "timestamptz", "timestamp with time zone"),
    1231: (1700, "numeric", "numeric"),
    199: (114, "json", "json"),
    2951: (2950, "uuid", "uuid"),
    3807: (3802, "jsonb", "jsonb"),
}


class Statement(Protocol):
    """A statement the server has seen."""

    async def fetch(self, *args: Any) -> list[Record]: ...
    async def fetchrow(self, *args: Any) -> Record | None: ...
    async def fetchmany(self, args: Sequence[Sequence[Any]]) -> list[Record]: ...
    def get_statusmsg(self) -> str: ...
    def get_parameters(self) -> tuple[Any, ...]: ...


class Connection(Protocol):
    """One connection."""

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str: ...
    async def executemany(
        self, command: str, args: Iterable[Sequence[Any]], *, timeout: float | None = None
    ) -> None: ...
    async def fetch(self, query: str, *args: Any, timeout: float | None = None) -> list[Record]: ...
    async def fetchrow(
        self, query: str, *args: Any, timeout: float | None = None
    ) -> Record | None: ...
    async def fetchval(
        self, query: str, *args: Any, column: int = 0, timeout: float | None = None
    ) -> Any: ...
    async def copy_records_to_table(
        self,
        table_name: str,
        *,
        records: Iterable[Sequence[Any]],
        columns: Sequence[str] | None = None,
        schema_name: str | None = None,
        timeout: float | None = None,
    ) -> str: ...
    async def prepare(self, query: str) -> Statement: ...
    async def reset(self, *, timeout: float | None = None) -> None: ...
    async def close(self, *, timeout: float | None = None) -> None: ...
    async def add_listener(
        self, channel: str, callback: Callable[[Any, int, str, str], None]
    ) -> None: ...
    def add_termination_listener(self, callback: Callable[[Any], None]) -> None: ...
    def get_server_pid(self) -> int: ...
    def is_closed(self) -> bool: ...
    def is_in_transaction(self) -> bool: ...
    def terminate(self) -> None: ...


class Pool(Protocol):
    """Connections to borrow. Awaited once before use."""

    def __await__(self) -> Any: ...
    async def acquire(self) -> Connection: ...
    async def release(self, connection: Connection) -> None: ...
    async def close(self) -> None: ...
    def terminate(self) -> None: ...


class _Informed(asyncpg.Connection):
    """A connection that knows our arrays.

    asyncpg asks the server about them on each new connection, which takes Postgres longer than the
    statement that they come with. Were it to call this by another name one day, it would ask again.
    """

    async def _introspect_types(self, typeoids: Iterable[int], timeout: float | None) -> Any:
        asked = list(typeoids)
        if ARRAYS.keys() >= set(asked):
            return [_array(oid, *ARRAYS[oid]) for oid in asked], _Unsaid
        return await cast(Any, super())._introspect_types(asked, timeout)


class _Unsaid:
    """In place of the statement that was not needed; its name says that no other was replaced."""

    name = "known"


def _array(oid: int, element: int, name: str, spelled: str) -> dict[str, Any]:
    """What the server would say."""
    return {
        "oid": oid,
        "ns": "pg_catalog",
        "name": f"_{name}",
        "kind": b"b",
        "basetype": None,
        "elemtype": element,
        "elemdelim": b",",
        "range_subtype": None,
        "attrtypoids": None,
        "attrnames": None,
        "depth": 0,
        "basetype_name": None,
        "elemtype_name": spelled,
        "range_subtype_name": None,
    }


def pool(**options: Any) -> Pool:
    """A pool that opens its connections when they are first needed."""
    return _UNTYPED.create_pool(min_size=0, connection_class=_Informed, **options)


async def connect(**options: Any) -> Connection:
    """One connection outside any pool."""
    return await _UNTYPED.connect(connection_class=_Informed, **options)


def sqlstate(error: BaseException) -> str:
    """The five letters by which Postgres names an error; empty for any other error."""
    return str(getattr(error, "sqlstate", None) or "")


def detail(error: BaseException) -> str:
    """What Postgres adds to an error's message."""
    return str(getattr(error, "detail", None) or "")


def constraint(error: BaseException) -> str:
    """The constraint or unique index that an error is about; empty when it names none."""
    return str(getattr(error, "constraint_name", None) or "")
