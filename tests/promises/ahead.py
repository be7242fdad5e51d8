"""A worker claims and handles while it settles what came before; it gives back what it holds."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import TypedDict

import pytest
from tests.world import World, change, until

import headgate as hg
from headgate.ledger import object as objects
from headgate.model.signal import BATCH, Signal, listen
from headgate.runtime import lane, station
from headgate.runtime.work import Worker

CHANGES = 600
BATCH_MAX = 50


class Reading(TypedDict):
    name: str


def counted(world: World) -> hg.Pipeline:
    p = world.pipeline()

    @p.rows("reading", key="name", schema=Reading)
    def rows(obj: hg.Object) -> Iterator[Reading]:
        yield {"name": obj.text()}

    return p


async def started(world: World, p: hg.Pipeline) -> Worker:
    await world.receive(p, *(change(f"{n:04d}", f"{n:04d}") for n in range(CHANGES)))
    tuning = replace(world.tuning, batch_max=BATCH_MAX)
    return Worker(world.db, await station.paths(world.db, [p], tuning), tuning, name="ahead")


@pytest.mark.parametrize("after", [3, 5, 8])
async def test_a_worker_that_stops_gives_back_what_it_claimed_ahead(
    world: World, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Uncharged and at once, however far ahead of its commits it was. Another one does the rest."""
    monkeypatch.setattr(lane, "QUICK_SLICE", 1)  # so that it is stopped between two of them
    p = counted(world)
    worker = await started(world, p)
    settled, most = 0, 0

    def hear(signal: Signal, value: float, labels: Mapping[str, str]) -> None:
        nonlocal settled, most
        if signal is BATCH:
            settled, most = settled + 1, max(most, worker.holds)
            if settled == after:
                worker.stop()

    deaf = listen(hear)
    assert await worker.run()
    deaf()
    assert BATCH_MAX < most <= 4 * BATCH_MAX, "it was ahead, and not further than it may be"
    left = await world.rows("SELECT worker, attempts FROM headgate.work")
    assert 0 < len(left) < CHANGES
    assert set(left) == {(None, 0)}
    await world.work(p, workers=1)
    assert await world.count("reading") == CHANGES
    assert await world.count("headgate.publication") == CHANGES


async def test_a_batch_that_waits_for_a_stranger_does_not_hold_up_the_next(world: World) -> None:
    """Somebody holds a row that the first batch writes. Others are settled beside it."""
    p = counted(world)
    worker = await started(world, p)
    async with world.db.connection() as stranger:
        await stranger.execute("BEGIN")
        await stranger.execute("INSERT INTO reading VALUES ('0000', 0, now())")
        working = asyncio.create_task(worker.run())

        async def most_are_done() -> bool:
            return await world.count("headgate.publication") >= CHANGES - 4 * BATCH_MAX

        await until(most_are_done)
        assert not await world.val("SELECT EXISTS (SELECT FROM reading WHERE name = '0000')")
        await stranger.execute("ROLLBACK")
    await world.idle()
    worker.stop()
    assert await working
    assert await world.count("reading") == CHANGES
    assert await world.val("SELECT max(attempt) FROM headgate.journal") == 1


async def test_a_worker_whose_handling_breaks_does_not_go_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of ours is no entry's fault: the worker ends with it, and does not wait for ever."""

    class OursError(Exception):
        pass

    def broken(*_: object) -> None:
        raise OursError

    p = counted(world)
    worker = await started(world, p)
    monkeypatch.setattr(lane.Lane, "_handle_one", broken)
    with pytest.raises(OursError):
        await asyncio.wait_for(worker.run(), 30)
    await world.db.execute("UPDATE headgate.worker SET alive_until = now() - interval '1 second'")
    monkeypatch.undo()
    await world.run(p)
    assert await world.count("reading") == CHANGES


@pytest.mark.parametrize("of_each", [1, 23])
async def test_batches_that_point_to_the_same_bytes_are_not_in_each_others_way(
    world: World, of_each: int
) -> None:
    """Many objects come with the same licence: none of them is handled twice for that."""
    p, called = world.pipeline(), count()

    @p.transform
    def kind(obj: hg.Object) -> dict[str, bytes]:
        next(called)
        n = int(obj.text())
        return {"licence": b"%d" % (n * 7919 % of_each), "station": b"s%d" % (n * 104729 % of_each)}

    await world.receive(p, *(change(f"{n:04d}", f"{n}") for n in range(CHANGES)))
    await asyncio.wait_for(world.run(p, batch_max=30), 60)
    assert next(called) == CHANGES
    assert await world.outcomes() == {"finalized": CHANGES}


async def test_a_deadlock_over_bytes_ends_no_worker(world: World) -> None:
    """Somebody locks objects in another order: Postgres ends one of the two, and it asks again."""
    mine, other = sorted([bytes([1]) * 32, bytes([2]) * 32])
    await world.path(world.pipeline())
    store = await world.val("SELECT min(id) FROM headgate.store")
    await objects.touch(world.db, store, {mine: 1, other: 1})
    lock = "SELECT FROM headgate.object WHERE digest = $1 FOR UPDATE"
    async with world.db.connection() as stranger:
        await stranger.execute("BEGIN; SET LOCAL deadlock_timeout = '1min'")
        await stranger.execute(lock, other)
        touching = asyncio.create_task(objects.touch(world.db, store, {mine: 1, other: 1}))

        async def it_waits() -> bool:
            return await world.val("SELECT count(*) > 0 FROM pg_locks WHERE NOT granted")

        await until(it_waits)
        await stranger.execute(lock, mine)  # a circle: the other one finds out first
        await stranger.execute("ROLLBACK")
    assert (await touching).keys() == {mine, other}


def busy(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def where(world: World, seconds: Mapping[int, float]) -> list[bool]:
    """For each call of the handler, busy for so long: was it on the loop's own thread?"""
    p, here, call = world.pipeline(), list[bool](), count()
    loop_thread = threading.get_ident()

    @p.rows("reading", key="name", schema=Reading)
    def rows(obj: hg.Object) -> Iterator[Reading]:
        busy(seconds.get(next(call), 0.0))
        here.append(threading.get_ident() == loop_thread)
        yield {"name": obj.text()}

    worker = await started(world, p)

    def hear(signal: Signal, value: float, labels: Mapping[str, str]) -> None:
        if signal is BATCH and len(here) == CHANGES:
            worker.stop()

    deaf = listen(hear)
    assert await asyncio.wait_for(worker.run(), 60)
    deaf()
    assert len(here) == CHANGES
    return here


async def test_one_pause_does_not_make_a_quick_handler_a_slow_one(world: World) -> None:
    """The garbage collector stops anybody once. Only who is slow again is moved to threads."""
    here = await where(world, {300: 0.05})
    assert all(here[300:])


async def test_a_handler_that_goes_on_being_slow_is_moved_to_threads(world: World) -> None:
    """The loop is held up by two slices of it at most; then the worker can do other things."""
    slow = 450
    here = await where(world, dict.fromkeys(range(slow, CHANGES), 0.002))
    assert here[slow - 1], "quick handlers are called on the loop's own thread"
    moved = here.index(False, slow)
    assert moved < slow + lane.QUICK_SLICE + lane.TRY_SLICE
    assert not any(here[moved : moved + 20])
