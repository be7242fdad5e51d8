"""hg.operation and hg.once: work is done once per key, in any code, and its record is its effect's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.world import World

import headgate as hg


@pytest.fixture(autouse=True)
def shared_database(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Operations of this test are remembered in its world."""
    monkeypatch.setenv("HEADGATE_DATABASE_URL", world.url)
    yield


async def table(world: World) -> None:
    await world.db.execute("CREATE TABLE sale (day text, n int)")


async def test_a_call_does_the_work_and_a_repeat_gets_its_result(world: World) -> None:
    """The second call of a key runs nothing: it gets what the first one stored."""
    await table(world)

    def load(day: str) -> Any:
        with hg.operation("load_sales", key={"day": day}, dataset="sales", version="3") as op:
            if op.done:
                return "again", op.result
            op.tx.execute("INSERT INTO sale VALUES ($1, $2)", day, 1)
            op.result = {"rows": 1}
        return "first", op.result

    assert load("mon") == ("first", {"rows": 1})
    assert load("mon") == ("again", {"rows": 1})
    assert load("tue") == ("first", {"rows": 1})
    assert await world.table("sale", "day", "n") == [("mon", 1), ("tue", 1)]


async def test_async_code_has_the_same_block(world: World) -> None:
    """`async with` is the same operation as `with`: one key, one effect."""
    await table(world)

    async def load(day: str) -> Any:
        async with hg.operation("load_sales", key=day) as op:
            if op.done:
                return "again", op.result
            await op.tx.execute("INSERT INTO sale VALUES ($1, $2)", day, 1)
            assert await op.tx.fetchval("SELECT count(*) FROM sale") == 1
            op.result = [day]
        return "first", op.result

    assert await load("mon") == ("first", ["mon"])
    assert await load("mon") == ("again", ["mon"])
    assert await world.count("sale") == 1


async def test_what_raises_after_its_sql_commits_nothing(world: World) -> None:
    """SQL and record go together: an exception takes back both, and the next call runs again."""
    await table(world)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), hg.operation("load", key=1) as op:
            op.tx.execute("INSERT INTO sale VALUES ('mon', 1)")
            op.tx.later("INSERT INTO sale VALUES ('mon', 2)")
            raise ZeroDivisionError
    assert await world.count("sale") == 0
    assert await world.rows("SELECT status, attempts, reason FROM headgate.operation") == [
        ("failure", 2, "ZeroDivisionError")
    ]
    with hg.operation("load", key=1) as op:
        op.tx.later("INSERT INTO sale VALUES ('mon', 3)")
    assert await world.table("sale", "n") == [(3,)]


async def test_once_is_a_decorator_for_plain_and_async_functions(world: World) -> None:
    """A function keeps its signature and does its work once per key."""
    made: list[Any] = []

    @hg.once("charge", key="order")
    def charge(order: str, amount: int = 5) -> dict[str, Any]:
        made.append(order)
        return {"order": order, "amount": amount}

    @hg.once("notify", key=lambda order: order.lower())
    async def notify(order: str) -> str:
        made.append(f"{order}!")
        return f"told {order}"

    assert charge("A") == charge("A") == charge(order="A", amount=5) == {"order": "A", "amount": 5}
    assert await notify("A") == await notify("a") == "told A"
    assert made == ["A", "A!"]
    with pytest.raises(hg.Conflict):
        charge("A", amount=6)
    assert await world.val("SELECT count(*) FROM headgate.operation_journal WHERE event = 'conflict'") == 1


async def test_threads_of_one_process_share_one_execution(world: World) -> None:
    """Sixteen threads call the same key at once: one runs, all get its result."""
    await table(world)

    @hg.once("load", key="day")
    def load(day: int, op: Any = None) -> int:
        return op.tx.fetchval("INSERT INTO sale VALUES ($1, 1) RETURNING n", str(day))

    with ThreadPoolExecutor(16) as pool:
        for day in range(3):
            assert set(pool.map(lambda _, d=day: load(d), range(16))) == {1}
    assert await world.count("sale") == 3
    assert await world.val("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0


async def test_a_blocking_block_works_inside_a_running_event_loop(world: World) -> None:
    """This test runs on an event loop, and a plain block in it needs none of its own."""
    assert asyncio.get_running_loop().is_running()
    with hg.operation("plain", key=1) as op:
        op.result = 7
    assert op.result == 7
