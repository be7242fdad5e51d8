"""Free SQL: it is committed with its entry, once, and reaches nothing beyond it."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from typing import Any, TypedDict

import pytest
from tests.world import World, change, until

import headgate as hg
from headgate.errors import LedgerUnavailable

INSERT = "INSERT INTO effect (name) VALUES ($1)"


class Row(TypedDict):
    id: str


async def effects(world: World) -> list[str]:
    return [name for (name,) in await world.rows("SELECT name FROM effect ORDER BY n")]


async def effect_table(world: World) -> None:
    await world.db.execute("CREATE TABLE effect (n serial, name text)")


async def test_plain_and_async_handlers_do_the_same(world: World) -> None:
    """Both kinds of handler have every statement of the transaction, and both are exactly once."""
    p = world.pipeline()
    await effect_table(world)

    @p.apply
    def plain(tx: hg.BlockingTransaction, obj: hg.Object, run: hg.Run) -> None:
        assert tx.execute("INSERT INTO effect (name) VALUES ('no arguments')") == "INSERT 0 1"
        tx.executemany(INSERT, [("many 1",), ("many 2",)])
        assert tx.fetchval("SELECT count(*) FROM effect") == 3
        assert [r["name"] for r in tx.fetch("SELECT name FROM effect WHERE name LIKE $1", "m%")]
        assert tx.fetchrow("SELECT name FROM effect WHERE name = $1", "nobody") is None
        tx.later(INSERT, "later")

    @p.apply
    async def awaited(tx: hg.Transaction, obj: hg.Object) -> None:
        assert await tx.execute(INSERT, obj.text()) == "INSERT 0 1"
        await tx.executemany(INSERT, [("many 3",)])
        assert await tx.fetchval("SELECT count(*) FROM effect") == 5
        assert len(await tx.fetch("SELECT name FROM effect")) == 5
        assert await tx.fetchrow("SELECT name FROM effect WHERE name = 'many 3'")
        tx.later(INSERT, "later too")

    await world.receive(p, change("a", "text"))
    await world.run(p)
    assert await world.quarantined() == []
    wanted = ["no arguments", "many 1", "many 2", "text", "many 3", "later", "later too"]
    assert await effects(world) == wanted


@pytest.mark.parametrize("kind", ["plain", "async", "later"])
async def test_one_percent_of_poison_costs_its_chunk_and_not_the_batch(
    world: World, kind: str
) -> None:
    """20 of 2,000 entries fail: each is quarantined with its reason, 1,980 are applied once."""
    p = world.pipeline()
    await effect_table(world)
    await world.db.execute("ALTER TABLE effect ADD CHECK (name <> 'poison')")
    calls: dict[int, int] = {}

    def count(run: hg.Run) -> None:
        calls[run.entry] = calls.get(run.entry, 0) + 1

    if kind == "plain":

        @p.apply
        def plain(tx: hg.BlockingTransaction, obj: hg.Object, run: hg.Run) -> None:
            count(run)
            tx.later(INSERT, "good")
            if obj.text() == "poison":
                raise hg.Permanent("this one is poison", reason="poison")

    elif kind == "async":

        @p.apply
        async def awaited(tx: hg.Transaction, obj: hg.Object, run: hg.Run) -> None:
            count(run)
            if obj.text() == "poison":
                raise hg.Permanent("this one is poison", reason="poison")
            await tx.execute(INSERT, obj.text())

    else:

        @p.apply
        async def later(tx: hg.Transaction, obj: hg.Object, run: hg.Run) -> None:
            count(run)
            tx.later(INSERT, obj.text())

    told = [change(f"o{n}", "poison" if n % 100 == 7 else "good") for n in range(2000)]
    random.Random(2).shuffle(told)
    await world.receive(p, *told)
    await world.run(p)
    aside = await world.quarantined()
    assert len(aside) == 20
    assert {reason for _, reason, _ in aside} <= {"poison", "refused_by_database"}
    assert await effects(world) == ["good"] * 1980
    assert (await world.outcomes())["finalized"] == 1980
    good = "SELECT max(attempt) FROM headgate.journal WHERE outcome = 'finalized'"
    assert await world.val(good) == 1
    if kind != "later":  # it failed before anything was sent, so nobody had to run again
        assert set(calls.values()) == {1}
    # A rerun of whole batches would call each handler about twenty times.
    assert sum(calls.values()) < 2000 * 3


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_failed_statement_fails_its_entry_even_if_it_is_swallowed(
    world: World, kind: str
) -> None:
    """The handler catches the error and goes on: its entry fails, its neighbours do not."""
    p = world.pipeline()
    await effect_table(world)

    if kind == "plain":

        @p.apply
        def plain(tx: hg.BlockingTransaction, obj: hg.Object) -> None:
            try:
                if obj.text() == "bad":
                    tx.execute("INSERT INTO nowhere VALUES (1)")
                tx.execute(INSERT, obj.text())
            except Exception:
                pass

    else:

        @p.apply
        async def awaited(tx: hg.Transaction, obj: hg.Object) -> None:
            try:
                if obj.text() == "bad":
                    await tx.execute("INSERT INTO nowhere VALUES (1)")
                await tx.execute(INSERT, obj.text())
            except Exception:
                pass

    await world.receive(p, *(change(f"o{n}", "good") for n in range(20)), change("x", "bad"))
    await world.run(p)
    assert await effects(world) == ["good"] * 20
    ((_, reason, error),) = await world.quarantined()
    assert reason == "UndefinedTableError"
    assert "nowhere" in error


SMUGGLED = [
    "COMMIT",
    "  commit",
    "-- hello\nCOMMIT",
    "-- hello\rCOMMIT",
    "/* hello */ COMMIT",
    "/* a /* nested */ COMMENT */ COMMIT",
    "/* /* */ SELECT */ COMMIT",
    ";COMMIT",
    "; ; ROLLBACK",
    "ROLLBACK TO headgate_chunk",
    "SAVEPOINT mine",
    "RELEASE headgate_chunk",
    "END",
    "ABORT",
    "PREPARE TRANSACTION 'x'",
    "SET statement_timeout = 0",
    "SET LOCAL synchronous_commit = off",
    "RESET ALL",
    "SELECT set_config('statement_timeout', '0', false)",
    "SELECT \"set_config\"('statement_timeout', '0', false)",
    "SELECT set_config/**/('statement_timeout', '0', false)",
    "SELECT pg_advisory_lock(1)",
    "LISTEN news",
    "DISCARD ALL",
    "SELECT 1; COMMIT",
    "INSERT INTO effect (name) VALUES ('x'); COMMIT; BEGIN",
    "DO $$ BEGIN COMMIT; END $$",
]


@pytest.mark.parametrize("how", ["execute", "fetch", "executemany", "later"])
async def test_transaction_control_cannot_be_smuggled_in(world: World, how: str) -> None:
    """Nothing a handler writes ends, splits or reconfigures the transaction it shares."""
    p = world.pipeline()
    await effect_table(world)

    @p.apply
    async def smuggle(tx: hg.Transaction, obj: hg.Object) -> None:
        await tx.execute(INSERT, "leaked")
        sql = obj.text()
        match how:
            case "execute":
                await tx.execute(sql)
            case "fetch":
                await tx.fetch(sql)
            case "executemany":
                await tx.executemany(sql, [()])
            case _:
                tx.later(sql)

    @p.apply
    async def fail(tx: hg.Transaction, obj: hg.Object) -> None:
        """If something slipped through, what came before it is committed by now."""
        raise hg.Permanent("nothing of this may stay", reason="slipped_through")

    await world.receive(p, *(change(f"o{n}", sql) for n, sql in enumerate(SMUGGLED)))
    await world.run(p)
    assert await effects(world) == []
    found = dict(
        await world.rows(
            "SELECT convert_from(e.data, 'UTF8'), q.reason FROM headgate.quarantine q"
            " JOIN headgate.entry e ON e.id = q.entry"
        )
    )
    assert found.keys() == set(SMUGGLED)
    if how != "later":  # what is deferred is only looked at, not run, before the other fails
        assert [sql for sql, reason in found.items() if reason == "slipped_through"] == []


async def test_an_honest_statement_is_not_mistaken_for_a_smuggler(world: World) -> None:
    """Comments, CTEs, parentheses and words inside of texts are ordinary SQL."""
    p = world.pipeline()
    await effect_table(world)
    honest = [
        "/* commit */ INSERT INTO effect (name) VALUES ('COMMIT; ROLLBACK')",
        "-- set\n WITH x AS (SELECT 'b' AS name) INSERT INTO effect (name) SELECT name FROM x",
        "(SELECT 1)",
        "INSERT INTO effect (name) VALUES ('c');",
        "UPDATE effect SET name = 'd' WHERE name = 'c'",
        "MERGE INTO effect USING (VALUES ('e')) AS v(name) ON false"
        " WHEN NOT MATCHED THEN INSERT (name) VALUES (v.name)",
    ]

    @p.apply
    async def several(tx: hg.Transaction, obj: hg.Object) -> None:
        for sql in honest:
            await tx.execute(sql)

    await world.receive(p, change("a", "x"))
    await world.run(p)
    assert await world.quarantined() == []
    assert await effects(world) == ["COMMIT; ROLLBACK", "b", "d", "e"]


async def test_deferred_statements_keep_their_order_and_their_blame(world: World) -> None:
    """`tx.later` runs in the order it was said; one that fails is its own entry's failure."""
    p = world.pipeline()
    await effect_table(world)
    await world.db.execute("CREATE TABLE counter (id int PRIMARY KEY, n int)")

    @p.apply
    async def later(tx: hg.Transaction, obj: hg.Object) -> None:
        tx.later(
            "INSERT INTO counter VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = counter.n + 1"
        )
        tx.later("UPDATE counter SET n = n * $1 WHERE id = 1", 1)
        tx.later("UPDATE counter SET n = n / $1 WHERE id = 1", int(obj.text()))

    await world.receive(p, *(change(f"o{n}", "0" if n == 50 else "1") for n in range(100)))
    await world.run(p)
    assert await world.rows("SELECT n FROM counter") == [(99,)]
    ((_, reason, _),) = await world.quarantined()
    assert reason == "refused_by_database"
    assert (
        await world.val(
            "SELECT convert_from(data, 'UTF8') FROM headgate.entry e"
            " JOIN headgate.quarantine q ON q.entry = e.id"
        )
        == "0"
    )


async def test_a_deferred_argument_of_the_wrong_type_is_its_own_entrys_failure(
    world: World,
) -> None:
    """An argument that the driver cannot encode fails one entry, not its neighbours."""
    p = world.pipeline()
    await effect_table(world)

    @p.apply
    def later(tx: hg.BlockingTransaction, obj: hg.Object) -> None:
        tx.later(INSERT, 7 if obj.text() == "bad" else "good")

    await world.receive(p, *(change(f"o{n}", "good") for n in range(40)), change("x", "bad"))
    await world.run(p)
    assert await effects(world) == ["good"] * 40
    assert len(await world.quarantined()) == 1


@pytest.mark.parametrize("kind", ["async", "plain", "plain in a statement"])
async def test_a_handler_that_takes_too_long_is_stopped_and_leaves_nothing(
    world: World, kind: str
) -> None:
    """The time limit ends it; what it would still do afterwards reaches no transaction."""
    p = world.pipeline(retry=hg.RetryPlan("upstream-event", 1, 60, 0.01, 0.02, "full"))
    await effect_table(world)
    woke = threading.Event()

    if kind == "async":

        @p.apply
        async def awaited(tx: hg.Transaction, obj: hg.Object) -> None:
            await tx.execute(INSERT, obj.text())
            if obj.text() == "slow":
                await asyncio.sleep(30)

    else:

        @p.apply
        def plain(tx: hg.BlockingTransaction, obj: hg.Object) -> None:
            tx.execute(INSERT, obj.text())
            if obj.text() != "slow":
                # Long enough for the other one to wake up while its neighbours run again.
                time.sleep(0.02)
                return
            try:
                if kind == "plain":
                    time.sleep(0.5)
                else:
                    tx.execute("SELECT pg_sleep(30)")
                tx.execute(INSERT, "from the grave")
            finally:
                woke.set()

    await world.receive(p, *(change(f"o{n}", "good") for n in range(40)), change("x", "slow"))
    began = time.monotonic()
    await world.run(p, apply_seconds=0.3)
    assert time.monotonic() - began < 20
    if kind != "async":
        assert await asyncio.to_thread(woke.wait, 10)
    assert await effects(world) == ["good"] * 40
    ((_, reason, _),) = await world.quarantined()
    assert reason == "deadline_exceeded"


async def test_a_call_to_the_outside_is_refused_inside_apply(world: World) -> None:
    """Apply may run several times per attempt: run.call is not for it, and the hint says where."""
    p = world.pipeline()
    called: list[str] = []

    @p.apply
    async def outside(tx: hg.Transaction, obj: hg.Object, run: hg.Run) -> None:
        await run.call("charge", lambda: called.append("charged"))

    await world.receive(p, change("a", "x"))
    await world.run(p)
    ((classed, reason, error),) = await world.quarantined()
    assert (classed, reason, called) == ("permanent", "effect_refused", [])
    assert "charge" in error


async def test_a_deadlock_costs_no_attempt(world: World) -> None:
    """Handlers that lock each other out run again until they get through, uncharged."""
    p = world.pipeline()
    await world.db.execute("CREATE TABLE account (id int PRIMARY KEY, n int)")
    await world.db.execute("INSERT INTO account SELECT i, 0 FROM generate_series(1, 2) AS i")
    await world.db.execute(
        "ALTER DATABASE "
        + await world.val("SELECT current_database()")
        + " SET deadlock_timeout = '20ms'"
    )

    @p.apply(independent=True)  # which is not true, and still correct
    async def transfer(tx: hg.Transaction, obj: hg.Object) -> None:
        first, second = obj.text().split()
        await tx.execute("UPDATE account SET n = n + 1 WHERE id = $1", int(first))
        await asyncio.sleep(0.002)
        await tx.execute("UPDATE account SET n = n + 1 WHERE id = $1", int(second))

    told = [change(f"o{n}", "1 2" if n % 2 else "2 1") for n in range(60)]
    await world.receive(p, *told)
    await world.close()
    await world.open()
    await world.work(p, workers=2, batch_max=3)
    assert await world.rows("SELECT n FROM account") == [(60,), (60,)]
    assert await world.outcomes() == {"finalized": 60}
    assert await world.val("SELECT max(attempt) FROM headgate.journal") == 1

    async def deadlocked() -> bool:
        return await world.val(
            "SELECT deadlocks > 0 FROM pg_stat_database WHERE datname = current_database()"
        )

    await until(deadlocked)


async def test_one_committer_at_a_time_unless_independent(world: World) -> None:
    """Handlers that add up what is there see each other's work, from however many workers."""
    p = world.pipeline()
    await world.db.execute("CREATE TABLE total (n int)")
    await world.db.execute("INSERT INTO total VALUES (0)")

    @p.apply
    async def add(tx: hg.Transaction, obj: hg.Object) -> None:
        n = await tx.fetchval("SELECT n FROM total")
        await tx.execute("UPDATE total SET n = $1", n + 1)

    await world.receive(p, *(change(f"o{n}", "x") for n in range(300)))
    await world.work(p, workers=4, batch_max=10)
    assert await world.rows("SELECT n FROM total") == [(300,)]
    assert await world.outcomes() == {"finalized": 300}


async def test_independent_handlers_commit_side_by_side(world: World) -> None:
    """independent=True: two entries are inside their transactions at the same moment."""
    p = world.pipeline()
    await effect_table(world)
    inside, most = 0, 0

    @p.apply(independent=True)
    async def slowly(tx: hg.Transaction, obj: hg.Object) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await tx.execute(INSERT, obj.text())
        await asyncio.sleep(0.05)
        inside -= 1

    await world.receive(p, *(change(f"o{n}", "x") for n in range(40)))
    await world.work(p, workers=1, batch_max=4)
    assert most > 1
    assert await effects(world) == ["x"] * 40


async def test_rows_and_free_sql_are_one(world: World) -> None:
    """Rows are there when apply looks, and are gone when apply fails."""
    p = world.pipeline()

    @p.rows("item", key="id", schema=Row)
    def item(obj: hg.Object) -> Any:
        return [{"id": obj.text()}]

    @p.apply
    async def look(tx: hg.Transaction, obj: hg.Object) -> None:
        assert await tx.fetchval("SELECT count(*) FROM item WHERE id = $1", obj.text()) == 1
        if obj.text() == "bad":
            raise hg.Permanent("after all, no")

    await world.receive(p, *(change(f"o{n}", f"{n}") for n in range(70)), change("x", "bad"))
    await world.run(p)
    assert await world.count("item") == 70
    assert len(await world.quarantined()) == 1


async def test_a_removal_that_free_sql_cannot_follow_is_said_and_not_tried(world: World) -> None:
    """removed="remove" with apply: nobody can take free SQL back, so a person decides."""
    p = world.pipeline(removed="remove")
    await effect_table(world)

    @p.apply
    async def insert(tx: hg.Transaction, obj: hg.Object) -> None:
        await tx.execute(INSERT, obj.text())

    await world.receive(p, change("a", "x"))
    await world.run(p)
    await world.receive(p, change("a", removed=True, minute=1))
    await world.run(p)
    ((classed, reason, error),) = await world.quarantined()
    assert (classed, reason) == ("permanent", "effect_refused")
    assert "test://a" in error
    assert await effects(world) == ["x"]


async def test_a_connection_lost_inside_a_handler_costs_no_attempt(world: World) -> None:
    """The server drops us amid a batch: the rest is done again, once, and nobody is charged."""
    p = world.pipeline()
    await effect_table(world)
    cut: list[str] = []

    @p.apply
    async def insert(tx: hg.Transaction, obj: hg.Object) -> None:
        await tx.execute(INSERT, obj.text())
        if obj.text() == "second" and not cut:
            cut.append("now")
            await tx.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    path = await world.path(p)
    # Two changes of one uri under different subjects: one batch, two transactions.
    await world.receive(p, change("a", "first", subject="one"))
    await world.receive(p, change("a", "second", subject="two", minute=1))
    worker = await world.worker()
    claims = await world.claim(path, worker, 10)
    attempts = [path.begin(claim) for claim in claims]
    for attempt in attempts:
        path.prepare(attempt)
    with pytest.raises(LedgerUnavailable):
        await path.settle(attempts)
    await path.settle(attempts)  # as a worker does, for as long as it takes
    await world.run(p)
    assert (len(claims), await effects(world)) == (2, ["first", "second"])
    ended = await world.outcomes()
    assert ended == {"finalized": 2, "received:raced": 1}
    assert await world.val("SELECT max(attempt) FROM headgate.journal") == 1


async def test_a_deferred_statement_that_waits_for_ever_is_stopped(world: World) -> None:
    """Somebody holds a row for long: who wants that row is retried, and nobody else waits."""
    p = world.pipeline()
    await world.db.execute("CREATE TABLE held (name text PRIMARY KEY, n int)")
    await world.db.execute("INSERT INTO held VALUES ('mine', 0), ('yours', 0)")

    @p.apply
    async def later(tx: hg.Transaction, obj: hg.Object) -> None:
        tx.later("UPDATE held SET n = n + 1 WHERE name = $1", obj.text())

    await world.receive(p, change("a", "mine"), change("b", "yours"))
    async with world.db.transaction() as somebody:
        await somebody.execute("SELECT FROM held WHERE name = 'yours' FOR UPDATE")
        working = asyncio.create_task(world.run(p, apply_seconds=0.3))
        await until(lambda: _is(world, "SELECT n = 1 FROM held WHERE name = 'mine'"), seconds=60)
    await working
    assert await world.rows("SELECT name, n FROM held ORDER BY 1") == [("mine", 1), ("yours", 1)]


async def _is(world: World, question: str) -> bool:
    return await world.val(question)
