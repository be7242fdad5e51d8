"""The driver: it asks the server for nothing that is the same everywhere."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from ipaddress import IPv4Address
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from headgate.pg import Database, driver
from headgate.pg.driver import ARRAYS

HERE = IPv4Address("127.0.0.1")
WHEN = datetime(2026, 5, 1, 12, tzinfo=UTC)
VALUES: dict[str, list[Any]] = {
    "bool": [True, None, False],
    "bytea": [b"a\0b", None, b""],
    "int2": [1, None, -32768],
    "int4": [1, None, -(2**31)],
    "int8": [1, None, 2**63 - 1],
    "float8": [0.5, None, -1e300],
    "timestamp": [WHEN.replace(tzinfo=None), None],
    "timestamptz": [WHEN, None],
    "date": [WHEN.date(), None],
    "numeric": [Decimal("1.50"), None, Decimal("-1e30")],
    "uuid": [UUID(int=7), None],
    "json": ['{"a":  "\\""}', None],
    "jsonb": ['{"a": "\\""}', None],
}
ASKED = (
    "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'WITH RECURSIVE typeinfo%'"
)
LONG = f"/* {'x' * 20_000} */ SELECT $1::int8[]"  # such a statement is not remembered


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """What the driver asked the server about."""
    numbers: list[set[int]] = []
    really = asyncpg.Connection._introspect_types

    async def noted(self: Any, typeoids: Any, timeout: Any) -> Any:
        numbers.append(set(typeoids))
        return await really(self, typeoids, timeout)

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", noted)
    return numbers


@pytest.mark.parametrize("pooler", [False, True])
def test_arrays_travel_without_asking_what_they_are(
    url: str, asked: list[set[int]], pooler: bool
) -> None:
    """To ask takes Postgres longer than the first statement itself, on each new connection."""

    async def scenario() -> None:
        async with await Database.open(url, pooler=pooler) as db, db.connection() as link:
            assert await link.fetchval(LONG, [1, 2]) == [1, 2]
            for name, values in VALUES.items():
                assert await link.fetchval(f"SELECT $1::{name}[]", values) == values
                assert await link.fetchval(f"SELECT $1::{name}[]", []) == []
            assert await link.fetchval(ASKED) == 0

    asyncio.run(scenario())
    assert asked == []


def test_what_is_known_is_what_the_server_says(url: str) -> None:
    """To the letter: another release of the driver may read more of it than this one."""

    async def scenario() -> None:
        link: Any = await driver.connect(dsn=url)
        plain = await asyncpg.connect(url)
        try:
            known, _ = await link._introspect_types(ARRAYS, None)
            told, _ = await plain._introspect_types(ARRAYS, None)
        finally:
            await link.close()
            await plain.close()
        assert {r["oid"]: r for r in known} == {r["oid"]: dict(r) for r in told if r["depth"] == 0}

    asyncio.run(scenario())
    assert {name for _, name, _ in ARRAYS.values()} == VALUES.keys()


def test_what_is_not_known_is_asked_for(url: str, asked: list[set[int]]) -> None:
    """Types of a user's own, alone or beside ours in one statement."""

    async def scenario() -> None:
        async with await Database.open(url) as db, db.connection() as link:
            await link.execute("CREATE TYPE colour AS ENUM ('red', 'blue')")
            told = await link.fetchrow(
                "SELECT $1::colour[] AS a, $2::int[] AS b, $3::inet[] AS c", ["red"], [1], [HERE]
            )
            assert told is not None
            assert (told["a"], told["b"], told["c"]) == (["red"], [1], [HERE])
            assert await link.fetchval(ASKED) == 1

    asyncio.run(scenario())
    assert len(asked) == 1
