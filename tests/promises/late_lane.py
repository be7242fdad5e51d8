"""What is late is told everywhere as late, and what is held runs when its pipeline said."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.world import NOON, World, change

import headgate as hg
from headgate.catalog import run
from headgate.ledger import explain, facts
from headgate.model import signal
from headgate.model.crash import arm, disarm
from headgate.model.entry import Point
from headgate.runtime import release
from headgate.runtime.intake import count
from headgate.runtime.sweep import Sweeper
from headgate.runtime.tuning import Tuning

HOUR = hg.EventTime(lateness="1h")
NIGHTLY = hg.EventTime(lateness="1h", late="hold", release="0 3 * * *")


async def late_entry(world: World, pipeline: hg.Pipeline) -> int:
    """One event on time, one that is ten minutes too late: the number of the second."""
    await world.receive(pipeline, change("a", "a", minute=120))
    await world.receive(pipeline, change("late", "x", minute=50))
    return await world.val("SELECT max(id) FROM headgate.entry")


async def long_ago(world: World) -> None:
    """Whatever is in quarantine came two days ago, and nothing was released since."""
    ago = datetime.now(UTC) - timedelta(days=2)
    await world.db.execute("UPDATE headgate.pipeline SET late_released = $1", ago)
    await world.db.execute("UPDATE headgate.quarantine SET first_at = $1", ago)


async def test_explain_says_how_late_it_was_and_by_which_watermark(world: World):
    """With the row that proves it; and nothing of the kind about what was on time."""
    pipeline = world.pipeline(event_time=HOUR)
    entry = await late_entry(world, pipeline)
    await world.run(pipeline)
    said = [s for s in await explain.explain(world.db, entry) if "late" in s.text]
    assert [(s.text, s.proof) for s in said] == [
        (
            "It came late: it is of 2026-01-01 12:50:00 UTC, 0:10:00 before the watermark of its"
            " stream, which stood at 2026-01-01 13:00:00 UTC when it was admitted. That stays so,"
            " however often it is tried.",
            (f"entry {entry}",),
        )
    ]
    on_time = await explain.explain(world.db, entry - 1)
    assert not [s for s in on_time if "late" in s.text]


async def test_explain_says_that_what_is_held_was_not_tried(world: World):
    """Nobody looks for an error of a handler that never ran."""
    pipeline = world.pipeline(event_time=NIGHTLY)
    entry = await late_entry(world, pipeline)
    texts = [s.text for s in await explain.explain(world.db, entry)]
    assert any(text.startswith("Its pipeline holds what is late: set aside") for text in texts)
    assert texts[-1] == (
        "It is in quarantine as late (late) without an attempt, until somebody decides."
    )
    await world.run(pipeline)


async def test_facts_and_the_files_of_a_run_say_it(world: World):
    """A publication that came late says so, to people and to programs."""
    pipeline = world.pipeline(event_time=HOUR, dataset="d")
    entry = await late_entry(world, pipeline)
    await world.run(pipeline)
    (told,) = await facts.of_publications(world.db, [entry])
    assert told.late == NOON + timedelta(hours=1)
    assert run.run_manifest(told)["late"] == "2026-01-01T13:00:00Z"
    summary = run.files(told)["summary.md"].decode()
    assert "- Late: 0:10:00 before the watermark, which stood at 2026-01-01 13:00:00 UTC" in summary
    (on_time,) = await facts.of_publications(world.db, [entry - 1])
    assert run.run_manifest(on_time)["late"] is None
    assert "Late" not in run.files(on_time)["summary.md"].decode()


async def test_metrics_show_watermarks_and_count_what_is_late(world: World):
    """By stream and by queue, under the promised names."""
    pipeline = world.pipeline(event_time=HOUR)
    heard: list[tuple[str, float, dict[str, str]]] = []
    stop = signal.listen(lambda one, value, labels: heard.append((one.name, value, labels)))
    try:
        await late_entry(world, pipeline)
        count("test", await world.receive(pipeline, change("later", "x", minute=10)))
        await Sweeper(world.db, Tuning()).sweep()
    finally:
        stop()
    at = (NOON + timedelta(hours=1)).timestamp()
    assert ("watermark_event_time_seconds", at, {"stream": "p/test"}) in heard
    assert ("headgate_late_total", 1.0, {"queue": "test"}) in heard
    await world.run(pipeline)


async def test_what_is_held_is_released_when_its_time_comes(world: World):
    """At three in the morning, and only what was held by then; the reason is in the journal."""
    pipeline = world.pipeline(event_time=NIGHTLY)
    sweeper = Sweeper(world.db, Tuning())
    entry = await late_entry(world, pipeline)
    await sweeper.sweep()
    assert len(await world.quarantined()) == 1, "a first start has missed nothing"
    yesterday = datetime.now(UTC) - timedelta(days=1)
    await world.db.execute("UPDATE headgate.pipeline SET late_released = $1", yesterday)
    await sweeper.sweep()
    assert len(await world.quarantined()) == 1, "it came after the time that was missed"
    await world.db.execute("UPDATE headgate.pipeline SET late_released = $1", yesterday)
    await world.db.execute("UPDATE headgate.quarantine SET first_at = $1", yesterday)
    await sweeper.sweep()
    assert await world.quarantined() == []
    assert await world.rows("SELECT actor, verb, entry, because FROM headgate.action") == [
        ("schedule", "release", entry, "late events of p are released at '0 3 * * *'")
    ]
    await world.run(pipeline)
    assert await world.outcomes() == {
        "finalized": 2,
        "quarantined:late": 1,
        "received:release": 1,
    }


async def test_a_schedule_releases_nothing_else(world: World):
    """What failed is not what is late: it waits for a person, as ever."""
    pipeline = world.pipeline(event_time=NIGHTLY)

    @pipeline.validate
    def refuse(obj: hg.Object) -> None:
        raise hg.Permanent("no")

    await world.receive(pipeline, change("a", "a"))
    await world.run(pipeline)
    await long_ago(world)
    await Sweeper(world.db, Tuning()).sweep()
    assert len(await world.quarantined()) == 1


@pytest.mark.parametrize("point", [Point.BEFORE_RELEASE, Point.AFTER_RELEASE])
async def test_a_sweeper_that_dies_while_it_releases_leaves_the_rest_to_the_next(
    world: World, point: Point, monkeypatch: pytest.MonkeyPatch
):
    """Two pages are held, and it dies at the first: each entry runs, and runs once."""
    monkeypatch.setattr(release, "AT_ONCE", 3)
    pipeline = world.pipeline(event_time=NIGHTLY)
    told = [change(f"{n}", "x", minute=n) for n in range(6)]
    await world.receive(pipeline, change("a", "a", minute=300), *told)
    await long_ago(world)

    def pull() -> None:
        raise ConnectionError("the plug was pulled")

    arm(point, pull)
    try:
        with pytest.raises(ConnectionError):
            await release.release_late(world.db)
    finally:
        disarm()
    assert len(await world.quarantined()) == (6 if point == Point.BEFORE_RELEASE else 3)
    await release.release_late(world.db)
    await world.run(pipeline)
    assert await world.outcomes() == {
        "finalized": 7,
        "quarantined:late": 6,
        "received:release": 6,
    }


async def test_two_sweepers_release_each_entry_once(world: World):
    """They find the same, and one of them is quicker."""
    pipeline = world.pipeline(event_time=NIGHTLY)
    told = [change(f"{n}", "x", minute=n) for n in range(40)]
    await world.receive(pipeline, change("a", "a", minute=300), *told)
    await long_ago(world)
    await asyncio.gather(*(Sweeper(world.db, Tuning()).sweep() for _ in range(2)))
    await world.run(pipeline)
    outcomes: dict[str, Any] = await world.outcomes()
    assert outcomes == {"finalized": 41, "quarantined:late": 40, "received:release": 40}
