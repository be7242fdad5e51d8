"""What handlers defer travels together, and each entry still stands for itself."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest
from tests.world import World, change, until

import headgate as hg
from headgate.errors import LedgerUnavailable
from headgate.model.crash import arm, disarm
from headgate.model.entry import Point
from headgate.pipeline import Path

MANY = 60
READING = "INSERT INTO reading (sensor, value) VALUES ($1, $2)"
SENSOR = (
    "INSERT INTO sensor (name, readings) VALUES ($1, 1)"
    " ON CONFLICT (name) DO UPDATE SET readings = sensor.readings + 1"
)
TABLES = """
    CREATE TABLE reading (n serial, sensor text NOT NULL, value int UNIQUE CHECK (value < 1000));
    CREATE TABLE sensor (name text PRIMARY KEY, readings int NOT NULL);
"""


def told(p: hg.Pipeline, calls: list[str] | None = None) -> None:
    """Each entry says two things: what was read, and of whom."""

    @p.apply
    async def note(tx: hg.Transaction, obj: hg.Object) -> None:
        said = obj.json()
        if calls is not None:
            calls.append(obj.uri)
        args = said.get("args", [f"s{said['n']}", said["n"]])
        tx.later(READING, *args)
        tx.later(SENSOR, args[0])


async def deliver(world: World, p: hg.Pipeline, **odd: list[Any]) -> None:
    """Many entries; those that are named say something of their own."""
    said = [{"n": n} | ({"args": odd[f"o{n}"]} if f"o{n}" in odd else {}) for n in range(MANY)]
    await world.receive(p, *(change(f"o{n}", json.dumps(one)) for n, one in enumerate(said)))


async def at_once(world: World, path: Path) -> None:
    """Settle all that is there as one batch."""
    await world.finish(path, await world.claim(path, await world.worker(), MANY))


async def test_two_statements_of_each_entry_are_two_for_all(world: World) -> None:
    """All effects are there, once, in the order of the entries; and each handler ran once."""
    p = world.pipeline()
    await world.db.execute(TABLES)
    calls: list[str] = []
    told(p, calls)
    await deliver(world, p)
    await at_once(world, await world.path(p))
    entries = await world.rows("SELECT uri FROM headgate.entry ORDER BY id")
    written = await world.rows("SELECT 'test://o' || value FROM reading ORDER BY n")
    assert written == entries
    assert await world.rows("SELECT count(*), sum(readings) FROM sensor") == [(MANY, MANY)]
    assert len(calls) == len(set(calls)) == MANY
    # The first 32 run beside each other, until it is known that they only defer.
    statements = "SELECT count(*) FROM reading GROUP BY xmin::text, cmin::text ORDER BY 1"
    assert await world.rows(statements) == [(MANY - 32,), (32,)]
    await world.audit()


@pytest.mark.parametrize(
    "wrong",
    [
        ["s", 1000],  # a CHECK
        [None, 500],  # NOT NULL
        ["s7", 7],  # UNIQUE, within the batch
        ["s", 10**12],  # the driver refuses it
        ["s", "seven"],
        [7, 7],
        ["a\0b", 500],
        ["s"],
        ["s", 1, 2],
        ["s", [1]],
        [["s"], 1],
    ],
)
async def test_a_wrong_one_among_many_fails_alone(world: World, wrong: list[Any]) -> None:
    """Nobody else's effect is lost, nobody else is charged, and its own are not there."""
    p = world.pipeline()
    await world.db.execute(TABLES)
    told(p)
    await deliver(world, p, o31=wrong)
    await world.run(p)
    good = [(n,) for n in range(MANY) if n != 31]
    assert await world.rows("SELECT value FROM reading ORDER BY value") == good
    assert await world.val("SELECT sum(readings) FROM sensor") == len(good)
    assert len(await world.quarantined()) == 1
    charged = await world.rows("SELECT attempt FROM headgate.journal WHERE outcome = 'finalized'")
    assert charged == [(1,)] * (MANY - 1)
    await world.audit()


async def test_keys_that_only_postgres_finds_equal_are_nobodys_fault(world: World) -> None:
    """Two rows of one statement may not update each other. Then each has a statement of its own."""
    p = world.pipeline()
    await world.db.execute("CREATE TABLE near (place numeric(9, 1) PRIMARY KEY, n int)")
    calls = 0

    @p.apply
    async def count(tx: hg.Transaction, obj: hg.Object) -> None:
        nonlocal calls
        calls += 1
        tx.later(
            "INSERT INTO near (place, n) VALUES ($1, 1)"
            " ON CONFLICT (place) DO UPDATE SET n = near.n + 1",
            1 + int(obj.text()) / 1000,
        )

    path = await world.path(p)
    for n in range(3):
        await world.receive(p, *(change(f"{n}/{k}", f"{k}") for k in range(MANY)))
        await at_once(world, path)
    assert await world.rows("SELECT place::text, n FROM near ORDER BY 1") == [
        ("1.0", 3 * 50),
        ("1.1", 3 * 10),
    ]
    assert await world.quarantined() == []
    assert calls == 4 * MANY  # the second batch was undone once; the third one knew


async def test_the_same_within_one_entry(world: World) -> None:
    p = world.pipeline()
    await world.db.execute("CREATE TABLE near (place numeric(9, 1) PRIMARY KEY, n int)")

    @p.apply
    def count(tx: hg.BlockingTransaction, obj: hg.Object) -> None:
        for n in range(MANY):
            tx.later(
                "INSERT INTO near (place, n) VALUES ($1, 1)"
                " ON CONFLICT (place) DO UPDATE SET n = near.n + 1",
                1 + n / 1000,
            )

    await world.receive(p, change("a"))
    await world.run(p)
    assert await world.rows("SELECT n FROM near ORDER BY place") == [(50,), (10,)]
    assert await world.outcomes() == {"finalized": 1}


async def test_a_key_that_cannot_be_compared_is_no_failure(world: World) -> None:
    """What goes wrong before anything was sent is nobody's fault, either."""
    p = world.pipeline()
    await world.db.execute("CREATE TABLE near (place numeric PRIMARY KEY, n int)")

    @p.apply
    def count(tx: hg.BlockingTransaction, obj: hg.Object) -> None:
        for place in [Decimal("sNaN"), *map(Decimal, range(MANY))]:
            tx.later(
                "INSERT INTO near (place, n) VALUES ($1, 1)"
                " ON CONFLICT (place) DO UPDATE SET n = near.n + 1",
                place,
            )

    await world.receive(p, change("a"))
    await world.run(p)
    assert await world.val("SELECT count(*) FROM near") == MANY + 1
    assert await world.outcomes() == {"finalized": 1}


async def test_who_fails_by_itself_does_not_slow_down_what_comes(world: World) -> None:
    """A wrong entry says nothing about how the others may travel."""
    p = world.pipeline()
    await world.db.execute(TABLES)
    told(p)
    path = await world.path(p)
    await deliver(world, p, o31=["s", 1000])
    await at_once(world, path)
    await world.db.execute("TRUNCATE reading")
    again = ({"n": n} for n in range(MANY))
    await world.receive(p, *(change(f"again{one['n']}", json.dumps(one)) for one in again))
    await at_once(world, path)
    assert await world.val("SELECT count(*) FROM reading") == MANY
    assert await world.val("SELECT count(DISTINCT cmin::text) FROM reading") == 1


async def test_triggers_see_every_entry_by_itself(world: World) -> None:
    """Also one that is created while a worker is at it."""
    p = world.pipeline()
    await world.db.execute(TABLES)
    await world.db.execute("""
        CREATE TABLE seen (n int);
        CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO seen SELECT count(*) FROM reading; RETURN NULL; END $$
    """)
    told(p)
    await deliver(world, p)
    path = await world.path(p)
    await at_once(world, path)
    await world.db.execute(
        "CREATE TRIGGER look AFTER INSERT ON reading FOR EACH STATEMENT EXECUTE FUNCTION look()"
    )
    more = ({"n": n, "args": [f"s{n}", MANY + n]} for n in range(MANY))
    await world.receive(p, *(change(f"more{one['n']}", json.dumps(one)) for one in more))
    await at_once(world, path)
    assert await world.rows("SELECT n FROM seen") == [(MANY + n + 1,) for n in range(MANY)]
    assert await world.quarantined() == []


async def test_one_that_waits_for_a_row_is_tried_again_alone(world: World) -> None:
    """Somebody holds a row that one of many entries wants: the others are not kept waiting."""
    p = world.pipeline()
    await world.db.execute(TABLES)
    await world.db.execute("INSERT INTO sensor VALUES ('s31', 0)")
    told(p)
    await deliver(world, p)
    async with world.db.transaction() as somebody:
        await somebody.execute("SELECT FROM sensor WHERE name = 's31' FOR UPDATE")
        working = asyncio.create_task(world.run(p, apply_seconds=0.3))

        async def others_are_done() -> bool:
            return await world.val("SELECT count(*) = $1 FROM reading", MANY - 1)

        await until(others_are_done, seconds=60)
    await working
    assert await world.rows("SELECT count(*), sum(readings) FROM sensor") == [(MANY, MANY)]
    assert await world.quarantined() == []


async def test_a_crash_after_the_effects_leaves_none_of_them(world: World) -> None:
    """Sent, and not committed: the next worker does it once."""
    p = world.pipeline()
    await world.db.execute(TABLES)
    told(p)
    await deliver(world, p)
    path = await world.path(p)
    claims = await world.claim(path, await world.worker(), MANY)
    arm(Point.EFFECTS, _crash)
    try:
        with pytest.raises(LedgerUnavailable):
            await world.finish(path, claims)
    finally:
        disarm()
    assert await world.val("SELECT count(*) FROM reading") == 0
    await world.finish(path, claims)
    assert await world.rows("SELECT count(*), sum(readings) FROM sensor") == [(MANY, MANY)]


def _crash() -> None:
    raise LedgerUnavailable("pulled the plug", upstream="postgres")


@pytest.mark.parametrize("plain_function", [False, True])
async def test_a_thousand_rows_of_one_file_are_one_statement(
    world: World, plain_function: bool
) -> None:
    """A lone entry that says much is quick as well; one wrong row undoes all of its file."""
    p = world.pipeline()
    await world.db.execute(TABLES)

    def note(tx: hg.BlockingTransaction, obj: hg.Object) -> None:
        for n, line in enumerate(obj.text().split(",")):
            tx.later(READING, line, n)

    async def awaited(tx: hg.Transaction, obj: hg.Object) -> None:
        for n, line in enumerate(obj.text().split(",")):
            tx.later(READING, line, n)

    p.apply(note if plain_function else awaited)
    await world.receive(p, change("bad", ",".join(["x"] * 1001)))
    await world.run(p)
    assert await world.val("SELECT count(*) FROM reading") == 0
    ((_, reason, _),) = await world.quarantined()
    assert reason == "refused_by_database"
    await world.receive(p, change("good", ",".join(["x"] * 1000)))
    await world.run(p)
    assert await world.val("SELECT count(*) FROM reading") == 1000
    assert await world.val("SELECT count(DISTINCT cmin::text) FROM reading") == 1


async def test_behind_a_pooler_they_travel_as_they_were_said(world: World) -> None:
    """There nothing is prepared, and the effects are the same."""
    p = world.pipeline()
    await world.db.execute(TABLES)
    told(p)
    await deliver(world, p, o31=["s", 1000])
    world.db.pooler = True
    await world.run(p)
    assert await world.val("SELECT count(*) FROM reading") == MANY - 1
    assert len(await world.quarantined()) == 1


async def test_who_waits_for_the_status_gets_its_own(world: World) -> None:
    """What many execute in the same words is one insert, too, where each of them surely counts."""
    p = world.pipeline()
    await world.db.execute(TABLES)
    await world.db.execute("INSERT INTO sensor SELECT 's' || n, 7 FROM generate_series(1, 60, 2) n")
    said: dict[str, list[str]] = {}

    @p.apply(independent=True)
    async def note(tx: hg.Transaction, obj: hg.Object) -> None:
        n = obj.json()["n"]
        assert obj.uri not in said, "nothing was undone"
        said[obj.uri] = [
            await tx.execute(READING, f"s{n}", n),
            await tx.execute(SENSOR + " WHERE sensor.readings < 0", f"s{n}"),
            await tx.execute(SENSOR, f"all{n // 2}"),
        ]

    await deliver(world, p)
    await at_once(world, await world.path(p))
    assert said == {
        f"test://o{n}": ["INSERT 0 1", f"INSERT 0 {1 - n % 2}", "INSERT 0 1"] for n in range(MANY)
    }
    statements = "SELECT count(*) FROM reading GROUP BY xmin::text, cmin::text ORDER BY 1"
    assert await world.rows(statements) == [(MANY - 32,), (32,)]
    several = "SELECT readings FROM sensor WHERE name LIKE 'all%'"
    assert await world.rows(several) == [(2,)] * (MANY // 2)


async def test_equal_keys_of_who_waits_are_nobodys_fault(world: World) -> None:
    """Only Postgres finds them equal. Handlers still run at the same time afterwards."""
    p = world.pipeline()
    await world.db.execute("CREATE TABLE near (place numeric(9, 1) PRIMARY KEY, n int)")

    @p.apply
    async def count(tx: hg.Transaction, obj: hg.Object) -> None:
        await tx.execute(
            "INSERT INTO near (place, n) VALUES ($1, 1)"
            " ON CONFLICT (place) DO UPDATE SET n = near.n + 1",
            1 + int(obj.text()) / 1000,
        )

    path = await world.path(p)
    await world.receive(p, *(change(f"{k}", f"{k}") for k in range(MANY)))
    await at_once(world, path)
    assert await world.rows("SELECT n FROM near ORDER BY place") == [(50,), (10,)]
    assert await world.outcomes() == {"finalized": MANY}
    assert path.settler._habit.may_share


async def test_a_trigger_between_two_tries_sees_every_entry_by_itself(world: World) -> None:
    """What was asked before a rollback is asked again: the lock is gone, too."""
    p = world.pipeline()
    await world.db.execute(TABLES)
    await world.db.execute("""
        CREATE TABLE seen (n int);
        CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO seen SELECT count(*) FROM reading; RETURN NULL; END $$
    """)
    trigger = "CREATE TRIGGER look AFTER INSERT ON reading EXECUTE FUNCTION look()"
    calls = 0

    @p.apply
    async def note(tx: hg.Transaction, obj: hg.Object) -> None:
        nonlocal calls
        calls += 1
        if calls == 32 + 1:  # the first ones were undone
            await world.db.execute(trigger)
        n = obj.json()["n"]
        await tx.execute(READING, f"s{n}", n)
        if n == 31:
            raise hg.Permanent("not this one")

    said = [{"n": n} for n in range(32)]
    await world.receive(p, *(change(f"o{one['n']}", json.dumps(one)) for one in said))
    await at_once(world, await world.path(p))
    assert calls > 32
    assert len(await world.quarantined()) == 1
    assert await world.rows("SELECT n FROM seen ORDER BY n") == [(n + 1,) for n in range(31)]
