"""A schedule in the ledger: each period once, one after the other, whoever watches the clock."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.sources.clock import Clock
from tests.world import World, change, until

import headgate as hg
from headgate.ledger import inbox, mark
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


# By a watermark


def daily(pipeline: str = "rain", **by: Any) -> hg.Schedule:
    """The days of a pipeline, looked at as often as the test lets it."""
    clock = Clock("2026-06-01T00:00:00")
    watermark = hg.Watermark(pipeline, **by)
    return hg.Schedule("0 0 * * *", by=watermark, now=clock.now, sleep=clock.sleep)


def raining(world: World, **declared: Any) -> hg.Pipeline:
    """A pipeline whose events may be an hour late."""
    return world.pipeline("rain", event_time=hg.EventTime(lateness="1h"), **declared)


async def days(world: World) -> list[str]:
    """The periods that were told, by their end."""
    found = await world.rows(
        "SELECT uri FROM headgate.entry WHERE uri LIKE 'schedule:%' ORDER BY id"
    )
    return [uri[len("schedule://schedule/") :][:10] for (uri,) in found]


def hours(n: float) -> float:
    """Minutes since noon of the first of January, so many hours after its midnight."""
    return (n - 12) * 60


async def test_a_day_runs_when_the_watermark_has_passed_it(world: World):
    """Whatever the clock says: at one minute to one it may still rain yesterday."""
    rain = raining(world)
    report = world.pipeline("report", sources=[daily()])
    await world.receive(rain, change("a", "a", minute=hours(10)))
    await world.run(rain, report)
    assert await days(world) == [], "a first start has no past"
    await world.receive(rain, change("b", "b", minute=hours(24.99)))
    await world.run(rain, report)
    assert await days(world) == []
    await world.receive(rain, change("c", "c", minute=hours(25)))
    await world.run(rain, report)
    assert await days(world) == ["2026-01-02"]
    await world.receive(rain, change("d", "d", minute=hours(24 * 4 + 1)))
    await world.run(rain, report)
    await world.run(rain, report)
    assert await days(world) == [f"2026-01-0{n}" for n in (2, 3, 4, 5)]


async def test_a_day_waits_for_what_was_admitted_and_is_not_done(world: World):
    """The watermark has passed, and a reading of that day is still in work: it comes first."""
    rain = raining(world)
    report = world.pipeline("report", sources=[daily()])
    await world.receive(rain, change("a", "a", minute=hours(10)))
    await world.run(rain, report)
    await world.receive(
        rain, change("b", "b", minute=hours(23)), change("c", "c", minute=hours(26))
    )
    await world.run(report)
    assert await days(world) == []
    await world.run(rain)
    await world.run(report)
    assert await days(world) == ["2026-01-02"]


async def test_a_pipeline_may_go_by_its_own_watermark(world: World):
    """Its periods are no events of a stream: they neither move the watermark nor hold it back."""
    rain = raining(world, sources=[daily()])
    for n, hour in enumerate((10, 30, 55)):
        await world.receive(rain, change(f"{n}", f"{n}", minute=hours(hour)))
        await world.run(rain)
    assert await days(world) == ["2026-01-02", "2026-01-03"]
    assert await world.count("headgate.watermark") == 1


async def test_a_day_waits_at_most_so_long_by_the_clock(world: World):
    """Every stream is silent: where that is said, the day runs all the same."""
    rain = raining(world)
    report = world.pipeline("report", sources=[daily(at_most="6h")])
    await world.receive(rain, change("a", "a", minute=hours(10)))
    at = await world.register(report)
    await mark.advance(world.db, at, "schedule", None, "2026-01-01T12:00:00+00:00", ())
    await world.run(rain, report)
    assert len(await days(world)) == 100, "catch_up_limit"
    missing = (datetime.now(UTC) - datetime.fromisoformat((await days(world))[-1] + "T00:00Z")).days
    assert missing <= 1


async def test_a_watermark_that_stands_lower_again_runs_no_day_twice(world: World):
    """A second stream wakes up far behind the first."""
    rain = raining(world)
    report = world.pipeline("report", sources=[daily()])
    await world.receive(rain, change("a", "a", minute=hours(10)))
    await world.run(rain, report)
    await world.receive(rain, change("b", "b", minute=hours(50)))
    await world.run(rain, report)
    before = await days(world)
    slow = [change("c", "c", minute=hours(3))]
    await inbox.receive(world.db, await world.register(rain), "slow", slow)
    await world.run(rain, report)
    assert await days(world) == before == ["2026-01-02", "2026-01-03"]
    assert (await world.tally())["duplicate"] == 0


async def test_a_schedule_without_a_watermark_to_go_by_says_so(world: World):
    """The pipeline is not there, or declares no event time: it is waited for, and named."""
    report = world.pipeline("report", sources=[daily("snow")])
    with pytest.raises(hg.Unavailable, match="pipeline 'snow' has no watermark to go by"):
        await world.run(report, max_wait_seconds=0.3)


def test_a_watermark_and_skipping_do_not_go_together():
    """It moves in leaps: what is a minute overdue by it says nothing."""
    with pytest.raises(hg.PipelineError, match="skip"):
        hg.Schedule("0 0 * * *", by=hg.Watermark("rain"), missed="skip")
