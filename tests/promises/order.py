"""Changes of one thing happen in their order, and what readers see never goes backwards."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

import pytest
from tests.world import World, change

import headgate as hg
from headgate.ledger import worker as workers
from headgate.ledger.gate import Claim
from headgate.model.verdict import Finalized, Quarantine, Retry, Skipped
from headgate.pipeline import Path


class Reading(TypedDict):
    id: int
    value: str


def readings(world: World, **declared: Any) -> hg.Pipeline:
    """A pipeline whose objects are lines of `id=value`."""
    p = world.pipeline(**declared)

    @p.rows("reading", key="id", schema=Reading)
    def rows(obj: hg.Object) -> Any:
        for line in obj.text().split():
            id, value = line.split("=")
            yield {"id": id, "value": value}

    return p


async def test_two_changes_of_one_uri_finish_in_order(world: World) -> None:
    """The first change is slow and a second worker is free: the second still comes second."""
    p = world.pipeline()
    await world.db.execute("CREATE TABLE log (n serial, uri text, value text)")

    @p.transform
    def slow_at_first(obj: hg.Object) -> None:
        if obj.text() == "0":
            time.sleep(0.2)

    @p.apply(independent=True)
    async def log(tx: hg.Transaction, obj: hg.Object) -> None:
        await tx.execute("INSERT INTO log (uri, value) VALUES ($1, $2)", obj.uri, obj.text())

    told = [change(uri, str(n), minute=n) for n in range(4) for uri in "abcdef"]
    await world.receive(p, *told)
    # Keys are hashes: admission orders a batch by them, and only separate batches by time.
    await world.work(p, workers=2)
    for uri in "abcdef":
        values = await world.rows(
            "SELECT value FROM log WHERE uri = $1 ORDER BY n", f"test://{uri}"
        )
        assert values == sorted(values)
        assert values[-1] == ("3",)


async def test_a_second_worker_waits_for_the_first_change_of_a_uri(world: World) -> None:
    """While one change of a uri is held, nobody gets the next; after it, the next one is free."""
    p = world.pipeline()
    path = await world.path(p)
    one, other = await world.worker(), await world.worker()
    for n in range(2):
        await world.receive(p, change("a", str(n), minute=n))
    (first,) = await world.claim(path, one, 10)
    assert await world.claim(path, other, 10) == []
    await world.finish(path, [first])
    (second,) = await world.claim(path, other, 10)
    await world.finish(path, [second])
    assert second.id > first.id
    assert second.head is not None
    assert second.head.entry == first.id


async def test_a_subject_of_the_sources_own_orders_different_uris(world: World) -> None:
    """A FIFO group spans several uris: its messages are claimed one after the other."""
    p = world.pipeline()
    path = await world.path(p)
    worker = await world.worker()
    for uri in ("a", "b", "c"):
        await world.receive(p, change(uri, "1", subject="group"))
    for uri in ("a", "b", "c"):
        (claim,) = await world.claim(path, worker, 10)
        assert claim.uri == f"test://{uri}"
        await world.finish(path, [claim])


@pytest.mark.parametrize("taken_by", ["another worker", "the same worker"])
async def test_whoever_lost_its_lease_changes_nothing(world: World, taken_by: str) -> None:
    """The entry was taken over: what its first holder brings is recorded as fenced, and is void."""
    p = readings(world)
    path = await world.path(p)
    slow = await world.worker()
    await world.receive(p, change("a", "1=one"))
    (first,) = await world.claim(path, slow)
    if taken_by == "another worker":
        await workers.bury(world.db, slow, "stopped", running=(), innocent=True)
        (second,) = await world.claim(path, await world.worker())
    else:
        await workers.give_back(world.db, slow, known=())
        (second,) = await world.claim(path, slow)
    assert second.fence > first.fence
    await world.finish(path, [first])
    assert await world.count("reading") == 0
    assert (await world.outcomes())["fenced:fenced"] == 1
    await world.finish(path, [second])
    assert await world.table("reading", "id", "value") == [(1, "one")]
    assert await world.val("SELECT attempts FROM headgate.work") is None


async def test_one_lost_lease_costs_its_batch_nothing(world: World) -> None:
    """Of three entries that are committed together one was taken over: the two others count."""
    p = readings(world)
    path = await world.path(p)
    worker = await world.worker()
    await world.receive(p, change("a", "1=a"), change("b", "2=b"), change("c", "3=c"))
    claims = sorted(await world.claim(path, worker, 3), key=lambda c: c.uri)
    await workers.give_back(world.db, worker, known={claims[0].id, claims[2].id})
    attempts = await world.finish(path, claims)
    assert [a.lost for a in attempts] == [False, True, False]
    assert await world.table("reading", "id", "value") == [(1, "a"), (3, "c")]
    outcomes = await world.outcomes()
    assert (outcomes["finalized"], outcomes["fenced:fenced"]) == (2, 1)
    await world.finish(path, await world.claim(path, worker))
    assert await world.count("reading") == 3


@dataclass
class Known:
    """What the rules of the gate say about one entry."""

    id: int
    uri: str
    state: str = "ready"  # ready, claimed, waiting, aside, done
    retried: bool = False
    claim: Claim | None = None


@dataclass
class Rules:
    """The gate as the contract words it, to hold the real one against."""

    entries: dict[int, Known] = field(default_factory=dict)
    heads: dict[str, int] = field(default_factory=dict)

    def claimable(self, entry: Known) -> bool:
        others = [e for e in self.entries.values() if e.uri == entry.uri and e is not entry]
        return (
            entry.state == "ready"
            and not any(e.state == "claimed" for e in others)
            and not any(e.state == "ready" and e.id < entry.id for e in others)
        )

    def take(self, claims: list[Claim], asked: int) -> None:
        """One claim's answer: allowed, and no less than there was."""
        free = {e.id for e in self.entries.values() if self.claimable(e)}
        fresh = sorted(i for i in free if not self.entries[i].retried)
        # Retries get half of a claim at most, so that they cannot starve what is new.
        again = min(len(free) - len(fresh), max(asked // 2, 1))
        got = [c.id for c in claims]
        assert set(got) <= free
        assert len(set(got)) == len(got) <= asked
        assert len(got) == again + min(len(fresh), asked - again)
        new = [i for i in got if not self.entries[i].retried]
        assert new == fresh[: len(new)], "oldest first"
        for claim in claims:
            entry = self.entries[claim.id]
            if entry.claim is not None:
                assert claim.fence > entry.claim.fence, "a fence only rises"
            entry.state, entry.claim = "claimed", claim

    def held_by(self, worker: int) -> list[Known]:
        held = [e for e in self.entries.values() if e.state == "claimed"]
        return [e for e in held if e.claim is not None and e.claim.worker == worker]


class Play:
    """Random moves of several workers on a few uris."""

    def __init__(self, world: World, p: hg.Pipeline, path: Path, seed: int) -> None:
        self.world, self.p, self.path = world, p, path
        self.chance = random.Random(seed)
        self.rules = Rules()
        self.workers: list[int] = []
        self.told = 0

    async def move(self) -> None:
        moves = [self.receive, self.claim, self.claim, self.claim_together, self.settle]
        moves += [self.settle, self.fail, self.set_aside, self.let_go, self.wake, self.bury]
        await self.chance.choice(moves)()

    async def receive(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            self.told += 1
            uri = self.chance.choice("abcd")
            # One by one: inside a batch, admission follows the keys, which are hashes.
            await self.world.receive(self.p, change(uri, str(self.told), minute=self.told))
        for id, uri in await self.world.rows("SELECT id, uri FROM headgate.entry ORDER BY id"):
            self.rules.entries.setdefault(id, Known(id, uri))

    async def claim(self) -> None:
        asked = self.chance.randint(1, 5)
        worker = self.chance.choice(self.workers)
        self.rules.take(await self.world.claim(self.path, worker, asked), asked)

    async def claim_together(self) -> None:
        got = await asyncio.gather(*(self.world.claim(self.path, w, 2) for w in self.workers))
        claims = [c for answer in got for c in answer]
        held = [c.uri for c in claims]
        held += [e.uri for w in self.workers for e in self.rules.held_by(w)]
        assert len(set(held)) == len(held), "one claimed entry per subject"
        for claim in claims:
            self.rules.entries[claim.id].state = "claimed"
            self.rules.entries[claim.id].claim = claim

    async def settle(self) -> None:
        for entry in self.some_held():
            assert entry.claim is not None
            (attempt,) = await self.world.finish(self.path, [entry.claim])
            if self.rules.heads.get(entry.uri, 0) > entry.id:
                assert attempt.verdict == Skipped("stale")
            else:
                assert attempt.verdict == Finalized()
                self.rules.heads[entry.uri] = entry.id
            entry.state = "done"

    async def fail(self) -> None:
        for entry in self.some_held():
            later = self.chance.random() < 0.5
            due = datetime.now(UTC) + timedelta(hours=1 if later else -1)
            await self.end(entry, Retry(due, "test", "failed by the test"))
            entry.state, entry.retried = "waiting" if later else "ready", True

    async def set_aside(self) -> None:
        for entry in self.some_held()[:1]:
            await self.end(entry, Quarantine("permanent", "test", "set aside by the test"))
            entry.state = "aside"

    async def let_go(self) -> None:
        aside = [e for e in self.rules.entries.values() if e.state == "aside"]
        for entry in aside:
            assert await self.world.release(entry.id) == [entry.id]
            entry.state, entry.retried = "ready", False

    async def wake(self) -> None:
        """An hour passes for what waits."""
        await self.world.db.execute(
            "UPDATE headgate.work SET due_at = due_at - interval '2 hours' WHERE worker IS NULL"
            " AND due_at > now()"
        )
        for entry in self.rules.entries.values():
            if entry.state == "waiting":
                entry.state = "ready"

    async def bury(self) -> None:
        if self.chance.random() < 0.3:
            worker = self.workers.pop(self.chance.randrange(len(self.workers)))
            held = self.rules.held_by(worker)
            assert await workers.bury(self.world.db, worker, "stopped", running=(), innocent=True)
            for entry in held:
                entry.state = "ready"
            self.workers.append(await self.world.worker())

    async def end(self, entry: Known, verdict: Retry | Quarantine) -> None:
        assert entry.claim is not None
        attempt = self.path.begin(entry.claim)
        attempt.verdict = verdict
        await self.path.settle([attempt])

    def some_held(self) -> list[Known]:
        held = self.rules.held_by(self.chance.choice(self.workers))
        return held[: self.chance.randint(1, 3)]


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_workers_do_the_gate_keeps_its_rules(world: World, seed: int) -> None:
    """One claimed entry per subject, oldest ready first, a waiting one holds up no newer one."""
    p = world.pipeline()
    play = Play(world, p, await world.path(p), seed)
    play.workers = [await world.worker() for _ in range(3)]
    for _ in range(250):
        await play.move()
    for worker in play.workers:
        await workers.bury(world.db, worker, "stopped", running=(), innocent=True)
    await play.wake()
    await play.let_go()
    await world.run(p)
    entries = play.rules.entries.values()
    last = {uri: max(e.id for e in entries if e.uri == uri) for uri in {e.uri for e in entries}}
    heads = await world.rows("SELECT uri, entry FROM headgate.publication WHERE successor IS NULL")
    assert dict(heads) == last


async def test_a_change_that_waits_does_not_hold_up_the_next_and_is_then_stale(
    world: World,
) -> None:
    """The first change fails and waits; the second is published; the first may not undo that."""
    p = readings(world)
    path = await world.path(p)
    worker = await world.worker()
    await world.receive(p, change("a", "1=old"))
    await world.receive(p, change("a", "1=new", minute=1))
    (old,) = await world.claim(path, worker, 10)
    attempt = path.begin(old)
    attempt.verdict = Retry(datetime.now(UTC) + timedelta(seconds=0.3), "test", "later")
    await path.settle([attempt])
    (new,) = await world.claim(path, worker, 10)
    await world.finish(path, [new])
    assert new.id > old.id
    await world.run(p)
    assert await world.table("reading", "id", "value") == [(1, "new")]
    assert await world.outcomes() == {"waiting:test": 1, "finalized": 1, "skipped:stale": 1}


async def test_receivers_of_the_same_keys_do_not_deadlock(world: World) -> None:
    """Three receivers hear the same five thousand changes, each in another order."""
    p = world.pipeline()
    at = time.monotonic()
    told = [change(f"{n}", b"") for n in range(5000)]
    orders = [random.Random(n).sample(told, len(told)) for n in range(3)]
    receipts = await asyncio.gather(*(world.receive(p, *order) for order in orders))
    assert sum(r.admitted for r in receipts) == 5000
    assert time.monotonic() - at < 15
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    assert await world.val(deadlocks) == 0


async def test_committers_on_the_same_rows_do_not_deadlock_for_long(world: World) -> None:
    """Four workers write the same rows from different objects; each row is the latest event's."""
    p = readings(world)
    chance = random.Random(3)
    told: list[hg.Envelope] = []
    for n in range(600):
        ids = chance.sample(range(40), 12)
        told.append(change(f"o{n}", " ".join(f"{i}={n}" for i in ids), minute=n))
    latest: dict[int, str] = {}
    for n, envelope in enumerate(told):
        for line in (envelope.data or b"").decode().split():
            latest[int(line.split("=")[0])] = str(n)
    await world.receive(p, *chance.sample(told, len(told)))
    at = time.monotonic()
    await world.work(p, workers=4, batch_max=20)
    assert time.monotonic() - at < 15
    assert dict(await world.table("reading", "id", "value")) == latest
    assert await world.outcomes() == {"finalized": 600}


async def test_committers_that_replace_each_others_rows_do_not_deadlock_for_long(
    world: World,
) -> None:
    """Objects that share rows get new versions at the same time, from four workers."""
    p = readings(world)
    chance = random.Random(5)
    told: list[hg.Envelope] = []
    for n in range(600):
        ids = chance.sample(range(60), 10)
        told.append(change(f"o{n % 100}", " ".join(f"{i}={n}" for i in ids), minute=n))
    for start in range(0, 600, 100):
        await world.receive(p, *told[start : start + 100])
    at = time.monotonic()
    await world.work(p, workers=4, batch_max=20)
    assert time.monotonic() - at < 8
    assert await world.outcomes() == {"finalized": 600}
    assert await world.val("SELECT max(attempt) FROM headgate.journal") == 1


async def test_a_then_b_then_a_is_published_three_times(world: World) -> None:
    """Going back to an earlier content is a change like any other."""
    p = readings(world)
    for minute, value in enumerate(["1=a", "1=b", "1=a"]):
        await world.receive(p, change("x", value, minute=minute))
        await world.run(p)
    assert await world.count("headgate.publication") == 3
    assert (await world.heads())["x"][0] == 3
    assert await world.table("reading", "id", "value") == [(1, "a")]


async def test_a_redelivered_first_a_does_not_return(world: World) -> None:
    """After A, B and A, the first A is told once more: a duplicate, whatever is current."""
    p = world.pipeline()
    told = [change("x", value, minute=n) for n, value in enumerate("aba")]
    for envelope in told:
        await world.receive(p, envelope)
        await world.run(p)
    receipt = await world.receive(p, told[0])
    assert receipt.duplicates == 1
    assert await world.outcomes() == {"finalized": 3}


async def test_another_hint_for_the_same_bytes_changes_nothing(world: World) -> None:
    """A file that is touched, or a new event for the same bytes, is `unchanged`."""
    p = readings(world, sources=[world.directory()])
    world.put("a.txt", "1=one")
    await world.run(p)
    world.put("a.txt", "1=one")
    await world.run(p)
    assert await world.outcomes() == {"finalized": 1, "skipped:unchanged": 1}
    world.put("a.txt", "1=two")
    await world.run(p)
    assert await world.table("reading", "id", "value") == [(1, "two")]


@pytest.mark.parametrize("by", ["sequence", "event time"])
async def test_an_old_version_that_comes_late_overwrites_nothing(world: World, by: str) -> None:
    """The newer version is there already; the older one is recorded as stale."""
    p = readings(world)

    def version(n: int) -> hg.Envelope:
        if by == "sequence":
            return change("a", f"1=v{n} {n}0=v{n}", sequence=n, minute=-n)
        return change("a", f"1=v{n} {n}0=v{n}", minute=n)

    await world.receive(p, version(2))
    await world.run(p)
    await world.receive(p, version(1))
    await world.run(p)
    assert await world.table("reading", "id", "value") == [(1, "v2"), (20, "v2")]
    assert await world.outcomes() == {"finalized": 1, "skipped:stale": 1}
    await world.receive(p, version(3))
    await world.run(p)
    assert await world.table("reading", "id", "value") == [(1, "v3"), (30, "v3")]


async def test_versions_shuffled_in_one_batch_end_with_the_newest(world: World) -> None:
    """Twenty versions of thirty objects, shuffled, four workers: readers see the last of each."""
    p = readings(world)
    told = [
        change(f"o{o}", f"{o}=v{v:02}", sequence=v, minute=v) for o in range(30) for v in range(20)
    ]
    random.Random(1).shuffle(told)
    await world.receive(p, *told)
    await world.work(p, workers=4, batch_max=10)
    assert await world.table("reading", "id", "value") == [(o, "v19") for o in range(30)]
    ended = await world.outcomes()
    assert set(ended) <= {"finalized", "skipped:stale", "received:raced"}
    assert ended["finalized"] + ended.get("skipped:stale", 0) == 600


async def test_a_vanished_file_is_kept_by_default(world: World) -> None:
    """The source forgets a file; what was published stays, and the journal says so."""
    p = readings(world, sources=[world.directory()])
    file = world.put("a.txt", "1=one")
    await world.run(p)
    file.unlink()
    await world.run(p)
    assert await world.table("reading", "id", "value") == [(1, "one")]
    assert await world.outcomes() == {"finalized": 1, "skipped:kept": 1}
    world.put("a.txt", "1=one")
    await world.run(p)
    assert (await world.outcomes())["skipped:unchanged"] == 1


async def test_a_vanished_file_takes_its_rows_along_when_told_to(world: World) -> None:
    """removed="remove": the rows go, the removal is a publication, and the file may come back."""
    p = readings(world, sources=[world.directory()], removed="remove")
    file = world.put("a.txt", "1=one 2=two")
    world.put("b.txt", "3=three")
    await world.run(p)
    file.unlink()
    await world.run(p)
    assert await world.table("reading", "id", "value") == [(3, "three")]
    assert await world.rows(
        "SELECT version, removed FROM headgate.publication WHERE uri LIKE '%a.txt' ORDER BY 1"
    ) == [(1, False), (2, True)]
    world.put("a.txt", "1=one 2=two")
    await world.run(p)
    assert await world.table("reading", "id", "value") == [(1, "one"), (2, "two"), (3, "three")]
    assert await world.outcomes() == {"finalized": 4}


async def test_a_removal_that_comes_late_removes_nothing(world: World) -> None:
    """The object was removed and written again; the removal is heard last and is stale."""
    p = readings(world, removed="remove")
    await world.receive(p, change("a", "1=again", sequence=3, minute=3))
    await world.run(p)
    await world.receive(p, change("a", removed=True, sequence=2, minute=2))
    await world.run(p)
    assert await world.table("reading", "id", "value") == [(1, "again")]
    assert await world.outcomes() == {"finalized": 1, "skipped:stale": 1}


async def test_a_worker_that_registered_anew_settles_under_both_its_numbers(world: World) -> None:
    """What it took before and after it was buried by mistake may end in one batch: all ends."""
    p = world.pipeline()

    @p.transform
    def same(obj: hg.Object) -> dict[str, bytes]:
        return {"same": obj.read()}

    path = await world.path(p)
    await world.receive(p, change("before", "1"), change("after", "2"))
    first = await world.claim(path, await world.worker())
    second = await world.claim(path, await world.worker())
    await world.finish(path, [*first, *second])
    assert await world.outcomes() == {"finalized": 2}
    assert await world.count("headgate.work") == 0


async def test_who_dies_with_an_entry_is_charged_by_the_plan_of_what_noticed_it(
    world: World,
) -> None:
    """Its pipeline has no plan of its own, and the ledger does not say what goes without saying."""
    p = world.pipeline(retry=None)
    path, worker = await world.path(p), await world.worker()
    await world.receive(p, change("a"))
    (claim,) = await world.claim(path, worker)
    await workers.bury(world.db, worker, "killed", running=[claim.id])
    assert await world.outcomes() == {"waiting:worker_lost": 1}
