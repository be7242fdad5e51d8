"""What is added up is what happened: each end once, whoever adds up, whenever it dies."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from msgspec import structs
from tests.world import World, change

import headgate as hg
from headgate.ledger import flow, history, quarantine, reset, slo
from headgate.ledger.entries import entries
from headgate.model.flow import BOUNDS
from headgate.model.slo import Targets
from headgate.pg import Database
from headgate.runtime.sweep import Sweeper
from headgate.runtime.tuning import Tuning

MARK = "SELECT pos FROM headgate.flow_mark"
LAST = "SELECT coalesce(max(pos), 0) FROM headgate.commit"
HOURS = """
    SELECT sum(finalized)::int AS finalized, sum(skipped)::int AS skipped,
           sum(quarantined)::int AS quarantined, sum(waiting)::int AS waiting
    FROM headgate.flow WHERE minutes = {}
"""


def picky(world: World) -> hg.Pipeline:
    """Publishes, except what says otherwise: `bad` is refused, `slow` is tried again."""
    p = world.pipeline()

    @p.transform
    def keep(obj: hg.Object, run: hg.Run) -> dict[str, bytes]:
        if "bad" in obj.text():
            raise hg.Permanent("bad")
        if "slow" in obj.text() and run.attempt == 1:
            raise hg.Retryable("not yet")
        return {"copy": obj.read()}

    return p


def _now(told: hg.Envelope) -> hg.Envelope:
    return structs.replace(told, received_at=datetime.now(UTC))


async def live(world: World, p: hg.Pipeline) -> None:
    """Everything that can become of an entry, with people who change their minds."""
    told = [change(f"{n}", f"{n}") for n in range(20)]
    await world.receive(p, *told)
    await world.receive(p, *told[:7])
    await world.receive(p, *(change(f"bad{n}", f"bad{n}") for n in range(4)))
    await world.receive(p, change("slow", "slow"), change("0", "0", minute=-5))
    await world.work(p)
    bad = [e.entry for e in (await entries(world.db, status="quarantined")).rows]
    await quarantine.discard(world.db, bad[:2], because="junk")
    await quarantine.undiscard(world.db, bad[:1], because="not junk")
    await quarantine.release(world.db, bad[2:3], because="try again")
    await world.work(p)
    for entry in (await entries(world.db, status="skipped")).rows:
        await reset.reset(world.db, entry.entry, because="look again")
    await world.work(p)


async def test_figures_are_the_same_before_during_and_after_they_are_added_up(world: World) -> None:
    """Whoever asks gets exact figures, however far the roll-up is."""
    p = picky(world)
    await live(world, p)
    assert await world.db.fetchval(MARK) == 0
    before = (await history.overview(world.db)).pipelines
    (seen,) = before
    assert (seen.received, seen.entries, seen.duplicates) == (33, 26, 7)
    assert (seen.finalized, seen.quarantined, seen.discarded) == (21, 3, 1)
    assert seen.skipped == {"stale": 1}
    while await world.db.fetchval(MARK) < await world.db.fetchval(LAST):
        assert await world.db.fetchval(flow.Q.roll_up, 1, 1, BOUNDS)
        assert (await history.overview(world.db)).pipelines == before
    assert await flow.roll_up(world.db) == 0
    for minutes in (1, 60):
        row = await world.db.fetchrow(HOURS.format(minutes))
        assert row is not None
        # One was skipped twice, and one refused twice: attempts are counted, not entries.
        assert tuple(row) == (21, 2, 5, 1)


async def test_several_who_add_up_at_once_count_nothing_twice(world: World) -> None:
    """Every `up` sweeps. Beside each other, and beside the work, they add up each line once."""
    p = picky(world)
    await world.receive(p, *(change(f"{n}", f"{n}") for n in range(300)))
    done = asyncio.Event()

    async def add_up() -> None:
        while not done.is_set():
            await flow.roll_up(world.db, lines=3)

    adding = [asyncio.create_task(add_up()) for _ in range(4)]
    await world.work(p, batch_max=7)
    done.set()
    await asyncio.gather(*adding)
    await asyncio.gather(*(Sweeper(world.db, Tuning()).sweep() for _ in range(2)))
    assert await world.db.fetchval(MARK) == await world.db.fetchval(LAST)
    row = await world.db.fetchrow(HOURS.format(60))
    assert row is not None
    assert tuple(row) == (300, 0, 0, 0)


async def test_a_roll_up_that_dies_has_added_nothing(world: World) -> None:
    """Its connection is cut while it adds. The next one adds all of it, once."""
    p = picky(world)
    await world.receive(p, *(change(f"{n}", f"{n}") for n in range(10)))
    await world.work(p)
    await flow.roll_up(world.db)
    await world.receive(p, *(change(f"more{n}", f"{n}") for n in range(10)))
    await world.work(p)
    mark = await world.db.fetchval(MARK)
    async with world.db.transaction() as link, await Database.open(world.url, max_size=1) as dying:
        # It gets as far as this row and waits for it: totals are written, the mark is not.
        await link.execute("SELECT * FROM headgate.flow_latency FOR UPDATE")
        adding = asyncio.create_task(flow.roll_up(dying))
        while not await world.db.fetchval(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE query LIKE '%flow_roll_up%' AND wait_event_type = 'Lock'"
        ):
            await asyncio.sleep(0.01)
            assert not adding.done()
        with suppress(Exception):
            await adding
    assert await world.db.fetchval(MARK) == mark
    assert await flow.roll_up(world.db)
    row = await world.db.fetchrow(HOURS.format(60))
    assert row is not None
    assert row["finalized"] == 20


async def test_an_entry_that_was_finalized_twice_is_counted_as_such(world: World) -> None:
    """The one figure that must stay zero is looked for, not assumed."""
    p = picky(world)
    await world.receive(p, change("slow", "slow"), change("a", "a"))
    await world.work(p)
    await flow.roll_up(world.db)
    doubled = "SELECT sum(doubled)::int FROM headgate.flow WHERE minutes = 60"
    assert await world.db.fetchval(doubled) == 0
    async with world.db.transaction() as link:
        await link.execute(
            "INSERT INTO headgate.journal SELECT nextval('headgate.batch'), entry, now(), n,"
            " fence + 1, outcome, worker, attempt, reason, steps, doc, hash"
            " FROM headgate.journal WHERE outcome = 'finalized' LIMIT 1"
        )
        await link.execute(
            "INSERT INTO headgate.commit (pos, batch, n, at, chain, pipeline)"
            " SELECT max(pos) + 1, currval('headgate.batch'), 1, clock_timestamp(), sha256(''), 1"
            " FROM headgate.commit"
        )
        await link.execute("SELECT headgate.flow_roll_up(1000, 1, '{1}')")
        assert await link.fetchval(doubled) == 1
        await link.execute("ROLLBACK; BEGIN")  # so that the audit finds what really happened


async def test_a_series_has_every_minute_and_says_how_long_things_took(world: World) -> None:
    """A minute in which nothing happened is a minute with nothing, not a gap."""
    p = picky(world)
    await world.receive(p, *(change(f"{n}", f"{n}") for n in range(50)))
    await world.work(p)
    assert await flow.roll_up(world.db) == 100
    series = await flow.series(world.db, minutes=5)
    points = series.pipelines["p"]
    assert [b.at - a.at for a, b in pairwise(points)] == [timedelta(minutes=1)] * 4
    assert series.behind == 0
    total = Counter[str]()
    for point in points:
        total.update(received=point.received, new=point.new, finalized=point.finalized)
    assert total == {"received": 50, "new": 50, "finalized": 50}
    # Test changes say that they were received long ago: everything took longer than the last bound.
    assert {b for point in points for b in point.latency} == {len(BOUNDS)}
    assert sum(n for point in points for n in point.latency.values()) == 50
    (hour,) = [h for h in (await flow.hours(world.db, 2)).pipelines["p"] if h.finalized]
    assert hour.finalized == 50
    (stream,) = await flow.now(world.db)
    assert (stream.received, stream.new, stream.finalized, stream.ready) == (50, 50, 50, 0)
    assert stream.finalized_per_second > 0
    assert [s.source for s in stream.sources] == ["test"]


async def test_a_long_queue_is_told_without_counting_it(world: World) -> None:
    """What is to be done follows from what came and what ended, where it is too much to count."""
    p = picky(world)
    await world.receive(p, *(change(f"{n}", f"{n}") for n in range(30)))
    claims = await world.claim(await world.path(p), await world.worker(), 5)
    assert len(claims) == 5
    exact = (await history.overview(world.db)).pipelines
    assert (exact[0].ready, exact[0].claimed) == (25, 5)
    flow.LONG_QUEUE, long = 10, flow.LONG_QUEUE
    try:
        assert (await history.overview(world.db)).pipelines == exact
        (stream,) = await flow.now(world.db)
        assert (stream.ready, stream.claimed) == (25, 5)
        assert stream.oldest_seconds is not None
    finally:
        flow.LONG_QUEUE = long


async def test_minutes_go_and_hours_stay(world: World) -> None:
    """Old minutes make room; the sums are in the hours for good."""
    p = picky(world)
    await world.receive(p, change("a", "a"))
    await world.work(p)
    await flow.roll_up(world.db)
    for table in ("flow", "flow_latency", "flow_delivery"):
        await world.db.execute(
            f"UPDATE headgate.{table} SET at = at - interval '4 days' WHERE minutes = 1"
        )
    await flow.forget(world.db)
    for table in ("flow", "flow_latency", "flow_delivery"):
        left = await world.db.fetch(f"SELECT DISTINCT minutes FROM headgate.{table}")
        assert [r["minutes"] for r in left] == [60], table


async def test_a_promise_that_is_not_kept_shows_in_its_budget(world: World) -> None:
    """A quarter is refused and everything is told twice: those budgets are spent, others not."""
    p = picky(world)
    told = [change(f"{n}", f"{'bad' if n % 4 == 0 else 'good'} {n}") for n in range(40)]
    await world.receive(p, *told)
    await world.receive(p, *told)
    await world.work(p)
    await flow.roll_up(world.db)
    found = {s.slo: s for s in await slo.standing(world.db)}
    assert list(found) == ["duplicates", "double_applies", "latency", "dead_letters"]
    assert (found["duplicates"].total, found["duplicates"].bad) == (80, 40)
    assert (found["dead_letters"].total, found["dead_letters"].bad) == (40, 10)
    assert found["dead_letters"].budget_left == pytest.approx(1 - 10 / 0.4)
    assert found["dead_letters"].burn["1h"] == pytest.approx(25)
    assert (found["double_applies"].state, found["double_applies"].total) == ("ok", 30)
    # Test changes say that they were received long ago.
    assert (found["latency"].bad, found["latency"].state) == (30, "spent")
    lenient = Targets(duplicates=0.6, dead_letters=0.3)
    kept = {s.slo: s.state for s in await slo.standing(world.db, lenient)}
    assert (kept["duplicates"], kept["dead_letters"]) == ("ok", "ok")


async def test_what_lay_in_quarantine_or_is_run_again_is_not_called_slow(world: World) -> None:
    """A person took their time, not the work: latency counts what ran by itself."""
    p = picky(world)
    fresh = _now(change("bad", "bad"))
    await world.receive(p, fresh)
    await world.work(p)
    (aside,) = (await entries(world.db, status="quarantined")).rows
    q = world.pipeline()  # the same, and not picky any more
    await quarantine.release(world.db, [aside.entry], because="repaired")
    await world.receive(q, _now(change("good", "good")))
    await world.work(q)
    await flow.roll_up(world.db)
    (took,) = await slo.took(world.db)
    assert took.seconds[0.99] < 60
    taken = "SELECT sum(n)::int FROM headgate.flow_latency WHERE minutes = 60"
    assert await world.db.fetchval(taken) == 1
