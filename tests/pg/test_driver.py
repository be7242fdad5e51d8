"""The driver: it asks the server for nothing that is the same everywhere."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from headgate.pg import Database
from headgate.pg.driver import ARRAYS

WHEN = datetime(2026, 5, 1, 12, tzinfo=UTC)
VALUES: dict[str, list[Any]] = {
    "bool": [True, None, False],
    "bytea": [b"a\0b", None, b""],
    "int2": [1, None, -32768],
    "int4": [1, None, -(2**31)],
    "int8": [1, None, 2**63 - 1],
    "float8": [0.5, None, -1e300],
    "timestamptz": [WHEN, None],
}
ASKED = (
    "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'WITH RECURSIVE typeinfo%'"
)


@pytest.mark.parametrize("pooler", [False, True])
def test_arrays_travel_without_asking_what_they_are(url: str, pooler: bool) -> None:
    """To ask takes Postgres longer than the first statement itself, on each new connection."""

    async def scenario() -> None:
        async with await Database.open(url, pooler=pooler) as db, db.connection() as link:
            for name, values in VALUES.items():
                assert await link.fetchval(f"SELECT $1::{name}[]", values) == values
                assert await link.fetchval(f"SELECT $1::{name}[]", []) == []
            assert await link.fetchval(ASKED) == 0

    asyncio.run(scenario())


def test_the_numbers_of_arrays_are_those_of_the_server(url: str) -> None:
    """They are the same in every Postgres, whatever its version."""

    async def scenario() -> None:
        async with await Database.open(url) as db:
            rows = await db.fetch(
                "SELECT oid, typelem, typname FROM pg_type"
                " WHERE typnamespace = 'pg_catalog'::regnamespace AND typcategory = 'A'"
            )
        there = {r["oid"]: (r["typelem"], r["typname"]) for r in rows}
        assert {oid: there[oid] for oid in ARRAYS} == {
            oid: (element, f"_{name}") for oid, (element, name) in ARRAYS.items()
        }
        assert {name for _, name in ARRAYS.values()} == VALUES.keys()

    asyncio.run(scenario())


def test_what_is_not_known_is_asked_for(url: str) -> None:
    """Types of a user's own, alone or beside ours in one statement."""

    async def scenario() -> None:
        async with await Database.open(url) as db, db.connection() as link:
            await link.execute("CREATE TYPE colour AS ENUM ('red', 'blue')")
            told = await link.fetchrow(
                "SELECT $1::colour[] AS a, $2::int[] AS b, $3::date[] AS c", ["red"], [1], [WHEN]
            )
            assert told is not None
            assert (told["a"], told["b"], told["c"]) == (["red"], [1], [WHEN.date()])
            assert await link.fetchval(ASKED) == 1

    asyncio.run(scenario())
