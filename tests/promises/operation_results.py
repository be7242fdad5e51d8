"""Results that are too large for their row: there as long as their operation, and no longer."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from tests.world import World

import headgate as hg
from headgate.ledger import garbage
from headgate.operations import lifecycle
from headgate.pg import Database
from headgate.runtime.collect import Collector
from headgate.runtime.tuning import Tuning
from headgate.runtime.verify import verify
from headgate.stores import open_store

NOW = Tuning(grace_seconds=0, retention_days=0)
RESULT = b"x" * 2000
DIGEST = hashlib.sha256(RESULT).digest()


@pytest.fixture(autouse=True)
def shared_database(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations of this test are remembered in its world."""
    monkeypatch.setenv("HEADGATE_DATABASE_URL", world.url)


def render(world: World, key: object = 1) -> Any:
    """An operation with a result of two thousand bytes, which go to the world's store."""
    return hg.operation("render", key=key, store=str(world.lake), result_bytes=1000)


def rendered(world: World, key: object = 1) -> bool:
    """Call it; was it done before?"""
    with render(world, key) as op:
        if not op.done:
            op.result = RESULT
    assert op.result == RESULT
    return op.done


async def collect(world: World, tuning: Tuning = NOW) -> garbage.Deleted:
    return await Collector(world.db, tuning, open_store).everything()


async def reset(world: World, key: object = 1) -> None:
    await world.db.execute(
        "SELECT headgate.operation_reset($1, 'me', 'why', false)",
        bytes.fromhex(render(world, key).key),
    )


def there(world: World) -> bool:
    return open_store(str(world.lake)).has(DIGEST)


async def states(world: World) -> list[Any]:
    return await world.rows("SELECT state, size FROM headgate.object ORDER BY digest")


async def test_a_stored_result_stays_as_long_as_its_operation(world: World) -> None:
    """The ledger knows the bytes; collecting leaves them alone, however old they are."""
    assert not rendered(world)
    assert await states(world) == [("kept", 2000)]
    await world.db.execute("UPDATE headgate.object SET touched_at = now() - interval '9 years'")
    assert (await collect(world)).objects == 0
    assert there(world)
    assert rendered(world)
    assert (await verify(world.db, deep=True)).checked["objects"] == 1


async def test_the_result_of_a_reset_operation_goes_after_the_retention(world: World) -> None:
    """Counted from the reset: until then somebody may want to look what it was."""
    rendered(world)
    await world.db.execute("UPDATE headgate.object SET touched_at = now() - interval '9 years'")
    await reset(world)
    assert (await collect(world, Tuning(grace_seconds=0, retention_days=30))).objects == 0
    assert (await collect(world)).objects == 1
    assert not there(world)
    assert not rendered(world)
    assert there(world)
    assert rendered(world)


async def test_two_operations_may_share_their_bytes(world: World) -> None:
    """What one of them does not need any more, the other one still has."""
    rendered(world, 1)
    rendered(world, 2)
    assert await states(world) == [("kept", 2000)]
    await reset(world, 1)
    assert (await collect(world)).objects == 0
    assert rendered(world, 2)
    await reset(world, 2)
    assert (await collect(world)).objects == 1


async def test_a_result_that_was_never_recorded_goes_after_the_grace_period(world: World) -> None:
    """Bytes come before the row that names them: if that never comes, they go."""

    async def fenced() -> None:
        async with render(world) as op:
            op.result = RESULT
            await reset(world)

    with pytest.raises(hg.Fenced):
        await fenced()
    assert await states(world) == [("staged", 2000)]
    assert there(world)
    assert (await collect(world, Tuning(grace_seconds=60, retention_days=0))).objects == 0
    assert (await collect(world)).objects == 1
    assert not there(world)


@pytest.mark.parametrize("sql", [False, True])
async def test_no_operation_is_recorded_whose_result_was_collected(
    world: World, monkeypatch: pytest.MonkeyPatch, sql: bool
) -> None:
    """A caller that stalled for longer than the grace period keeps nothing, and may call again."""
    keep = lifecycle.keep

    async def stall(db: Database, *args: Any) -> Any:
        kept = await keep(db, *args)
        assert (await Collector(db, NOW, open_store).everything()).objects == 1
        return kept

    def sell() -> None:
        with render(world) as op:
            if sql:
                op.tx.execute("INSERT INTO sale VALUES (1)")
            op.result = RESULT

    await world.db.execute("CREATE TABLE sale (n int)")
    with monkeypatch.context() as patch:
        patch.setattr(lifecycle, "keep", stall)
        with pytest.raises(Exception, match="collected before it could be recorded"):
            sell()
    assert await world.count("sale") == 0
    assert await world.val("SELECT status FROM headgate.operation") == "failure"
    assert not rendered(world)
    assert rendered(world)
