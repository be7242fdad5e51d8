"""A quarantine is worked off by a plan: a few first, the rest slowly, and it stops by itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypedDict

import pytest
from tests.promises.processes import Place
from tests.world import World, change, until

import headgate as hg
from headgate.errors import UsageError
from headgate.ledger import budget, quarantine, redrive
from headgate.ledger.redrive import Wanted
from headgate.model.entry import Point
from headgate.model.redrive import Terms
from headgate.pg import Database

ENTRIES = int(os.environ.get("HEADGATE_TEST_ENTRIES", "200"))
# As fast as the work is done, and careful in nothing else.
FAST = Terms(per_second=None)
SWEEP = {"sweep_seconds": 0.05, "error_budget": 1.0}


class Row(TypedDict):
    name: str


def declared(world: World, still_bad: Callable[[str], bool], **options: Any) -> hg.Pipeline:
    """Says for each object whether it is bad, and leaves one mark for each effect."""
    p = world.pipeline(**options)

    @p.rows("item", key="name", schema=Row)
    def item(obj: hg.Object) -> Any:
        if still_bad(obj.text()):
            raise hg.Retryable(f"{obj.text()} does not work yet", reason="flaky")
        yield {"name": obj.text()}

    @p.apply
    def mark(tx: hg.Transaction, obj: hg.Object) -> None:
        tx.later("INSERT INTO effect VALUES ($1)", obj.text())

    return p


async def aside(world: World, *changes: hg.Envelope, **options: Any) -> None:
    """All of these fail for good, by a handler that is to be repaired."""
    await world.db.execute("CREATE TABLE IF NOT EXISTS effect (name text)")
    p = world.pipeline(**options)

    @p.validate
    def refuse(obj: hg.Object) -> None:
        raise hg.Permanent("nothing passes today", reason="broken")

    await world.receive(p, *changes)
    await world.run(p, error_budget=1.0)  # whoever weighs it meanwhile finds it unspent
    assert await world.count("headgate.quarantine") == len(changes)


def named(n: int) -> list[hg.Envelope]:
    return [change(f"o{i:05}", f"o{i:05}") for i in range(n)]


async def numbered(world: World) -> list[str]:
    """The names of the objects, in the order of their entries."""
    rows = await world.rows("SELECT convert_from(data, 'UTF8') FROM headgate.entry ORDER BY id")
    return [name for (name,) in rows]


async def one(world: World) -> redrive.Redrive:
    (found,) = await redrive.redrives(world.db)
    return found


@pytest.mark.timeout(900 if ENTRIES > 1000 else 120)
async def test_what_is_still_bad_is_back_at_the_cap_and_nothing_happened_twice(
    world: World,
) -> None:
    """Four fifths pass, each with one effect; a fifth has used all its attempts again."""
    for start in range(0, ENTRIES, 2000):
        await world.db.execute("CREATE TABLE IF NOT EXISTS effect (name text)")
        await _refused(world, named(ENTRIES)[start : start + 2000])
    assert await world.count("headgate.quarantine") == ENTRIES
    p = declared(world, lambda name: int(name[1:]) % 5 == 4)
    terms = replace(FAST, stop_share=0.5)
    await redrive.plan(world.db, Wanted(reason="broken"), terms, because="repaired")
    await world.run(p, **SWEEP)
    done = await one(world)
    bad = ENTRIES // 5
    assert (done.state, done.progress.passed, done.progress.failed) == ("done", ENTRIES - bad, bad)
    assert await world.rows("SELECT count(*), count(DISTINCT name) FROM effect") == [
        (ENTRIES - bad, ENTRIES - bad)
    ]
    assert await world.count("item") == ENTRIES - bad
    back = await world.rows(
        "SELECT class, reason, attempts, count(*) FROM headgate.quarantine GROUP BY 1, 2, 3"
    )
    assert back == [("exhausted", "flaky", 3, bad)]
    lines = await world.rows(
        "SELECT outcome::text, count(*) FROM headgate.journal GROUP BY 1 ORDER BY 1"
    )
    assert dict(lines) == {
        "quarantined": ENTRIES + bad,
        "received": ENTRIES,
        "waiting": 2 * bad,
        "finalized": ENTRIES - bad,
    }


async def _refused(world: World, changes: list[hg.Envelope]) -> None:
    p = world.pipeline()

    @p.validate
    def refuse(obj: hg.Object) -> None:
        raise hg.Permanent("nothing passes today", reason="broken")

    await world.receive(p, *changes)
    await world.run(p, error_budget=1.0)


async def test_a_few_go_first_and_their_failure_spares_the_rest(world: World) -> None:
    """Nothing was repaired: five find out, and the others stay where they are, untouched."""
    await aside(world, *named(40))
    p = declared(world, lambda name: True)
    await redrive.plan(world.db, Wanted(), FAST, because="repaired, I think")
    await world.run(p, **SWEEP)
    stopped = await one(world)
    assert (stopped.state, stopped.progress.released, stopped.progress.failed) == ("stopped", 5, 5)
    assert stopped.ended_why == "5 of 5 that went first failed"
    untouched = "SELECT count(*) FROM headgate.quarantine WHERE reason = 'broken' AND fence = 1"
    assert await world.val(untouched) == 35


async def test_it_stops_in_the_middle_when_too_many_fail(world: World) -> None:
    """The first hundred are good and hide nothing: what is bad behind them stops it."""
    await aside(world, *named(300))
    bad = set((await numbered(world))[100:])
    p = declared(world, bad.__contains__)
    terms = replace(FAST, batch=10, backlog=20)
    await redrive.plan(world.db, Wanted(), terms, because="repaired")
    await world.run(p, **SWEEP)
    stopped = await one(world)
    assert stopped.state == "stopped"
    assert stopped.progress.passed == 100
    assert 20 < stopped.progress.failed <= 60
    assert stopped.ended_why is not None
    assert "of the last 100 failed" in stopped.ended_why
    assert await world.count("headgate.quarantine") == 200
    assert await world.val("SELECT count(*) FROM effect") == 100


async def test_failures_that_end_together_are_not_more_than_they_are(world: World) -> None:
    """What is bad is tried until its attempts end, and so ends last: a fifth is still a fifth."""
    await aside(world, *named(120))
    bad = set((await numbered(world))[4::5])
    p = declared(world, bad.__contains__)
    terms = replace(FAST, canary=0, batch=120, stop_share=0.22)
    await redrive.plan(world.db, Wanted(), terms, because="repaired")
    await redrive.move(world.db)
    await world.work(p)
    await redrive.move(world.db)
    ended = await one(world)
    assert (ended.state, ended.progress.failed) == ("done", 24)


async def test_the_order_within_a_subject_is_kept(world: World) -> None:
    """Three versions of each of twenty objects: all are published, one after the other."""
    told = [change(f"o{i}", f"o{i} v{v}", sequence=v) for v in (1, 2, 3) for i in range(20)]
    await aside(world, *told)
    p = declared(world, lambda name: False)
    terms = replace(FAST, canary=7, batch=8)
    await redrive.plan(world.db, Wanted(), terms, because="repaired")
    await world.run(p, **SWEEP)
    assert (await one(world)).progress.passed == 60
    assert await world.rows(
        "SELECT DISTINCT p.version::text = right(convert_from(e.data, 'UTF8'), 1)"
        " FROM headgate.publication p JOIN headgate.entry e ON e.id = p.entry"
    ) == [(True,)]
    assert await world.val("SELECT count(*) FROM headgate.publication") == 60


async def test_those_that_go_first_speak_for_every_reason(world: World) -> None:
    """Of two reasons with very different numbers both are tried, and each with its oldest."""
    await aside(world, *named(30))
    await world.db.execute("UPDATE headgate.quarantine SET reason = 'rare' WHERE entry % 10 = 0")
    planned = await redrive.preview(world.db, Wanted(), replace(FAST, canary=4))
    rare = {
        e
        for (e,) in await world.rows("SELECT entry FROM headgate.quarantine WHERE reason = 'rare'")
    }
    assert len(rare & set(planned.first)) == 2
    assert planned.counts == {("p", "schema", "broken"): 27, ("p", "schema", "rare"): 3}
    only = await redrive.preview(world.db, Wanted(reason="rare"), FAST)
    assert (only.total, len(only.first)) == (3, 3)
    assert (await redrive.preview(world.db, Wanted(pipeline="other"), FAST)).total == 0
    assert await world.count("headgate.redrive") == 0, "to look is to change nothing"


async def test_nothing_more_is_released_while_enough_is_ready(world: World) -> None:
    """A busy pipeline is not flooded: what is ready is worked off first."""
    await aside(world, *named(30))
    p = declared(world, lambda name: False)
    await world.receive(p, *[change(f"new{n}", f"new{n}") for n in range(10)])
    terms = replace(FAST, canary=0, batch=50, backlog=10)
    await redrive.plan(world.db, Wanted(), terms, because="repaired")
    await redrive.move(world.db)
    assert ((await one(world)).held, (await one(world)).progress.released) == ("backlog", 0)
    await world.run(p, **SWEEP)
    assert (await one(world)).state == "done"
    most = "SELECT max(c.n) FROM headgate.commit c JOIN headgate.journal j ON j.batch = c.batch"
    assert await world.val(most + " WHERE j.reason = 'release'") == 10


async def test_a_spent_budget_lets_a_few_try_and_holds_the_rest(world: World) -> None:
    """Redrives pause while the budget is spent, until somebody says why they should go on."""
    await aside(world, *named(40))
    p = declared(world, lambda name: False)
    assert await budget.weigh(world.db, 0.05, 600)
    await redrive.plan(world.db, Wanted(), FAST, because="repaired")
    await world.run(p, sweep_seconds=0.05)
    held = await one(world)
    assert (held.state, held.held, held.progress.passed) == ("running", "budget", 5)
    await budget.override(world.db, "p", 60, because="it works again")
    await world.run(p, sweep_seconds=0.05)
    await redrive.move(world.db)
    assert (await one(world)).progress.passed == 40


async def test_the_rate_is_kept(world: World) -> None:
    """Ten a second are ten after a second, however large the batch."""
    await aside(world, *named(60))
    p = declared(world, lambda name: False)
    terms = Terms(canary=2, batch=50, per_second=10)
    await redrive.plan(world.db, Wanted(), terms, because="repaired")

    async def passed(seconds: float) -> int:
        await world.db.execute(
            "UPDATE headgate.redrive SET moved_at = clock_timestamp() - make_interval(secs => $1)",
            seconds,
        )
        await redrive.move(world.db)
        return (await one(world)).progress.released

    assert await passed(0) == 2
    await world.work(p)
    assert await passed(1.05) == 12
    assert await passed(0) == 12
    assert (await one(world)).held == "rate"
    await world.work(p)
    assert await passed(3600) == 60, "and never more than a batch at once"
    await world.work(p)
    await redrive.move(world.db)
    assert (await one(world)).state == "done"


async def test_it_can_be_paused_resumed_and_stopped_by_whoever_says_why(world: World) -> None:
    """What was released goes on, nothing follows, and each decision is kept with its reason."""
    await aside(world, *named(30))
    p = declared(world, lambda name: False)
    terms = replace(FAST, canary=3, batch=4)
    made = await redrive.plan(world.db, Wanted(), terms, because="repaired", actor="anna")
    await redrive.move(world.db)
    assert await redrive.turn(world.db, made, "pause", because="lunch", actor="anna") == "paused"
    await world.run(p, **SWEEP)
    await redrive.move(world.db)
    paused = await one(world)
    assert (paused.state, paused.progress.released, paused.progress.passed) == ("paused", 3, 3)
    with pytest.raises(UsageError, match="nothing to pause"):
        await redrive.turn(world.db, made, "pause", because="again")
    assert await redrive.turn(world.db, made, "resume", because="back", actor="anna") == "canary"
    await redrive.move(world.db)
    assert (await one(world)).progress.released == 7
    assert await redrive.turn(world.db, made, "stop", because="enough", actor="bert") == "stopped"
    await world.run(p, **SWEEP)
    await redrive.move(world.db)
    stopped = await one(world)
    assert (stopped.progress.released, stopped.progress.passed, stopped.progress.left) == (7, 7, 23)
    with pytest.raises(UsageError, match="stopped already"):
        await redrive.turn(world.db, made, "resume", because="no")
    said = await world.rows("SELECT actor, verb, because FROM headgate.action WHERE entry IS NULL")
    assert said == [
        ("anna", f"plan redrive {made}", "repaired"),
        ("anna", f"pause redrive {made}", "lunch"),
        ("anna", f"resume redrive {made}", "back"),
        ("bert", f"stop redrive {made}", "enough"),
    ]
    (each,) = await world.rows(
        "SELECT count(*), min(actor), min(because) FROM headgate.action WHERE verb = 'release'"
    )
    assert each == (7, "anna", f"repaired (redrive {made})")


async def test_many_sweepers_release_each_entry_once(world: World) -> None:
    """Eight at once move one plan: every entry leaves the quarantine once."""
    await aside(world, *named(80))
    p = declared(world, lambda name: False)
    await redrive.plan(world.db, Wanted(), replace(FAST, canary=0, batch=7), because="repaired")

    async def sweep() -> None:
        while (await one(world)).progress.left:
            await redrive.move(world.db)

    await asyncio.gather(*(sweep() for _ in range(8)))
    assert await world.count("headgate.work") == 80
    released = "SELECT count(*), count(DISTINCT entry) FROM headgate.action WHERE verb = 'release'"
    assert await world.rows(released) == [(80, 80)]
    await world.work(p)
    await redrive.move(world.db)
    assert (await one(world)).state == "done"


async def test_what_others_decided_meanwhile_is_left_alone(world: World) -> None:
    """Released or discarded by hand, or failed once more since: not this plan's business."""
    await aside(world, *named(10))
    bad = (await numbered(world))[2]
    p = declared(world, bad.__eq__)
    await redrive.plan(world.db, Wanted(), replace(FAST, canary=1), because="repaired")
    entries = [e for (e,) in await world.rows("SELECT entry FROM headgate.quarantine ORDER BY 1")]
    with pytest.raises(UsageError, match="is part of redrive 1 already"):
        await redrive.plan(world.db, Wanted(), FAST, because="me too")
    await quarantine.discard(world.db, [entries[1]], because="a test file")
    await world.release(entries[2], entries[3])
    await world.work(p)
    failed_again = "SELECT fence FROM headgate.quarantine WHERE entry = $1"
    assert await world.val(failed_again, entries[2]) == 4
    await world.run(p, **SWEEP)
    done = await one(world)
    assert (done.state, done.progress.passed, done.progress.gone) == ("done", 7, 3)
    assert await world.val(failed_again, entries[2]) == 4, "it was not run a second time"


async def test_a_plan_needs_a_reason_and_something_to_do(world: World) -> None:
    """No reason, nothing that fits: nothing is planned."""
    with pytest.raises(UsageError, match="a reason is needed"):
        await redrive.plan(world.db, Wanted(), FAST, because=" ")
    with pytest.raises(UsageError, match="nothing in quarantine is like that"):
        await redrive.plan(world.db, Wanted(), FAST, because="why not")
    with pytest.raises(UsageError, match="there is no redrive 7"):
        await redrive.turn(world.db, 7, "stop", because="x")


BAD = 'if obj.read().startswith(b"poison"):'
REPAIRED = 'if obj.uri.endswith("4"):'


def test_kill_9_in_the_middle_of_a_redrive_loses_and_repeats_nothing(place: Place) -> None:
    """Who drives it dies on either side of a release, a worker dies too: it goes on from there."""
    names = [f"f{n:02}" for n in range(20)]
    place.put(*names, text="poison")
    place.run()
    assert place.query("SELECT count(*) FROM headgate.quarantine") == [(20,)]
    file = place.folder / "load.py"
    file.write_text(file.read_text().replace(BAD, REPAIRED))
    _plan(place, replace(FAST, batch=4, stop_share=0.5))
    careless = {"error_budget": 1.0}
    for point, released in ((Point.BEFORE_RELEASE, 5), (Point.AFTER_RELEASE, 13)):
        up = place.up(die_at=f"{point}#2", tuning=careless)
        up.wait()
        assert up.process.returncode == -9, up.said()
        assert place.query("SELECT released FROM headgate.redrive") == [(released,)]
    up = place.up(crash_at=Point.BEFORE_FINALIZE, tuning=careless)
    up.ends()
    assert up.died_children() == ["work"], up.said()
    ((state, passed, failed),) = place.query("SELECT state, passed, failed FROM headgate.redrive")
    assert (state, passed, failed) == ("done", 18, 2)
    assert sorted(place.query("SELECT name FROM applied")) == [
        (name,) for name in names if not name.endswith("4")
    ]
    assert place.query("SELECT count(*) FROM headgate.quarantine") == [(2,)]
    assert place.query("SELECT count(*) FROM headgate.journal WHERE reason = 'release'") == [(20,)]
    place.verifies()


def _plan(place: Place, terms: Terms) -> None:
    async def make() -> None:
        async with await Database.open(place.url) as db:
            await redrive.plan(db, Wanted(), terms, because="the check was wrong")

    asyncio.run(make())


async def test_while_a_plan_is_under_way_up_is_not_idle(world: World) -> None:
    """`--until-idle` ends when the plan has ended, not in the pause before its next batch."""
    await aside(world, *named(12))
    p = declared(world, lambda name: False)
    await redrive.plan(
        world.db, Wanted(), Terms(canary=1, batch=50, per_second=20), because="repaired"
    )
    await world.run(p, **SWEEP)
    await until(lambda: _is(world, "done"))


async def _is(world: World, state: str) -> bool:
    return (await one(world)).state == state
