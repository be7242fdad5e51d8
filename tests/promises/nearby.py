"""A lone change is claimed where it is admitted, if a worker of the same process is idle.

What holds for every claim holds for this one too. The worker of these tests is deaf and asks once
an hour: whatever it does by itself, it was handed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypedDict

import pytest
from tests.promises.wire import wire
from tests.world import World, change, until

import headgate as hg
from headgate.errors import LedgerUnavailable
from headgate.ledger import inbox
from headgate.ledger.gate import Claim
from headgate.pg import Database
from headgate.runtime import station
from headgate.runtime.work import Worker

AN_HOUR = 3600.0
HELD = "SELECT count(*) FROM headgate.work WHERE worker IS NOT NULL"
UNTOUCHED = "SELECT count(*) FROM headgate.work WHERE worker IS NULL AND attempts = 0"


class Reading(TypedDict):
    name: str


def rows(world: World, **declared: Any) -> hg.Pipeline:
    p = world.pipeline(**declared)

    @p.rows("reading", key="name", schema=Reading)
    def readings(obj: hg.Object) -> Iterator[Reading]:
        yield {"name": obj.text()}

    return p


def slow(world: World) -> tuple[hg.Pipeline, asyncio.Event]:
    """A pipeline whose handler waits until it is told to go on."""
    p, go = world.pipeline(), asyncio.Event()

    @p.transform
    async def same(obj: hg.Object) -> dict[str, bytes]:
        await go.wait()
        return {"same": obj.read()}

    return p, go


@asynccontextmanager
async def working(
    db: Database, world: World, p: hg.Pipeline, *, deaf: bool = True
) -> AsyncGenerator[Worker]:
    """A worker beside the test, with nothing to do, whose database is `db`."""
    tuning = replace(world.tuning, poll_seconds=AN_HOUR)
    worker = Worker(db, await station.paths(db, [p], tuning), tuning, name="near")
    working = asyncio.create_task(worker.run())

    async def listens() -> bool:
        return await is_idle(worker) and worker._bell.hears

    try:
        await until(listens, seconds=30)
        await asyncio.sleep(0.05)  # its first look, after the bell was heard
        await until(lambda: is_idle(worker))
        if deaf:
            worker._ring = lambda _: None  # type: ignore[method-assign]
            worker._bell._ring = worker._ring
        yield worker
    finally:
        worker.stop()
        assert await working


async def is_idle(worker: Worker) -> bool:
    return worker.is_idle and worker._lanes[0].drained


async def is_done(world: World, n: int) -> bool:
    return await world.count("headgate.journal WHERE outcome = 'finalized'") >= n


async def test_a_lone_change_is_handed_to_an_idle_worker(world: World) -> None:
    """Nobody rings and nobody asks: it is done all the same, once, and it is counted."""
    p = rows(world)
    async with working(world.db, world, p) as worker:
        for n in range(1, 4):
            await until(lambda: is_idle(worker))
            receipt = await world.receive(p, change(f"{n}", f"{n}"))
            assert (receipt.received, receipt.admitted, receipt.duplicates) == (1, 1, 0)
            await until(lambda n=n: is_done(world, n))
    assert await world.count("reading") == 3
    assert await world.outcomes() == {"finalized": 3}
    assert await world.attempts(1) == ["claimed fetched validated staged promoted finalized"]
    assert (await world.tally())["admitted"] == 3


async def test_a_duplicate_of_a_lone_change_is_counted(world: World) -> None:
    """Told again, and by several at once: one effect, and the books say how often it came."""
    p = rows(world)
    one, other = change("a", "a"), change("b", "b")
    async with working(world.db, world, p, deaf=False):
        assert (await world.receive(p, one)).admitted == 1
        assert (await world.receive(p, one)).duplicates == 1
        told = await asyncio.gather(*(world.receive(p, other) for _ in range(8)))
        assert sum(receipt.admitted for receipt in told) == 1
        await world.idle()
    assert await world.count("reading") == 2
    assert await world.outcomes() == {"finalized": 2}
    assert await world.tally() == {"received": 10, "admitted": 2, "duplicate": 8, "conflict": 0}


async def test_a_new_version_follows_the_one_before(world: World) -> None:
    """It replaces the rows of its predecessor, and what says the same again changes nothing."""
    p = rows(world)
    async with working(world.db, world, p) as worker:
        for n, data in enumerate(("old", "new"), 1):
            await until(lambda: is_idle(worker))
            await world.receive(p, change("a", data, minute=n))
            await until(lambda n=n: is_done(world, n))
        await until(lambda: is_idle(worker))
        await world.receive(p, change("a", "new", minute=3))
        await until(lambda: _outcome(world, "skipped:unchanged"))
    assert await world.table("reading", "name") == [("new",)]
    assert (await world.heads())["a"][0] == 2


async def _outcome(world: World, named: str) -> bool:
    return named in await world.outcomes()


async def test_a_busy_subject_is_waited_for(world: World) -> None:
    """While one change of an object runs, the next is admitted, and runs after it."""
    p, go = slow(world)
    async with working(world.db, world, p, deaf=False):
        await world.receive(p, change("a", "1", minute=1))
        await world.receive(p, change("a", "2", minute=2))
        assert await world.val(HELD) == 1
        go.set()
        await until(lambda: is_done(world, 2))
    assert (await world.heads())["a"][0] == 2


async def test_a_change_behind_a_waiting_one_is_left_to_the_gate(world: World) -> None:
    """Something of its object waits for its retry: who goes first is decided as always."""
    p = world.pipeline(retry=hg.RetryPlan("upstream-event", 3, 7200, 3600, 3600, "full"))

    @p.transform
    def picky(obj: hg.Object) -> dict[str, bytes]:
        if obj.text() == "bad":
            raise hg.Retryable("not yet")
        return {"same": obj.read()}

    async with working(world.db, world, p, deaf=False):
        await world.receive(p, change("a", "bad", minute=1))
        await until(lambda: _outcome(world, "waiting:retryable"))
        await world.receive(p, change("a", "good", minute=2))
        await until(lambda: is_done(world, 1))


async def test_a_subject_that_somebody_else_works_on_is_waited_for(world: World) -> None:
    """A worker elsewhere holds a change of it: the next one is admitted, and nothing more."""
    p = rows(world)
    async with working(world.db, world, p):
        path, elsewhere = await world.path(p), await world.worker()
        async with await Database.open(world.url) as far:
            await world.receive(p, change("a", "1", minute=1), db=far)
        held = await world.claim(path, elsewhere)
        assert (await world.receive(p, change("a", "2", minute=2))).admitted == 1
        assert await world.val(UNTOUCHED) == 1
        await world.finish(path, held)
    await world.work(p)
    assert await world.table("reading", "name") == [("2",)]
    assert (await world.heads())["a"][0] == 2


async def test_a_worker_without_a_lease_is_given_nothing(world: World) -> None:
    """It was buried meanwhile. The change is admitted; the worker comes back and does it."""
    p = rows(world)
    async with working(world.db, world, p) as worker:
        before = worker.id
        await world.db.execute(
            "UPDATE headgate.worker SET buried_at = clock_timestamp(), buried_why = 'test'"
        )
        assert (await world.receive(p, change("a", "a"))).admitted == 1
        assert await world.val(UNTOUCHED) == 1
        worker._wake.set()
        await until(lambda: is_done(world, 1))
        assert worker.id != before
    assert await world.outcomes() == {"finalized": 1}


@pytest.mark.parametrize("limit", ["coalesce_seconds", "per_partition"])
async def test_limits_are_kept_for_lone_changes_too(world: World, limit: str) -> None:
    """Whoever declared the pipeline last may have set one, and this receiver may not know of it."""
    p = rows(world)
    async with working(world.db, world, p):
        at = await world.register(p)
        await world.db.execute(f"UPDATE headgate.pipeline SET {limit} = 60")
        await inbox.receive(world.db, at, "test", [change("a", "a")])
        assert await world.val(UNTOUCHED) == 1
    await world.work(p)
    assert await world.outcomes() == {"finalized": 1}


async def test_an_admission_that_is_not_handed_over_rings(world: World) -> None:
    """Whoever listens is told, as of any other."""
    p = rows(world)
    async with working(world.db, world, p, deaf=False):
        at = await world.register(p)
        await world.db.execute("UPDATE headgate.pipeline SET coalesce_seconds = 60")
        await inbox.receive(world.db, at, "test", [change("a", "a")])
        await until(lambda: is_done(world, 1))


async def test_a_receipt_does_not_wait_for_the_handler(world: World) -> None:
    """Who tells is answered when the change is safe, however long it is worked on."""
    p, go = slow(world)
    async with working(world.db, world, p):
        receipt = await asyncio.wait_for(world.receive(p, change("a", "a")), 10)
        assert receipt.admitted == 1
        assert await world.val(HELD) == 1, "it is being worked on"
        go.set()
        await until(lambda: is_done(world, 1))


async def test_nobody_has_a_receipt_for_what_the_ledger_lost(world: World) -> None:
    """A server that crashes before its disk has the change comes up without it. So says the answer,
    and telling again admits it.
    """
    p, go = slow(world)
    told = change("a", "a")
    async with working(world.db, world, p):
        telling = asyncio.create_task(world.receive(p, told))
        async with world.db.connection() as link:  # as if it had never been there
            gone = 0
            while not gone:
                deleted = await link.fetch("DELETE FROM headgate.entry RETURNING id")
                gone = len(deleted)
                await asyncio.sleep(0)
            await link.execute("TRUNCATE headgate.work, headgate.tally")
        with pytest.raises(LedgerUnavailable, match="was not admitted"):
            await telling
        go.set()
        await until(lambda: _outcome(world, "fenced:fenced"))
        await world.db.execute("TRUNCATE headgate.journal, headgate.commit")
        assert (await world.receive(p, told)).admitted == 1
        await until(lambda: is_done(world, 1))


async def test_a_lost_answer_leaves_nothing_stuck(world: World) -> None:
    """The change is admitted and claimed, and nobody was told: it is given back, uncharged, while
    the lease goes on. Telling again finds that it is known.
    """
    p = rows(world)
    told = change("a", "a")
    with wire(world.url) as between:
        async with await Database.open(between.url) as db, working(db, world, p, deaf=False):
            at = await station.register(db, p)
            between.lose = b"receive_claimed("
            with pytest.raises(LedgerUnavailable):
                await inbox.receive(db, at, "test", [told])
            assert between.lost == 1
            receipt = await inbox.receive(db, at, "test", [told])
            assert (receipt.admitted, receipt.duplicates) == (0, 1)
            await until(lambda: is_done(world, 1), seconds=30)
    assert (await world.outcomes()).keys() == {"received:claim_unknown", "finalized"}
    assert await world.val("SELECT max(attempt) FROM headgate.journal") == 1


async def test_who_gives_up_after_the_answer_leaves_it_in_good_hands(world: World) -> None:
    """It was admitted and claimed when the task that told it was cancelled: it is worked on."""
    p = rows(world)
    async with working(world.db, world, p) as worker:
        (lane,) = worker._lanes
        at = await world.register(p)
        telling = asyncio.create_task(inbox.receive(world.db, at, "test", [change("a", "a")]))

        def take(claim: Claim) -> asyncio.Future[bool]:
            telling.cancel()
            return lane.take(claim)

        worker._nearby[0][1].take = take
        with pytest.raises(asyncio.CancelledError):
            await telling
        await until(lambda: is_done(world, 1))
    assert await world.outcomes() == {"finalized": 1}


async def test_a_change_that_comes_while_its_worker_ends_is_left_to_others(world: World) -> None:
    """The worker had stopped before the answer was there: what it held is given back, uncharged."""
    p = rows(world)
    async with working(world.db, world, p) as worker:
        (lane,) = worker._lanes
        take = lane.take

        def late(claim: Claim) -> asyncio.Future[bool]:
            lane.close()
            worker.stop()
            return take(claim)

        worker._nearby[0][1].take = late
        assert (await world.receive(p, change("a", "a"))).admitted == 1
    assert await world.rows("SELECT worker, attempts FROM headgate.work") == [(None, 0)]
    await world.work(p)
    assert (await world.outcomes())["finalized"] == 1


async def test_who_gives_up_before_the_answer_stays_for_it(world: World) -> None:
    """A claim on its way to its commit can be called off by nobody: it is waited for, and done."""
    p = rows(world)
    async with working(world.db, world, p):
        at = await world.register(p)
        async with world.db.transaction() as link:
            await link.execute("SELECT pg_advisory_xact_lock(1751606887, $1)", at.pipeline)
            telling = asyncio.create_task(inbox.receive(world.db, at, "test", [change("a", "a")]))
            await until(lambda: _waits_for_a_lock(world))
            telling.cancel()
            await asyncio.sleep(0.1)
            assert not telling.done()
        with pytest.raises(asyncio.CancelledError):
            await telling
        await until(lambda: is_done(world, 1))
    assert await world.outcomes() == {"finalized": 1}


async def _waits_for_a_lock(world: World) -> bool:
    return await world.val("SELECT count(*) FROM pg_locks WHERE NOT granted") > 0


async def test_nothing_is_handed_over_while_a_claim_is_under_way(world: World) -> None:
    """It may bring what has to run alone."""
    p = rows(world)
    async with working(world.db, world, p) as worker:
        ((_, idle),) = worker._nearby
        at = await world.register(p)
        async with world.db.transaction() as link:
            await link.execute("SELECT pg_advisory_xact_lock(1751606887, $1)", at.pipeline)
            worker._wake.set()
            await until(lambda: _waits_for_a_lock(world))
            assert idle.reserve() is None
