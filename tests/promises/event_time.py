"""Late data has one fate, decided when it is admitted and never again."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

import pytest
from msgspec import structs
from tests.world import NOON, World, change

import headgate as hg
from headgate.ledger import inbox, mark, request, revert, watermark
from headgate.ledger.aside import Aside
from headgate.ledger.inbox import Registered
from headgate.model import watermark as model
from headgate.model.crash import arm, disarm
from headgate.model.entry import Point
from headgate.model.verdict import Quarantine

HOUR = hg.EventTime(lateness="1h")
HOLD = hg.EventTime(lateness="1h", late="hold")
Door = Callable[[World, Registered, hg.Envelope], Awaitable[None]]


class Row(TypedDict):
    name: str
    text: str


def texts(world: World, rule: hg.EventTime | None = HOUR, **declared: Any) -> hg.Pipeline:
    """A pipeline that keeps the text of each object."""
    pipeline = world.pipeline(event_time=rule, **declared)

    @pipeline.rows("texts", key="name", schema=Row)
    def rows(obj: hg.Object):
        yield {"name": obj.name, "text": obj.text()}

    return pipeline


def at(minute: float) -> datetime:
    return NOON + timedelta(minutes=minute)


async def late(world: World) -> dict[str, datetime]:
    """What came late, by name, with the watermark that had passed it."""
    rows = await world.db.fetch(
        "SELECT substr(uri, 8) AS name, late FROM headgate.entry WHERE late IS NOT NULL ORDER BY id"
    )
    return {row["name"]: row["late"] for row in rows}


async def stands(world: World) -> datetime:
    return await world.val("SELECT watermark FROM headgate.watermark")


async def test_what_the_watermark_has_passed_is_late_and_is_applied_all_the_same(world: World):
    """An hour is allowed: the event that is ten minutes older than that is marked, not lost."""
    pipeline = texts(world)
    for name, minute in (("a", 120), ("on-time", 60), ("late", 50), ("b", 130)):
        await world.receive(pipeline, change(name, name, minute=minute))
    await world.run(pipeline)
    assert await late(world) == {"late": at(60)}
    assert await stands(world) == at(70)
    assert len(await world.table("texts", "name")) == 4
    assert await world.outcomes() == {"finalized": 4}


async def test_what_is_held_waits_in_quarantine_until_it_is_released(world: World):
    """No worker sees it. Released, it runs like any other, and is still known to have been late."""
    pipeline = texts(world, HOLD)
    await world.receive(pipeline, change("a", "a", minute=120))
    receipt = await world.receive(pipeline, change("late", "x", minute=50), change("b", "b"))
    assert (receipt.admitted, len(receipt.late)) == (2, 2)
    assert await world.count("headgate.work") == 1
    await world.run(pipeline)
    (classed, reason, error), _ = await world.quarantined()
    assert (classed, reason) == ("late", "late")
    assert error == (
        "it is of 2026-01-01 12:50:00 UTC, 0:10:00 before the watermark of test,"
        " which stood at 2026-01-01 13:00:00 UTC"
    )
    assert await world.table("texts", "name") == [("a",)]
    await world.audit()
    await world.release(
        *[entry for (entry,) in await world.rows("SELECT entry FROM headgate.quarantine")]
    )
    await world.run(pipeline)
    assert await world.table("texts", "name") == [("a",), ("b",), ("late",)]
    assert await late(world) == {"late": at(60), "b": at(60)}


async def test_a_duplicate_neither_moves_the_watermark_nor_becomes_late(world: World):
    """Told again after the watermark has passed it, it is what it was; so is a conflict."""
    pipeline = texts(world)
    early = change("a", "a", minute=0)
    await world.receive(pipeline, early)
    await world.receive(pipeline, change("b", "b", minute=180))
    before = await world.rows("SELECT * FROM headgate.watermark")
    await world.receive(pipeline, early)
    contradicting = change("a", "other", event=early.event_id, minute=600)
    assert (await world.receive(pipeline, contradicting)).conflicts == 1
    assert await world.rows("SELECT * FROM headgate.watermark") == before
    await world.receive(pipeline, early, change("c", "c", minute=170), early)
    assert await late(world) == {}
    await world.run(pipeline)


async def test_one_event_dated_tomorrow_makes_nothing_late(world: World):
    """A clock that runs ahead is believed for five minutes, by the clock of the database."""
    pipeline = texts(world, hg.EventTime(lateness="10m", skew="5m"))
    now = datetime.now(UTC)
    minutes = (now - NOON).total_seconds() / 60
    await world.receive(pipeline, change("tomorrow", "x", minute=minutes + 24 * 60))
    await world.receive(pipeline, change("now", "y", minute=minutes - 4))
    assert await late(world) == {}
    assert now - timedelta(minutes=5) <= await stands(world) <= now
    await world.receive(pipeline, change("old", "z", minute=minutes - 30))
    assert list(await late(world)) == ["old"]
    await world.run(pipeline)


async def test_a_batch_is_held_against_itself_in_the_order_it_was_told(world: World):
    """Ten changes at once, or one by one: the same ones are late, by the same watermark."""
    minutes = [0, 100, 30, 45, 200, 139, 140, 10, 300, 5]
    told = [change(f"{n}", f"{n}", minute=minute) for n, minute in enumerate(minutes)]
    at_once, singly = texts(world), texts(world, name="singly")
    await world.receive(at_once, *told)
    for one in told:
        await world.receive(singly, one)
    passed = await world.rows("SELECT uri, late FROM headgate.entry ORDER BY pipeline, id")
    assert passed[:10] == passed[10:]
    now = datetime.now(UTC)
    _, expected = model.admit(model.Stream(), [t.event_time for t in told], now, HOUR)
    assert [by for _, by in passed[:10]] == expected
    assert await late(world) == {"2": at(40), "5": at(140), "7": at(140), "9": at(240)}
    await world.run(at_once, singly)


async def test_a_retry_decides_nothing_again(world: World):
    """It was on time when it came. The watermark passes while it waits; it stays on time."""
    pipeline = texts(world, HOLD)
    failed: list[str] = []

    @pipeline.validate
    def first_time_unlucky(obj: hg.Object) -> None:
        if obj.name not in failed:
            failed.append(obj.name)
            raise hg.Retryable("not now")

    await world.receive(pipeline, change("a", "a", minute=0))
    path, worker = await world.path(pipeline), await world.worker()
    await world.finish(path, await world.claim(path, worker, 10))
    for name in "bc":
        await world.receive(pipeline, change(name, name, minute=600))
    await world.run(pipeline)
    assert await late(world) == {}
    assert await world.outcomes() == {"waiting:retryable": 3, "finalized": 3}


@pytest.mark.parametrize("rule", [HOUR, HOLD], ids=["patch", "hold"])
@pytest.mark.parametrize("point", [Point.BEFORE_RECEIVE, Point.AFTER_RECEIVE])
async def test_a_receiver_that_dies_and_is_told_again_decides_the_same(
    world: World, rule: hg.EventTime, point: Point
):
    """On either side of the commit: nothing is late that was not, and nothing moved twice."""
    pipeline = texts(world, rule)
    told = [change(f"{n}", f"{n}", minute=minute) for n, minute in enumerate((0, 100, 30, 50))]

    def pull() -> None:
        raise ConnectionError("the plug was pulled")

    arm(point, pull)
    try:
        with pytest.raises(ConnectionError):
            await world.receive(pipeline, *told)
    finally:
        disarm()
    again = await world.receive(pipeline, *told)
    assert again.admitted == (4 if point == Point.BEFORE_RECEIVE else 0)
    assert await late(world) == {"2": at(40)}
    assert await world.rows("SELECT seen, late FROM headgate.watermark") == [(at(100), 1)]
    await world.run(pipeline)


async def test_receivers_of_one_stream_take_turns(world: World):
    """Four at once with overlapping batches: no deadlock, and the order of numbers explains all."""
    pipeline = texts(world, HOLD)
    registered = await world.register(pipeline)
    told = [change(f"{n}", f"{n}", minute=n * 37 % 400) for n in range(200)]

    async def deliver(first: int, step: int) -> None:
        for start in range(0, 200, 10):
            batch = [told[(first + step * (start + n)) % 200] for n in range(10)]
            await inbox.receive(world.db, registered, "test", batch)

    async with asyncio.timeout(60):
        await asyncio.gather(*(deliver(n * 50, step) for n, step in enumerate((1, 3, 7, 9))))
    rows = await world.rows("SELECT event_time, late FROM headgate.entry ORDER BY id")
    stream, expected = model.admit(model.Stream(), [t for t, _ in rows], datetime.now(UTC), HOUR)
    assert [by for _, by in rows] == expected
    assert any(expected)
    assert await stands(world) == stream.watermark


async def test_what_is_no_event_of_the_stream_moves_nothing(world: World):
    """A record that cannot be read has no time; a revert and a period are not told by a stream."""
    pipeline = texts(world, HOLD)
    await world.receive(pipeline, change("a", "a", minute=0))
    await world.run(pipeline)
    registered = await world.register(pipeline)
    unreadable = Aside(change("bad", "?", minute=900), Quarantine("schema", "bad", "unreadable"))
    await inbox.receive(world.db, registered, "test", [], [unreadable])
    period = structs.replace(change("period", "p", minute=900), detector="cron")
    await inbox.receive(world.db, registered, "test", [period])
    (head,) = await world.rows("SELECT entry FROM headgate.publication")
    await revert.ask(world.db, head[0], because="a mistake")
    assert await stands(world) == at(-60)
    await world.receive(pipeline, change("b", "b", minute=-30))
    assert await late(world) == {}
    await world.run(pipeline)


async def by_queue(world: World, to: Registered, told: hg.Envelope) -> None:
    await inbox.receive(world.db, to, "test", [told])


async def by_stream(world: World, to: Registered, told: hg.Envelope) -> None:
    before = await mark.at(world.db, to.pipeline, "test")
    await mark.advance(world.db, to, "test", before, told.event_id, [told])


async def by_webhook(world: World, to: Registered, told: hg.Envelope) -> None:
    proof = hashlib.sha256(told.event_id.encode()).digest()
    call = request.Request(told.event_id, "standard", "key", proof, proof, proof)
    await request.admit(world.db, to, call, "test", told, {"accepted": True})


@pytest.mark.parametrize("door", [by_queue, by_stream, by_webhook])
@pytest.mark.parametrize("rule", [HOUR, HOLD], ids=["patch", "hold"])
async def test_through_whichever_door_it_comes(world: World, rule: hg.EventTime, door: Door):
    """Messages of a queue, events of a stream, calls of a webhook: late is late."""
    pipeline = texts(world, rule)
    to = await world.register(pipeline)
    for name, minute in (("a", 120), ("late", 50), ("b", 70)):
        await door(world, to, change(name, name, minute=minute))
    assert await late(world) == {"late": at(60)}
    assert len(await world.quarantined()) == (1 if rule is HOLD else 0)
    await world.run(pipeline)


async def test_files_found_by_the_first_look_are_not_late_to_each_other(world: World):
    """A folder with years of files is told in the order of their times."""
    pipeline = world.pipeline(sources=[world.directory()], event_time=HOUR)
    for n, name in enumerate("zyxab"):
        file = world.put(f"{name}.txt", name)
        when = NOON.timestamp() + n * 86400
        os.utime(file, (when, when))
    await world.run(pipeline)
    assert await late(world) == {}
    os.utime(world.put("old.txt", "old"), (NOON.timestamp(), NOON.timestamp()))
    await world.run(pipeline)
    assert list((await late(world)).values()) == [NOON + timedelta(days=4, hours=-1)]


async def test_a_stream_that_is_silent_holds_nobody_back(world: World):
    """The pipeline's watermark is that of the slowest stream, until it has been idle for long."""
    pipeline = texts(world, hg.EventTime(lateness="1h", idle="15m"), sources=[world.directory()])
    registered = await world.register(pipeline)
    for source, minute in (("quick", 600), ("slow", 100)):
        told = [change(source, source, minute=minute)]
        await inbox.receive(world.db, registered, source, told)

    async def combined() -> datetime | None:
        return watermark.combined(await watermark.streams(world.db))["p"]

    assert await combined() is None, "the folder has told nothing yet, and might"
    ago = "UPDATE headgate.watermark SET heard_at = heard_at - interval '1h' WHERE source = $1"
    await world.db.execute(ago, str(pipeline.sources[0].name))
    assert await combined() == at(40)
    await world.db.execute(ago, "slow")
    assert await combined() == at(540)
    await world.db.execute(ago, "quick")
    assert await combined() == at(540), "silence of all moves nothing"
    await world.run(pipeline)


async def test_a_deployment_that_allows_more_does_not_take_the_watermark_back(world: World):
    """What was late stays late, and what was promised to be complete stays complete."""
    await world.receive(texts(world), change("a", "a", minute=120))
    generous = texts(world, hg.EventTime(lateness="1d"))
    await world.receive(generous, change("b", "b", minute=121))
    assert await stands(world) == at(60)
    await world.run(generous)


async def test_without_event_time_nothing_is_late_and_nothing_is_kept(world: World):
    """A pipeline that does not ask has no watermark, and its receipts say nothing of lateness."""
    pipeline = texts(world, None, sources=[world.directory()])
    for minute in (600, 0):
        receipt = await world.receive(pipeline, change(f"{minute}", "x", minute=minute))
        assert not receipt.late
    assert await world.count("headgate.watermark") == 0
    await world.run(pipeline)
