"""Handlers share a connection: each is done once, has its own answer and its blame."""

from __future__ import annotations

import asyncio
import random
import time

import pytest
from tests.promises.processes import Place
from tests.world import World, change

import headgate as hg
from headgate.errors import LedgerUnavailable

INSERT = "INSERT INTO effect (name) VALUES ($1)"


async def effect_table(world: World) -> None:
    await world.db.execute("CREATE TABLE effect (n serial, name text CHECK (name <> 'poison'))")


async def ruled_view(world: World) -> None:
    """What is inserted there goes to `effect`, and Postgres cannot say how many rows that were."""
    await world.db.execute("CREATE VIEW ruled AS SELECT name FROM effect")
    await world.db.execute(
        "CREATE RULE through AS ON INSERT TO ruled"
        " DO INSTEAD (INSERT INTO effect (name) VALUES (new.name); NOTIFY somebody)"
    )


async def effects(world: World) -> list[str]:
    return [name for (name,) in await world.rows("SELECT name FROM effect ORDER BY name")]


async def test_each_has_the_status_of_its_own_statement(world: World) -> None:
    """Statements that travel together are answered one by one, as if each had gone alone."""
    p = world.pipeline()
    await world.db.execute("CREATE TABLE item (id text PRIMARY KEY, times int)")
    await world.db.execute("INSERT INTO item SELECT 'o' || n, 0 FROM generate_series(0, 39, 2) n")
    said: dict[str, list[str]] = {}
    at_once = most = 0

    @p.apply(independent=True)
    async def write(tx: hg.Transaction, obj: hg.Object) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        id = obj.text()
        said[id] = [
            await tx.execute("INSERT INTO item VALUES ($1, 0) ON CONFLICT DO NOTHING", id),
            await tx.execute("update item set times = times + 1 where id = $1", id),
            await tx.execute("UPDATE item SET times = times + 1 WHERE id IN ($1, $1 || 'x')", id),
            await tx.execute("DELETE FROM item WHERE id = $1 AND times > 5", id),
        ]
        at_once -= 1

    await world.receive(p, *(change(f"o{n}", f"o{n}") for n in range(40)))
    await world.run(p)
    assert await world.quarantined() == []
    assert most > 1
    for n in range(40):
        first = f"INSERT 0 {n % 2}"
        assert said[f"o{n}"] == [first, "UPDATE 1", "UPDATE 1", "DELETE 0"]
    assert await world.rows("SELECT DISTINCT times FROM item") == [(2,)]


async def settle_in_order(world: World, p: hg.Pipeline, *names: str) -> None:
    """Settle entries of these names in one batch, in this order."""
    await world.receive(p, *(change(name, name) for name in names))
    path = await world.path(p)
    worker = await world.worker()
    claims = {claim.uri: claim for claim in await world.claim(path, worker, len(names))}
    attempts = [path.begin(claims[f"test://{name}"]) for name in names]
    for attempt in attempts:
        path.prepare(attempt)
    await path.settle(attempts)


async def written(world: World) -> list[str]:
    return [name for (name,) in await world.rows("SELECT name FROM effect ORDER BY n")]


@pytest.mark.parametrize("kind", ["one each", "other words", "late ones", "some two", "all two"])
async def test_what_is_not_independent_is_written_in_the_order_of_its_entries(
    world: World, kind: str
) -> None:
    """Postgres gets what it would get if they had taken turns, whoever asks when and how often."""
    p = world.pipeline()
    await effect_table(world)
    at_once = ended = most = 0

    @p.apply
    async def write(tx: hg.Transaction, obj: hg.Object) -> None:
        nonlocal at_once, ended, most
        at_once += 1
        if ended > 70:
            most = max(most, at_once)
        try:
            name = obj.text()
            n = int(name)
            if kind == "late ones" and n % 7 == 3:
                await asyncio.sleep(0.01)
            words = " -- other words" if kind == "other words" and n % 3 == 1 else ""
            assert await tx.execute(INSERT + words, name) == "INSERT 0 1"
            if kind == "all two" or (kind == "some two" and n % 40 == 35):
                assert await tx.execute(INSERT, f"{name} again") == "INSERT 0 1"
            ended += 1
        finally:
            at_once -= 1

    names = [f"{n:03}" for n in range(100)]
    random.Random(3).shuffle(names)
    await settle_in_order(world, p, *names)
    wanted: list[str] = []
    for name in names:
        twice = kind == "all two" or (kind == "some two" and int(name) % 40 == 35)
        wanted += [name, f"{name} again"] if twice else [name]
    assert await written(world) == wanted
    # Who asks once goes on like this; who asks more often was found out, and takes turns.
    assert (most > 1) is ("two" not in kind)


async def test_a_statement_sees_what_the_entries_before_it_wrote(world: World) -> None:
    """Each counts one on from the last, though many are on their way at once."""
    p = world.pipeline()
    await world.db.execute("CREATE TABLE counted (n int PRIMARY KEY, name text)")
    sql = "INSERT INTO counted SELECT coalesce(max(n), 0) + 1, $1 FROM counted"

    @p.apply
    async def count(tx: hg.Transaction, obj: hg.Object) -> None:
        await tx.execute(sql, obj.text())

    names = [f"{n:03}" for n in range(100)]
    await settle_in_order(world, p, *names)
    assert await world.rows("SELECT n, name FROM counted ORDER BY n") == [
        (n, name) for n, name in enumerate(names, 1)
    ]


@pytest.mark.parametrize("independent", [True, False])
async def test_nobody_pays_for_what_a_neighbour_wrote_and_had_to_take_back(
    world: World, independent: bool
) -> None:
    """The first fails after its row was in the way of the second: that one is done all the same."""
    p = world.pipeline()
    await world.db.execute("CREATE TABLE taken (name text PRIMARY KEY)")

    @p.apply(independent=independent)
    async def take(tx: hg.Transaction, obj: hg.Object) -> None:
        if (
            await tx.execute("INSERT INTO taken VALUES ('it') ON CONFLICT DO NOTHING")
            != "INSERT 0 1"
        ):
            raise hg.Permanent("somebody else has it", reason="taken")
        if obj.text() == "bad":
            raise hg.Permanent("no", reason="said_so")

    await settle_in_order(world, p, "bad", "good")
    assert await world.val("SELECT count(*) FROM taken") == 1
    assert [reason for _, reason, _ in await world.quarantined()] == ["said_so"]


async def test_who_lost_patience_since_its_neighbours_were_slow_is_not_charged(
    world: World,
) -> None:
    """Its time ended while another's statement ran: alone it has time enough."""
    p = world.pipeline(retry=hg.RetryPlan("upstream-event", 1, 60, 0.01, 0.02, "full"))
    await effect_table(world)
    await world.db.execute("INSERT INTO effect (name) VALUES ('a row')")

    @p.apply
    async def impatient(tx: hg.Transaction, obj: hg.Object) -> None:
        if obj.text() == "slow":
            await tx.execute("UPDATE effect SET name = name WHERE pg_sleep(0.5) IS NULL")
            return
        async with asyncio.timeout(0.7):
            await tx.execute("UPDATE effect SET name = name || '!' WHERE pg_sleep(0.4) IS NOT NULL")

    await settle_in_order(world, p, "slow", "quick")
    assert await world.quarantined() == []
    assert await effects(world) == ["a row!"]


async def test_statements_that_cannot_share_are_found_out_once(world: World) -> None:
    """Where Postgres refuses them together and takes each alone, nobody tries it again."""
    p = world.pipeline()
    await effect_table(world)
    await ruled_view(world)
    runs = 0

    @p.apply
    async def insert(tx: hg.Transaction, obj: hg.Object) -> None:
        nonlocal runs
        runs += 1
        await tx.execute("INSERT INTO ruled (name) VALUES ($1)", obj.text())

    names = [f"{n:03}" for n in range(320)]
    await settle_in_order(world, p, *names)
    assert await written(world) == names
    assert runs < 2 * len(names)


async def test_a_handler_may_ask_for_several_things_at_once(world: World) -> None:
    """It waits for all of them, however many of its neighbours do the same."""
    p = world.pipeline()
    await effect_table(world)

    @p.apply(independent=True)
    async def both(tx: hg.Transaction, obj: hg.Object) -> None:
        said = await asyncio.gather(*(tx.execute(INSERT, obj.text()) for _ in range(3)))
        assert said == ["INSERT 0 1"] * 3

    await world.receive(p, *(change(f"o{n}", f"{n:03}") for n in range(200)))
    await world.receive(p, change("x", "poison"))
    await world.run(p)
    assert len(await world.quarantined()) == 1
    await world.receive(p, change("alone", "alone"))
    await world.run(p)
    wanted = [*(f"{n:03}" for n in range(200)), "alone"]
    assert await effects(world) == [name for name in wanted for _ in range(3)]


async def test_what_a_session_remembers_is_its_own_entrys(world: World) -> None:
    """A child gets the number of its parent, not of the last parent of all."""
    p = world.pipeline()
    await world.db.execute("CREATE TABLE parent (id serial, name text)")
    await world.db.execute("CREATE TABLE child (parent int, name text)")

    @p.apply(independent=True)
    async def both(tx: hg.Transaction, obj: hg.Object) -> None:
        await tx.execute("INSERT INTO parent (name) VALUES ($1)", obj.text())
        await tx.execute("INSERT INTO child VALUES (currval('parent_id_seq'), $1)", obj.text())

    await world.receive(p, *(change(f"o{n}", f"{n}") for n in range(60)))
    await world.run(p)
    pairs = "SELECT count(*) FROM parent JOIN child ON parent = id AND parent.name = child.name"
    assert await world.val(pairs) == 60


@pytest.mark.parametrize("kind", ["execute", "later", "executemany"])
async def test_much_at_once_that_waits_for_a_lock_is_stopped_in_time(
    world: World, kind: str
) -> None:
    """Megabytes on their way to a server that does not read on: giving up still works."""
    p = world.pipeline(retry=hg.RetryPlan("upstream-event", 1, 60, 0.01, 0.02, "full"))
    await world.db.execute("CREATE TABLE big (id int PRIMARY KEY, text text)")
    await world.db.execute("INSERT INTO big VALUES (1, '')")
    sql = "INSERT INTO big VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET text = excluded.text"

    @p.apply(independent=True)
    async def write(tx: hg.Transaction, obj: hg.Object) -> None:
        much = "x" * 100_000
        if kind == "execute":
            await tx.execute(sql, much)
        elif kind == "later":
            tx.later(sql, much)
        else:
            await tx.executemany(sql, [(much,)] * 20)

    await world.receive(p, *(change(f"o{n}", "x") for n in range(6)))
    async with world.db.transaction() as link:
        await link.execute("UPDATE big SET text = 'held' WHERE id = 1")
        running = asyncio.create_task(world.run(p, apply_seconds=0.2))
        _, waiting = await asyncio.wait([running], timeout=30)
    assert not waiting
    reasons = {reason for _, reason, _ in await world.quarantined()}
    assert reasons == {"deadline_exceeded"}


@pytest.mark.parametrize("how", ["cleans up", "has no patience", "cancels itself"])
async def test_odd_manners_neither_hang_nor_harm_a_neighbour(world: World, how: str) -> None:
    """Who writes while it is stopped, waits less than its neighbours take, or stops itself."""
    p = world.pipeline(retry=hg.RetryPlan("upstream-event", 1, 60, 0.01, 0.02, "full"))
    await effect_table(world)

    @p.apply(independent=True)
    async def odd(tx: hg.Transaction, obj: hg.Object) -> None:
        if obj.text() == "odd" and how == "cleans up":
            try:
                await asyncio.sleep(0.2)
            finally:
                await tx.execute(INSERT, "odd")
            return
        if obj.text() == "odd" and how == "has no patience":
            async with asyncio.timeout(0.8):
                await tx.execute(INSERT, "odd")
            return
        if obj.text() == "slow" and how == "has no patience":
            await tx.execute("UPDATE effect SET name = name WHERE pg_sleep(1.5) IS NULL")
        await tx.execute(INSERT, obj.text())
        if obj.text() == "slow" and how == "cleans up":
            await tx.fetchval("SELECT 1")
        if obj.text() == "odd" and how == "cancels itself":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    await world.db.execute("INSERT INTO effect (name) VALUES ('a row')")
    await world.receive(p, *(change(f"o{n}", name) for n, name in enumerate(["slow", "odd", "x"])))
    await asyncio.wait_for(world.run(p), 30)
    aside = await world.quarantined()
    if how == "cancels itself":
        assert len(aside) == 1
        assert await effects(world) == ["a row", "slow", "x"]
    else:
        assert aside == []
        assert await effects(world) == ["a row", "odd", "slow", "x"]


@pytest.mark.parametrize("independent", [True, False])
@pytest.mark.parametrize("kind", ["refused", "raises", "raises after", "swallows"])
async def test_one_percent_of_poison_harms_nobody_else(
    world: World, kind: str, independent: bool
) -> None:
    """Each that fails is set aside with its own reason; the others are applied once, uncharged."""
    p = world.pipeline()
    await effect_table(world)

    @p.apply(independent=independent)
    async def insert(tx: hg.Transaction, obj: hg.Object) -> None:
        bad = obj.text() == "poison"
        if bad and kind == "raises":
            raise hg.Permanent("no", reason="said_so")
        try:
            await tx.execute(INSERT, "good" if bad and kind == "raises after" else obj.text())
        except Exception as error:
            assert bad
            if kind == "swallows":
                return
            raise hg.Permanent(str(error), reason="my_own_words") from error
        if bad:
            raise hg.Permanent("no", reason="said_so")
        if independent:
            await tx.execute(INSERT, "twice")
        else:
            tx.later(INSERT, "twice")

    told = [change(f"o{n}", "poison" if n % 100 == 7 else "good") for n in range(600)]
    random.Random(2).shuffle(told)
    await world.receive(p, *told)
    await world.run(p)
    reasons = {reason for _, reason, _ in await world.quarantined()}
    expected = {"refused": "my_own_words", "swallows": "refused_by_database"}
    assert reasons == {expected.get(kind, "said_so")}
    assert await effects(world) == ["good"] * 594 + ["twice"] * 594
    assert (await world.outcomes())["finalized"] == 594
    charged = "SELECT max(attempt) FROM headgate.journal WHERE outcome = 'finalized'"
    assert await world.val(charged) == 1


async def test_who_reads_is_not_disturbed_by_its_neighbours(world: World) -> None:
    """Locks and what a session remembers hold no neighbour off, so readers take turns."""
    p = world.pipeline()
    await world.db.execute("CREATE TABLE made (id serial, name text)")
    await world.db.execute("CREATE TABLE total AS SELECT 0 AS n")
    wrong: list[str] = []

    @p.apply(independent=True)
    async def count(tx: hg.Transaction, obj: hg.Object) -> None:
        await tx.execute("INSERT INTO made (name) VALUES ($1)", obj.text())
        id = await tx.fetchval("SELECT lastval()")
        if await tx.fetchval("SELECT name FROM made WHERE id = $1", id) != obj.text():
            wrong.append(obj.text())
        n = await tx.fetchval("SELECT n FROM total FOR UPDATE")
        await asyncio.sleep(0)
        await tx.execute("UPDATE total SET n = $1", n + 1)

    await world.receive(p, *(change(f"o{n}", f"o{n}") for n in range(120)))
    await world.run(p)
    assert wrong == []
    assert await world.val("SELECT n FROM total") == 120
    assert await world.val("SELECT count(DISTINCT name) FROM made") == 120


@pytest.mark.parametrize(
    "sql",
    [
        "WITH x AS (SELECT $1::text AS name) INSERT INTO effect (name) SELECT name FROM x",
        "INSERT INTO effect (name) VALUES ($1) RETURNING n",
        "INSERT INTO effect (name) VALUES ($1);",
        "INSERT INTO effect (name) VALUES ($1) -- with a word at the end",
        "INSERT INTO ruled (name) VALUES ($1)",
    ],
)
async def test_whatever_the_statement_looks_like_it_is_done_once(world: World, sql: str) -> None:
    """Also where it cannot be told how many rows it changed by putting words around it."""
    p = world.pipeline()
    await effect_table(world)
    await ruled_view(world)

    @p.apply(independent=True)
    async def insert(tx: hg.Transaction, obj: hg.Object) -> None:
        await tx.execute(sql, obj.text())

    await world.receive(p, *(change(f"o{n}", f"{n:02}") for n in range(40)))
    await world.run(p)
    assert await world.quarantined() == []
    assert await effects(world) == [f"{n:02}" for n in range(40)]


@pytest.mark.parametrize("independent", [True, False])
@pytest.mark.parametrize("how", ["in a statement", "elsewhere"])
async def test_who_takes_too_long_is_stopped_and_the_others_are_done(
    world: World, how: str, independent: bool
) -> None:
    """One is late by itself; those that only waited for it are not charged."""
    p = world.pipeline(retry=hg.RetryPlan("upstream-event", 1, 60, 0.01, 0.02, "full"))
    await effect_table(world)

    @p.apply(independent=independent)
    async def slow(tx: hg.Transaction, obj: hg.Object) -> None:
        if obj.text() == "slow" and how == "in a statement":
            await tx.execute("UPDATE effect SET name = 'x' WHERE pg_sleep(30) IS NOT NULL")
        await tx.execute(INSERT, obj.text())
        if obj.text() == "slow":
            await asyncio.sleep(30)

    await world.receive(p, change("x", "slow"), *(change(f"o{n}", "good") for n in range(40)))
    began = time.monotonic()
    await world.db.execute("INSERT INTO effect (name) VALUES ('there before')")
    await world.run(p, apply_seconds=0.7)
    assert time.monotonic() - began < 20
    assert await effects(world) == ["good"] * 40 + ["there before"]
    ((_, reason, _),) = await world.quarantined()
    assert reason == "deadline_exceeded"


async def test_a_lost_connection_costs_no_attempt(world: World) -> None:
    """The server drops us amid them: all is done again, once."""
    p = world.pipeline()
    await effect_table(world)
    cut: list[str] = []

    @p.apply(independent=True)
    async def insert(tx: hg.Transaction, obj: hg.Object) -> None:
        await tx.execute(INSERT, obj.text())
        if obj.text() == "20" and not cut:
            cut.append("now")
            await world.db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()"
                " AND datname = current_database()"
            )
        await tx.execute("UPDATE effect SET name = name WHERE name = $1", obj.text())

    path = await world.path(p)
    await world.receive(p, *(change(f"o{n}", f"{n:02}") for n in range(30)))
    worker = await world.worker()
    attempts = [path.begin(claim) for claim in await world.claim(path, worker, 40)]
    for attempt in attempts:
        path.prepare(attempt)
    with pytest.raises(LedgerUnavailable):
        await path.settle(attempts)
    await path.settle(attempts)
    assert cut
    assert await effects(world) == [f"{n:02}" for n in range(30)]
    assert await world.val("SELECT max(attempt) FROM headgate.journal") == 1


@pytest.mark.parametrize(
    ("meanwhile", "independent"), [(False, True), (True, True), (False, False)]
)
def test_a_handler_that_kills_its_process_is_the_only_one_that_pays(
    place: Place, meanwhile: bool, independent: bool
) -> None:
    """While its neighbours wait for Postgres on the same connection, or a statement of its own."""
    pipeline = place.folder / "load.py"
    head, _, _ = pipeline.read_text().partition("@load.validate")
    pipeline.write_text(
        head
        + f"""
import asyncio

@load.apply(independent={independent})
async def tally(tx, obj, run):
    name = name_of(obj)
    insert = tx.execute("INSERT INTO applied VALUES ($1)", name)
    if not name.startswith("late_kill"):
        await insert
        return
    note("begun", name)
    insert = asyncio.ensure_future(insert)
    await (asyncio.sleep(0) if {meanwhile} else insert)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    good = [f"good-{n:02}" for n in range(60)]
    place.put(*good[:30], "late_kill-1", *good[30:])
    place.run()
    assert place.noted("begun").count("late_kill-1") == 3
    found = place.query("SELECT class, reason, attempts FROM headgate.quarantine")
    assert found == [("exhausted", "worker_lost", 3)]
    assert [name for (name,) in place.query("SELECT name FROM applied ORDER BY name")] == good
    assert set(place.attempts().values()) == {1}
    place.verifies()
