"""A schedule in the ledger: each period once, one after the other, whoever watches the clock."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

from tests.sources.clock import Clock
from tests.world import World, until

import headgate as hg
from headgate.ledger import mark
from headgate.runtime.follow import Follower


def hourly(clock: Clock, **declared: Any) -> hg.Schedule:
    return hg.Schedule("0 * * * *", now=clock.now, sleep=clock.sleep, **declared)


async def test_each_period_has_one_effect(world: World):
    """The handler gets the period as an object; a second run has nothing to do."""
    clock = Clock("2026-01-05T05:30:00")
    p = world.pipeline(sources=[hourly(clock)])
    seen: list[tuple[str, str, datetime]] = []

    @p.validate
    def look(obj: hg.Object) -> None:
        period = obj.json()
        seen.append((period["start"], period["end"], obj.event_time))

    await world.run(p)
    assert await world.count("headgate.entry") == 0, "a first start has no past"
    clock.pass_by(hours=2)
    await world.run(p)
    await world.run(p)
    six, seven = datetime(2026, 1, 5, 6, tzinfo=UTC), datetime(2026, 1, 5, 7, tzinfo=UTC)
    assert seen == [
        ("2026-01-05T05:00:00+00:00", "2026-01-05T06:00:00+00:00", six),
        ("2026-01-05T06:00:00+00:00", "2026-01-05T07:00:00+00:00", seven),
    ]
    assert await world.outcomes() == {"finalized": 2}


async def test_two_processes_with_one_schedule_run_each_period_once(world: World):
    """Their clocks differ by some minutes; whoever is first admits the period for both."""
    clocks = [Clock("2026-01-05T05:30:00"), Clock("2026-01-05T05:34:00")]
    pipelines = [world.pipeline(sources=[hourly(clock)]) for clock in clocks]
    at = await world.register(pipelines[0])
    running = [
        asyncio.create_task(Follower(world.db, at, p.sources[0]).run())  # type: ignore[arg-type]
        for p in pipelines
    ]

    async def marked(hour: int) -> bool:
        stands = await mark.at(world.db, at.pipeline, "schedule")
        return stands is not None and stands >= f"2026-01-05T{hour:02}:00:00+00:00"

    await until(lambda: marked(5))
    for hour in range(6, 12):
        for clock in clocks:
            clock.pass_by(hours=1)
        await until(lambda hour=hour: marked(hour))
    for task in running:
        task.cancel()
    await asyncio.wait(running)
    await world.work(pipelines[0])
    assert await world.outcomes() == {"finalized": 6}


async def test_a_schedule_never_overlaps_itself(world: World):
    """Twenty missed periods and two workers: one runs at a time, in order."""
    clock = Clock("2026-01-05T00:30:00")
    p = world.pipeline(sources=[hourly(clock)])
    running = threading.Lock()
    order: list[str] = []

    @p.validate
    def slow(obj: hg.Object) -> None:
        assert running.acquire(blocking=False), "another period is running"
        order.append(obj.uri)
        threading.Event().wait(0.005)
        running.release()

    await world.run(p)
    clock.pass_by(hours=20)
    at = await world.register(p)
    following = asyncio.create_task(Follower(world.db, at, hourly(clock)).run())

    async def admitted() -> bool:
        return await world.count("headgate.entry") == 20

    await until(admitted)
    following.cancel()
    await asyncio.wait([following])
    await world.work(p, workers=2)
    assert await world.outcomes() == {"finalized": 20}
    assert order == sorted(order)


async def test_a_clock_that_ran_ahead_and_came_back_runs_no_period_twice(world: World):
    """What was told too early is told again in its time, and the ledger knows it."""
    clock = Clock("2026-01-05T05:30:00")
    p = world.pipeline(sources=[hourly(clock)])
    await world.run(p)
    clock.pass_by(hours=4)
    await world.run(p)
    clock.pass_by(hours=-4)
    await world.run(p)
    clock.pass_by(hours=5)
    await world.run(p)
    assert await world.outcomes() == {"finalized": 5}
    assert (await world.tally())["duplicate"] == 4
