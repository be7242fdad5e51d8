"""A transaction inside another: what is made to commit by itself commits with the outer one."""

from __future__ import annotations

import pytest
from tests.world import World

from headgate.pg import Database, Joined
from headgate.pg.driver import PostgresError


async def insert(db: Database, n: int) -> None:
    """As the functions of the ledger do it: a transaction of one's own."""
    async with db.transaction() as link:
        await link.execute("INSERT INTO one VALUES ($1)", n)
    assert await db.fetchval("SELECT count(*) FROM one WHERE n = $1", n) == 1


async def insert_and_fail(db: Database, n: int) -> None:
    """One inside another, which fails afterwards."""
    async with db.transaction() as link:
        await insert(Joined(db, link), n)
        raise ZeroDivisionError


async def test_nothing_is_there_before_the_outer_one_commits(world: World) -> None:
    """And all of it when it has; what the outer one loses is lost with it."""
    await world.db.execute("CREATE TABLE one (n int PRIMARY KEY)")
    async with world.db.transaction() as link:
        await insert(Joined(world.db, link), 1)
        await insert(Joined(world.db, link), 2)
        assert await world.count("one") == 0
    assert await world.count("one") == 2
    with pytest.raises(ZeroDivisionError):
        await insert_and_fail(world.db, 3)
    assert await world.count("one") == 2


async def test_what_fails_inside_is_undone_alone(world: World) -> None:
    """The outer one goes on, also after a statement that Postgres refused."""
    await world.db.execute("CREATE TABLE one (n int PRIMARY KEY)")
    async with world.db.transaction() as link:
        db = Joined(world.db, link)
        await insert(db, 1)
        with pytest.raises(PostgresError):
            await insert(db, 1)
        with pytest.raises(ZeroDivisionError):
            await insert_and_fail(db, 3)
        await insert(db, 4)
    assert await world.rows("SELECT n FROM one ORDER BY 1") == [(1,), (4,)]
