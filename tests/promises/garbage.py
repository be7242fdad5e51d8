"""Garbage: bytes that nothing needs go, and nothing that anybody could need ever does."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from typing import Any

import pytest
from tests.promises.wire import wire
from tests.world import World, change, until

import headgate as hg
from headgate.errors import StoreUnavailable, UsageError
from headgate.ledger import garbage, quarantine
from headgate.ledger import object as objects
from headgate.ledger.attempt import Attempt
from headgate.model.entry import Point
from headgate.pg import Database
from headgate.pipeline import Path as HandlerPath
from headgate.runtime import station
from headgate.runtime.collect import Collector
from headgate.runtime.sweep import Sweeper
from headgate.runtime.tuning import Tuning
from headgate.stores import open_store

NOW = Tuning(grace_seconds=0, retention_days=0)
SOON = Tuning(grace_seconds=0, retention_days=30)


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def there(world: World) -> set[bytes]:
    """What is in the store, whatever the ledger says."""
    return set(open_store(str(world.lake)).digests())


def made_of(world: World, **declared: Any) -> hg.Pipeline:
    """A pipeline whose artifact is `made of ` its input."""
    p = world.pipeline(**declared)

    @p.transform
    def made(obj: hg.Object) -> dict[str, bytes]:
        return {"made": b"made of " + obj.read()}

    return p


async def publish(world: World, p: hg.Pipeline, *versions: tuple[str, str]) -> None:
    """Publish these texts under these names, one after the other."""
    for name, text in versions:
        await world.receive(p, change(name, text))
        await world.work(p, workers=1)


async def collect(world: World, tuning: Tuning = NOW) -> garbage.Deleted:
    return await Collector(world.db, tuning, open_store).everything()


async def age(world: World, days: float, entry: int | None = None) -> None:
    """Let everything, or what one entry published, have happened so many days earlier."""
    await world.db.execute(
        "UPDATE headgate.journal SET at = at - make_interval(secs => $1 * 86400)"
        " WHERE entry = coalesce($2, entry)",
        days,
        entry,
    )
    await world.db.execute(
        "UPDATE headgate.object SET touched_at = touched_at - make_interval(secs => $1 * 86400)",
        days,
    )


async def test_what_was_replaced_goes_after_the_retention_and_not_before(world: World) -> None:
    """A revert could need it: it stays so long. Then its bytes go, and its row stays."""
    p = made_of(world)
    await publish(world, p, ("a", "1"), ("a", "2"))
    both = {digest("made of 1"), digest("made of 2")}
    assert there(world) == both
    await collect(world, SOON)
    await age(world, 29)
    await collect(world, SOON)
    assert there(world) == both
    await age(world, 2)
    gone = await collect(world, SOON)
    assert (gone.objects, gone.bytes) == (1, 9)
    assert there(world) == {digest("made of 2")}
    assert await world.count("headgate.publication") == 2
    at = await world.register(p)
    assert await objects.available(world.db, at.store, both) == {digest("made of 2")}
    ((which, why),) = (await objects.collected(world.db, at.store, both)).items()
    assert which == digest("made of 1")
    assert str(why).endswith("retention is 30 days")
    await world.audit()


async def test_the_sweeper_collects_by_itself(world: World) -> None:
    """Nobody has to ask: a sweep takes what nothing needs."""
    p = made_of(world)
    await publish(world, p, ("a", "1"), ("a", "2"))
    await Sweeper(world.db, NOW).sweep()
    assert there(world) == {digest("made of 2")}


async def test_the_clock_of_the_retention_starts_when_it_was_replaced(world: World) -> None:
    """Published a year ago and replaced yesterday: a revert may still want it."""
    p = made_of(world)
    await publish(world, p, ("a", "1"))
    await age(world, 365)
    await publish(world, p, ("a", "2"))
    await collect(world, SOON)
    assert there(world) == {digest("made of 1"), digest("made of 2")}


async def test_bytes_that_several_publications_share_stay_for_the_last_of_them(
    world: World,
) -> None:
    """The same bytes by another name, as an input or as an artifact: one need is enough."""
    p = made_of(world)
    q = world.pipeline("q", sources=[world.directory()])
    await publish(world, p, ("a", "1"), ("b", "1"), ("a", "2"))
    await collect(world)
    assert digest("made of 1") in there(world)
    world.put("in", "made of 1")
    await world.run(q)
    await publish(world, p, ("b", "2"))
    await collect(world)
    assert digest("made of 1") in there(world)
    world.put("in", "another")
    await world.run(q)
    await collect(world)
    assert there(world) == {digest("made of 2"), digest("another")}


async def test_a_removed_object_keeps_its_bytes_for_the_retention(world: World) -> None:
    """Removed by mistake: within the retention it can be brought back, after it the bytes go."""
    p = made_of(world, removed="remove", sources=[world.directory()])
    world.put("a", "1")
    await world.run(p)
    (world.incoming / "a").unlink()
    await world.run(p)
    assert await world.heads() == {}
    await collect(world, SOON)
    assert there(world) == {digest("1"), digest("made of 1")}
    await age(world, 31)
    await collect(world, SOON)
    assert there(world) == set()


async def test_what_is_in_quarantine_keeps_its_input_and_nothing_else(world: World) -> None:
    """It can be released: its input stays. What the failed attempt made goes, and all of it when
    an operator has discarded it and the retention is over.
    """
    await world.db.execute("CREATE TABLE effect (n int CHECK (n < 0))")
    p = made_of(world, sources=[world.directory()])

    @p.apply
    def refused(obj: hg.Object, tx: Any) -> None:
        tx.execute("INSERT INTO effect VALUES (1)")

    world.put("a", "1")
    await world.run(p)
    assert len(await world.quarantined()) == 1
    await age(world, 365)
    await collect(world, SOON)
    assert there(world) == {digest("1")}
    entry = await world.val("SELECT entry FROM headgate.quarantine")
    await quarantine.discard(world.db, [entry], because="test file")
    await collect(world, SOON)
    assert there(world) == {digest("1")}, "somebody may think again"
    await world.db.execute("UPDATE headgate.discarded SET at = at - interval '31 days'")
    await collect(world, SOON)
    assert there(world) == set()
    with pytest.raises(UsageError, match="are not in the store any more"):
        await quarantine.undiscard(world.db, [entry], because="too late")
    await quarantine.forget_discarded(world.db, 30)
    assert await world.count("headgate.discarded") == 0


async def test_a_revert_that_is_under_way_keeps_what_it_brings_back(world: World) -> None:
    """Admitted on the last day of the retention: it finds its bytes on the day after."""
    p = made_of(world)
    await publish(world, p, ("a", "1"), ("a", "2"))
    first = await world.val("SELECT entry FROM headgate.publication WHERE version = 1")
    await world.receive(p, change("a", "revert"))
    live = await world.val("SELECT max(id) FROM headgate.work")
    await world.db.execute(
        "UPDATE headgate.entry SET reverts = $1, restores = $2 WHERE id = $3", live, first, live
    )
    await collect(world)
    assert digest("made of 1") in there(world)
    await world.db.execute("UPDATE headgate.entry SET reverts = NULL, restores = NULL")
    await world.work(p)
    await collect(world)
    assert digest("made of 1") not in there(world)


async def test_who_holds_bytes_while_it_makes_itself_known_has_them(world: World) -> None:
    """Found by the collector, then held by a revert's transaction: it is left alone."""
    p = made_of(world)
    await publish(world, p, ("a", "1"), ("a", "2"))
    at = await world.register(p)
    found = await garbage.look(world.db, 0, 0, 10)
    assert [g.digest for g in found] == [digest("made of 1")]
    async with world.db.transaction() as link:
        held = await objects.hold(link, at.store, {digest("made of 1"), digest("never")})
        assert held == {digest("made of 1")}
        await garbage.condemn(world.db, 0, 0, found)
    await garbage.condemn(world.db, 0, 0, found)
    assert await objects.available(world.db, at.store, held) == held


# The same bytes are wanted again, at any moment of their collection.

STEPS = ["looked", "condemning", "condemned", "deleting", "deleted", "forgotten"]


@pytest.mark.parametrize("how", ["stages", "finalizes", "both"])
async def test_whoever_wants_the_bytes_again_has_them(world: World, how: str) -> None:
    """Another object brings the same bytes between any two steps of the collector, or had staged
    them before and finalizes there: it finds them or writes them anew, and readers have them.
    """
    p = made_of(world)
    path, worker = await world.path(p), await world.worker()
    for step in STEPS:
        await publish(world, p, (step, f"old {step}"), (step, f"new {step}"))
        await world.receive(p, change(f"{step} too", f"old {step}"))
        (claim,) = await world.claim(path, worker)
        attempt = path.begin(claim)
        path.prepare(attempt)
        if how == "finalizes":
            await path.stager.stage([attempt])
        race = Race(step, path, attempt, how)
        await race.collect(world)
        await race.over()
        await world.work(p, workers=1)
        assert {digest(f"made of {age} {step}") for age in ("old", "new")} <= there(world), step
        await world.audit()


class Race:
    """An attempt that goes on at one step of a collector, and the collector."""

    def __init__(self, step: str, path: HandlerPath, attempt: Attempt, how: str) -> None:
        self._step, self._path, self._attempt, self._how = step, path, attempt, how
        self._going: asyncio.Task[None] | None = None

    async def collect(self, world: World) -> None:
        """The steps of the collector, one by one."""
        found = await garbage.look(world.db, 0, 0, 100)
        await self._here("looked")
        async with world.db.transaction() as link:
            await link.execute("SELECT FROM headgate.object FOR SHARE")
            await self._here("condemning")
            await garbage.condemn(world.db, 3600, 0, found)
        await garbage.condemn(world.db, 3600, 0, found)
        await self._here("condemned")
        lake, loop = open_store(str(world.lake)), asyncio.get_running_loop()

        def remove(uri: str, gone: bytes) -> None:
            asyncio.run_coroutine_threadsafe(self._here("deleting"), loop).result()
            lake.delete(gone)
            asyncio.run_coroutine_threadsafe(self._here("deleted"), loop).result()

        await garbage.delete(world.db, remove)
        await self._here("forgotten")

    async def over(self) -> None:
        """The attempt comes to its end."""
        await (self._going or self._go())
        await self._path.settle([self._attempt])
        self._path.finish([self._attempt])

    async def _here(self, step: str) -> None:
        if step == self._step and self._going is None:
            self._going = asyncio.create_task(self._go())
            # It may have to wait for a lock of the collector's.
            await asyncio.wait({self._going}, timeout=0.2)

    async def _go(self) -> None:
        if self._how != "finalizes":
            await self._path.stager.stage([self._attempt])
        if self._how != "stages":
            await self._path.settle([self._attempt])


@pytest.mark.parametrize("again", [False, True])
async def test_a_finalize_that_waited_for_the_collector_finds_the_bytes_gone(
    world: World, again: bool
) -> None:
    """It asks for the object while that is being condemned: it is told so, and starts again.
    Also when somebody else has announced the same bytes meanwhile, and not written them yet.
    """
    p = made_of(world)
    await publish(world, p, ("a", "1"), ("a", "2"))
    at = await world.register(p)
    wanted = digest("made of 1")
    ((generation, present),) = (await objects.touch(world.db, at.store, {wanted: 9})).values()
    assert present
    found = await garbage.look(world.db, 0, 0, 10)

    async def finalize() -> set[bytes]:
        async with world.db.transaction() as link:
            return await objects.keep(link, at.store, [(wanted, generation)])

    async with world.db.transaction() as link:
        await link.execute(garbage.Q.condemn_kept, [at.store], [found[0].digest], 0.0)
        waiting = asyncio.create_task(finalize())
        await until(lambda: _somebody_waits(world))
        if again:
            await link.fetch(objects.TOUCH, at.store, [wanted], [9])
    assert await waiting == set()
    await collect(world)


async def _somebody_waits(world: World) -> bool:
    return bool(
        await world.val(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
    )


async def test_a_collector_that_loses_the_ledger_deletes_nothing_more(world: World) -> None:
    """Its rows are no longer its own: others may be writing these bytes again."""
    p = made_of(world)
    await publish(world, p, *((("a", f"{n}")) for n in range(12)))
    await garbage.condemn(world.db, 0, 0, await garbage.look(world.db, 0, 0, 100))
    lake = open_store(str(world.lake))
    loop = asyncio.get_running_loop()

    async def cut() -> None:
        await world.val(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND state = 'idle in transaction'"
        )

    def remove(uri: str, gone: bytes) -> None:
        asyncio.run_coroutine_threadsafe(cut(), loop).result()
        lake.delete(gone)

    with pytest.raises(hg.Unavailable):
        await garbage.delete(world.db, remove)
    assert len(there(world)) == 12 - garbage.AT_ONCE
    await collect(world)
    assert there(world) == {digest("made of 11")}


async def test_a_store_that_is_away_keeps_nobody_else_waiting(world: World) -> None:
    """Its objects wait until it is back; those of other stores go now."""
    stores = [world.folder / name for name in ("x", "y", "z")]
    for store in stores:
        p = made_of(world, name=store.name, store=str(store))
        await publish(world, p, ("a", f"{store.name}1"), ("a", f"{store.name}2"))
    away = stores[0].rename(world.folder / "away")
    stores[0].write_text("a file where the store was")

    def opened(uri: str) -> Any:
        store = open_store(uri)
        if uri.endswith("/x"):
            return _Away()
        return store

    gone = await Collector(world.db, NOW, opened).everything()
    assert gone.objects == 2
    assert [uri.rpartition("/")[2] for uri in gone.away] == ["x"]
    assert len(set(open_store(str(stores[2])).digests())) == 1
    stores[0].unlink()
    away.rename(stores[0])
    assert (await collect(world)).objects == 1


class _Away:
    def delete(self, digest: bytes) -> None:
        raise StoreUnavailable("the bucket does not answer", upstream="x")


async def test_the_same_bytes_can_come_back_after_they_were_collected(world: World) -> None:
    """They are written again, and nobody takes them for the ones that are gone."""
    p = made_of(world)
    await publish(world, p, ("a", "1"), ("a", "2"))
    await collect(world)
    await publish(world, p, ("b", "1"))
    at = await world.register(p)
    assert there(world) == {digest("made of 1"), digest("made of 2")}
    assert await objects.collected(world.db, at.store, [digest("made of 1")]) == {}


async def test_one_look_serves_all_who_sweep(world: World) -> None:
    """However many sweep, everything is looked through once in a while."""
    assert await garbage.due(world.db, 3600)
    assert not await garbage.due(world.db, 3600)
    assert await garbage.due(world.db, 0)


COLLECTING = [Point.BEFORE_CONDEMN, Point.AFTER_CONDEMN, Point.COLLECTED]
COLLECT_AND_DIE = """
import asyncio, os, signal, sys
from headgate.model import crash
from headgate.model.entry import Point
from headgate.pg import Database
from headgate.runtime.collect import Collector
from headgate.runtime.tuning import Tuning
from headgate.stores import open_store

crash.arm(Point(sys.argv[2]), lambda: os.kill(os.getpid(), signal.SIGKILL))

async def collect():
    async with await Database.open(sys.argv[1]) as db:
        tuning = Tuning(grace_seconds=0, retention_days=0)
        await Collector(db, tuning, open_store).everything()

asyncio.run(collect())
"""


async def test_a_collector_killed_at_any_point_leaves_no_need_unmet(world: World) -> None:
    """kill -9 while it collects what was replaced: heads have their bytes, the same bytes can come
    again at once, and the next one finishes.
    """
    p = made_of(world)
    for point in COLLECTING:
        await publish(world, p, (point, f"old {point}"), (point, f"new {point}"))
        dying = await asyncio.create_subprocess_exec(
            sys.executable, "-c", COLLECT_AND_DIE, world.url, point
        )
        assert await dying.wait() == -9
        await world.audit()
        assert digest(f"made of new {point}") in there(world)
        await publish(world, p, (f"{point} too", f"old {point}"))
        assert digest(f"made of old {point}") in there(world)
        await publish(world, p, (f"{point} too", f"new {point}"))
        await collect(world)
        assert await world.count("headgate.object WHERE state <> 'kept'") == 0
        assert digest(f"made of old {point}") not in there(world)


async def test_a_commit_whose_end_is_unknown_costs_no_live_object(world: World) -> None:
    """The answer to a finalize is lost while a collector is at work: readers have their bytes."""
    p = made_of(world)
    await publish(world, p, ("a", "1"), ("a", "2"))
    await world.receive(p, change("b", "1"))
    with wire(world.url) as between:
        async with await Database.open(between.url) as db:
            (path,) = await station.paths(db, [p], world.tuning)
            (claim,) = await world.claim(path, await world.worker())
            attempt = path.begin(claim)
            path.prepare(attempt)
            await path.stager.stage([attempt])
            between.lose = b"finalize"
            settling = asyncio.create_task(path.settle([attempt]))
            while not settling.done():
                found = await garbage.look(world.db, 0, 0, 100)
                await garbage.condemn(world.db, 3600, 0, found)
                await garbage.delete(world.db, lambda uri, gone: open_store(uri).delete(gone))
            await settling
            assert between.lost == 1
    await world.work(p, workers=1)
    assert {name: version for name, (version, _) in (await world.heads()).items()} == {
        "a": 2,
        "b": 1,
    }
    assert there(world) == {digest("made of 1"), digest("made of 2")}
