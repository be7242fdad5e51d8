"""hg.operation and hg.once: work is done once per key, in any code, with its record."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import pickle
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.world import World, until

import headgate as hg
from headgate.ledger.operation import Held, reset
from headgate.model import signal
from headgate.model.operation import Named
from headgate.operations.turn import Turn
from headgate.runtime.gauges import Gauges


@pytest.fixture(autouse=True)
def shared_database(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations of this test are remembered in its world."""
    monkeypatch.setenv("HEADGATE_DATABASE_URL", world.url)


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

    def load_and_raise() -> None:
        with hg.operation("load", key=1) as op:
            op.tx.execute("INSERT INTO sale VALUES ('mon', 1)")
            op.tx.later("INSERT INTO sale VALUES ('mon', 2)")
            raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            load_and_raise()
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
    assert (
        await world.val("SELECT count(*) FROM headgate.operation_journal WHERE event = 'conflict'")
        == 1
    )


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


# Leaving early


async def test_a_cancelled_block_commits_nothing_and_gives_the_key_back(world: World) -> None:
    """A task that is cancelled in its block leaves no effect, and nobody waits for its lease."""
    await table(world)
    inside = asyncio.Event()

    async def load() -> None:
        async with hg.operation("load", key=1) as op:
            await op.tx.execute("INSERT INTO sale VALUES ('mon', 1)")
            inside.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(load())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with hg.operation("load", key=1, wait_seconds=0) as op:
        assert op.attempt == 2
    assert await world.count("sale") == 0


async def test_a_cancelled_wait_takes_nothing(world: World) -> None:
    """A caller that is cancelled while it waits for another one is as if it never came."""
    async with hg.operation("load", key=1) as op:

        async def other() -> None:
            async with hg.operation("load", key=1):
                raise AssertionError("it must not run")

        task = elsewhere(other())
        await until(lambda: denied(world))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        op.result = 1
    assert await world.rows("SELECT status, attempts FROM headgate.operation") == [("success", 1)]


async def denied(world: World) -> bool:
    sql = "SELECT count(*) FROM headgate.operation_journal WHERE event = 'denied'"
    return await world.val(sql) == 1


async def test_a_generator_that_is_closed_inside_its_block_commits_nothing(world: World) -> None:
    """`close()` on a generator ends the block like an exception does."""
    await table(world)

    def rows() -> Generator[int]:
        with hg.operation("load", key=1) as op:
            op.tx.execute("INSERT INTO sale VALUES ('mon', 1)")
            yield 1

    started = rows()
    next(started)
    started.close()
    assert await world.count("sale") == 0
    assert await world.rows("SELECT status, reason FROM headgate.operation") == [
        ("failure", "GeneratorExit")
    ]


async def test_operations_inside_operations_have_lives_of_their_own(world: World) -> None:
    """The inner one is kept when the outer one fails; one that would wait for itself is refused."""
    await table(world)

    def nested() -> None:
        with hg.operation("outer", key=1) as outer:
            outer.tx.execute("INSERT INTO sale VALUES ('outer', 1)")
            with hg.operation("inner", key=1) as inner:
                inner.tx.execute("INSERT INTO sale VALUES ('inner', 1)")
            with pytest.raises(hg.HeadgateError, match="wait for itself"):
                hg.operation("outer", key=1).__enter__()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        nested()
    assert await world.table("sale", "day") == [("inner",)]


async def test_a_swallowed_sql_error_still_fails_the_operation(world: World) -> None:
    """Postgres has thrown the work away by then: the operation cannot be called done."""
    await table(world)

    def swallow() -> None:
        with hg.operation("load", key=1) as op:
            op.tx.execute("INSERT INTO sale VALUES ('mon', 1)")
            with contextlib.suppress(Exception):
                op.tx.execute("INSERT INTO nowhere VALUES (1)")

    with pytest.raises(Exception, match="nowhere"):
        swallow()
    assert await world.count("sale") == 0
    assert await world.val("SELECT status FROM headgate.operation") == "failure"


async def test_a_failing_neighbour_costs_nobody_else(world: World) -> None:
    """Callers that come together share a commit; only the one whose SQL fails hears of it."""
    await world.db.execute("CREATE TABLE sale (day text, n int CHECK (n <> 7))")

    async def load(n: int) -> Any:
        async with hg.operation("load", key=n) as op:
            op.tx.later("INSERT INTO sale VALUES ('mon', $1)", n)
            op.result = n
        return op.result

    ended = await asyncio.gather(*map(load, range(20)), return_exceptions=True)
    assert [n for n, one in enumerate(ended) if isinstance(one, Exception)] == [7]
    assert await world.count("sale") == 19
    assert await world.rows(
        "SELECT status, count(*) FROM headgate.operation GROUP BY 1 ORDER BY 1"
    ) == [("failure", 1), ("success", 19)]


async def test_transaction_control_and_use_after_the_end_are_refused(world: World) -> None:
    """The transaction is Headgate's: nobody else ends it, and nothing follows it."""
    with pytest.raises(hg.HeadgateError, match="COMMIT"), hg.operation("load", key=1) as op:
        op.tx.execute("COMMIT")
    with hg.operation("load", key=2) as op:
        tx = op.tx
    with pytest.raises(hg.HeadgateError):
        tx.execute("SELECT 1")
    with hg.operation("load", key=2) as op:
        assert op.done
        with pytest.raises(hg.HeadgateError):
            op.tx.execute("SELECT 1")
        with pytest.raises(hg.HeadgateError):
            op.result = 2


# Steps outside Postgres


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_call_is_made_once_and_taken_back_when_the_block_raises(
    world: World, kind: str
) -> None:
    """With an undo it is taken back, the last first, and made again; without one it is memoised."""
    said: list[str] = []

    def make(name: str) -> Any:
        def step(key: str) -> dict[str, Any]:
            said.append(f"{name} {key[:8]}")
            return {"made": name}

        return step

    def undo(name: str) -> Any:
        return lambda key: said.append(f"undo {name} {key[:8]}")

    async def attempt(fails: bool) -> Any:
        if kind == "plain":
            with hg.operation("ship", key=1) as op:
                got = [op.call(n, make(n), undo=u) for n, u in steps]
                if fails:
                    raise ZeroDivisionError
                op.result = got
        else:
            async with hg.operation("ship", key=1) as op:
                got = [await op.call(n, make(n), undo=u) for n, u in steps]
                if fails:
                    raise ZeroDivisionError
                op.result = got
        return op.result

    steps = [("book", undo("book")), ("pack", None), ("send", undo("send"))]
    with pytest.raises(ZeroDivisionError):
        await attempt(fails=True)
    assert [line.split()[0] for line in said] == ["book", "pack", "send", "undo", "undo"]
    assert [line.split()[1] for line in said[3:]] == ["send", "book"]
    assert await world.val("SELECT status FROM headgate.operation") == "partial"
    assert await attempt(fails=False) == [{"made": n} for n, _ in steps]
    made = [line for line in said if not line.startswith("undo")]
    assert [line.split()[0] for line in made] == ["book", "pack", "send", "book", "send"]
    assert len(set(made)) == 3, "the same step has the same key, whenever it is made"


async def test_what_an_attempt_left_is_undone_before_the_next_one_begins(world: World) -> None:
    """An operation that knows how to clear up is asked to, with the calls that were made."""
    said: list[Any] = []

    def clear(left: list[Any]) -> None:
        said.append([(one.name, one.result) for one in left])

    for n in range(3):
        with contextlib.suppress(ZeroDivisionError), hg.operation("x", key=1, undo=clear) as op:
            said.append(op.call("step", lambda n=n: n))
            if n < 2:
                raise ZeroDivisionError
    assert said == [0, [("step", 0)], 1, [("step", 1)], 2]


async def test_conditions_are_checked_before_and_after(world: World) -> None:
    """What an operation requires and ensures is asked; a no commits nothing."""
    await table(world)

    def few(op: Any) -> bool:
        return op.tx.fetchval("SELECT count(*) FROM sale") < 2

    def load(rows: int) -> None:
        with hg.operation("load", key=rows, requires=[lambda: rows > 0], ensures=[few]) as op:
            for n in range(rows):
                op.tx.execute("INSERT INTO sale VALUES ('mon', $1)", n)

    for rows in (0, 2):
        with pytest.raises(hg.Permanent, match="says no"):
            load(rows)
    assert await world.count("sale") == 0
    load(1)
    assert await world.count("sale") == 1


# Who waits for whom


async def test_another_caller_waits_skips_or_escalates(world: World) -> None:
    """By the policy: it waits for the result, leaves at once, or calls for a person."""

    @hg.once("load", key="n", in_progress="skip")
    async def skipping(n: int) -> str:
        return "ran"

    def other(**how: Any) -> asyncio.Task[Any]:
        return elsewhere(hg.operation("load", key={"n": 1}, **how).__aenter__())

    async with hg.operation("load", key={"n": 1}) as op:
        waiting = other()
        with pytest.raises(hg.InProgress) as raised:
            await other(in_progress="skip")
        assert 1 <= raised.value.retry_after_seconds <= 60
        with pytest.raises(hg.InProgress) as raised:
            await other(in_progress="escalate")
        assert raised.value.reason == "escalated"
        with pytest.raises(hg.InProgress):
            await other(wait_seconds=0.01)
        assert await elsewhere(skipping(1)) is None
        op.result = "mine"
    waited = await waiting
    assert waited.done
    assert waited.result == "mine"
    events = await world.rows("SELECT event, count(*) FROM headgate.operation_journal GROUP BY 1")
    assert dict(events) == {"denied": 4, "escalated": 1, "done": 1}


async def test_operations_of_a_dataset_wait_for_each_other_unless_sharded(world: World) -> None:
    """Two days of one dataset are loaded one after the other; with shards or by key, at once."""

    async def overlap(**how: Any) -> bool:
        async with hg.operation("load", key=1, dataset="sales", version=str(how), **how):
            try:
                async with _apart(
                    hg.operation(
                        "load", key=2, dataset="sales", version=str(how), in_progress="skip", **how
                    )
                ):
                    return True
            except hg.InProgress:
                return False

    assert not await overlap()
    assert await overlap(lock="key")
    assert await overlap(shards=64)
    assert not await overlap(sovereign=True)
    with pytest.raises(hg.HeadgateError, match="shards"):
        hg.operation("load", dataset="d", sovereign=True, shards=2)
    assert await world.count("headgate.operation_lock") == 0


@pytest.mark.parametrize("before", ["key", "dataset"])
async def test_an_operation_may_be_locked_otherwise_than_when_it_was_begun(
    world: World, before: str
) -> None:
    """A new release may lock by dataset what the old one locked by key: attempts go on."""
    after = {"key": "dataset", "dataset": "key"}[before]

    def load(lock: Any) -> Any:
        return hg.operation("load", key=1, dataset="sales", lock=lock)

    with pytest.raises(ZeroDivisionError), load(before):
        raise ZeroDivisionError
    with load(after) as op:
        op.result = 1
    assert await world.count("headgate.operation_lock") == 0
    with load(before) as op:
        assert op.result == 1


def elsewhere(coroutine: Any) -> asyncio.Task[Any]:
    """As another caller would: outside of the operation that this code is in."""
    return asyncio.get_running_loop().create_task(coroutine, context=contextvars.Context())


@contextlib.asynccontextmanager
async def _apart(op: Any) -> AsyncGenerator[Any]:
    """Enter it as another caller would: outside of the operation that this code is in."""
    entered = await elsewhere(op.__aenter__())
    try:
        yield entered
    finally:
        await entered.__aexit__(None, None, None)


async def test_a_caller_that_is_passed_over_again_and_again_is_signalled(world: World) -> None:
    """Starvation is seen: who waits while ten others of the dataset are served says so."""
    heard: list[str] = []
    stop = signal.listen(lambda told, _, labels: heard.append(told.name))
    try:
        life = hg.operation("load", key=1, dataset="sales")._life
        turn = Turn(life.name, life.named, life.key, life.manner, life._home, world.db)
        for n in range(12):
            held = Held(None, n.to_bytes(16, "big"), "elsewhere/x/1/1", 0.0)
            turn.retries = 1
            await turn.wait(held)
    finally:
        stop()
    assert heard.count("headgate_operations_starved_total") == 1


async def test_committers_of_one_lock_are_served_fairly(world: World) -> None:
    """Four committers want one lock all the time: they take turns."""
    served: Counter[int] = Counter()
    end = asyncio.get_running_loop().time() + 1.0

    async def committer(n: int) -> None:
        async with world.db.connection() as link:
            while asyncio.get_running_loop().time() < end:
                await link.execute("BEGIN; SELECT headgate.operation_enter(42, 10000)")
                served[n] += 1
                await link.execute("SELECT pg_sleep(0.002); COMMIT")

    await asyncio.gather(*map(committer, range(4)))
    share = sum(served.values()) / 4
    assert min(served.values()) > 0.85 * share, served


# Keys


def test_a_hundred_and_twenty_thousand_keys_do_not_collide() -> None:
    """Keys are 256 bits and never meet; lock keys are 64, and even those do not here."""
    keys, locks = set[bytes](), set[int]()
    for n in range(120_000):
        which = Named("p", f"t{n % 7}", "d", "o", "1", own_hash=n.to_bytes(32, "big"))
        key = which.key()
        keys.add(key)
        locks.add(which.lock(key, "key", 1, False))
    assert len(keys) == len(locks) == 120_000


def test_every_field_makes_another_key(world: World) -> None:
    """All fields of the specification are in the key, and `explain` says which were derived."""
    plain = hg.operation("x", key=1)
    changes: tuple[dict[str, Any], ...] = (
        {"key": 2}, {"pipeline": "p"}, {"task": "t"}, {"dataset": "d"}, {"operation": "o"},
        {"version": "2"}, {"checksum_in": "ab"}, {"params": {"a": 1}}, {"period": "2026"},
    )  # fmt: skip
    for change in changes:
        other = hg.operation("x", **{"key": 1, **change})
        assert plain.key != other.key
        given = set(plain.explain()["derived"]) - set(other.explain()["derived"])
        assert given == set(change) - {"key"}


async def test_a_period_is_frozen_while_the_operation_is_unfinished(world: World) -> None:
    """A retry after midnight has the same key; once done, the next day is another operation."""

    def run(fails: bool, **at: Any) -> str:
        with contextlib.suppress(ZeroDivisionError), hg.operation("x", period="day", **at) as op:
            if fails:
                raise ZeroDivisionError
        return op.explain()["period"]

    today = run(True)
    await world.db.execute(
        "UPDATE headgate.operation SET period = '2001-01-01', key = $1", key_of("2001-01-01")
    )
    assert run(False) == "2001-01-01"
    assert run(False) == today
    assert run(False, at=datetime(2026, 5, 4, 23, tzinfo=UTC)) == "2026-05-04"
    assert await world.val("SELECT count(*) FROM headgate.operation") == 3


def key_of(period: str) -> bytes:
    return bytes.fromhex(hg.operation("x", period=period).key)


# Results


async def test_results_are_json_bytes_or_a_codec_of_your_own(world: World, tmp_path: Path) -> None:
    """The first caller gets what every later one gets; large results go to a store by digest."""
    pickled = hg.Codec("pickle", pickle.dumps, pickle.loads)
    lake = str(tmp_path / "results")
    cases: list[tuple[Any, Any, dict[str, Any]]] = [
        ({"a": (1, 2)}, {"a": [1, 2]}, {}),
        (None, None, {}),
        (b"\0\xff", b"\0\xff", {}),
        ({1, 2}, {1, 2}, {"codec": pickled}),
        ("x" * 500_000, "x" * 500_000, {"store": lake}),
        (b"y" * 500_000, b"y" * 500_000, {"store": lake}),
    ]
    for n, (value, stored, how) in enumerate(cases):
        for _ in range(2):
            with hg.operation("r", key=n, **how) as op:
                if not op.done:
                    op.result = value
            assert op.result == stored
    with pytest.raises(hg.HeadgateError) as raised, hg.operation("r", key="large") as op:
        op.result = "x" * 500_000
    assert raised.value.reason == "result_too_large"
    with (
        pytest.raises(hg.HeadgateError, match="cannot be stored"),
        hg.operation("r", key="s") as op,
    ):
        op.result = {1, 2}


async def test_another_payload_is_a_conflict_or_a_warning(world: World) -> None:
    """The same key with another payload never gets somebody else's result by accident."""
    with hg.operation("pay", key=1, payload={"amount": 5}) as op:
        op.result = 5
    with pytest.raises(hg.Conflict):
        hg.operation("pay", key=1, payload={"amount": 6}).__enter__()
    with hg.operation("pay", key=1, payload={"amount": 6}, conflict="warn") as op:
        assert op.result == 5
    assert (
        await world.val("SELECT count(*) FROM headgate.operation_journal WHERE event = 'conflict'")
        == 2
    )


async def test_long_work_keeps_its_lease(world: World) -> None:
    """The lease is renewed from the background while the block goes on."""
    async with hg.operation("long", key=1, lease_seconds=0.3, dataset="d") as op:

        async def renewed() -> bool:
            return await world.val(
                "SELECT o.lease_until > o.begun_at + interval '0.5 s'"
                " AND l.lease_until = o.lease_until"
                " FROM headgate.operation o JOIN headgate.operation_lock l ON l.operation = o.id"
            )

        await until(renewed)
        op.result = 1
    assert op.result == 1


async def test_a_reset_is_shown_by_whoever_sweeps(world: World) -> None:
    """It may be made in a process that nobody scrapes; it is counted once, by its names."""
    heard: list[tuple[float, dict[str, str]]] = []

    def add(s: signal.Signal, value: float, labels: dict[str, str]) -> None:
        if s is signal.REWRITES:
            heard.append((value, labels))

    def load() -> str:
        with hg.operation("load_sales", key={"day": "1"}, dataset="sales", version="3") as op:
            op.result = 1
        return op.key

    key = await asyncio.to_thread(load)
    gauges = Gauges(world.db)
    stop = signal.listen(add)
    try:
        await gauges.show()
        await reset(world.db, bytes.fromhex(key), actor="me", because="x", forget=False)
        await gauges.show()
        await gauges.show()
    finally:
        stop()
    ((times, labels),) = heard
    assert times == 1
    assert (labels["task"], labels["dataset_id"]) == ("load_sales", "sales")
    assert labels["sovereignty_event"] == "false"
    assert labels.keys() == set(signal.REWRITES.labels)
