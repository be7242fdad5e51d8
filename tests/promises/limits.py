"""Held back, never held up: partitions, bursts and retries keep their pace, and nothing is lost."""

from __future__ import annotations

import asyncio
from bisect import bisect
from collections import Counter, defaultdict
from typing import Any

import pytest
from tests.world import World, change

import headgate as hg
from headgate.errors import Retryable
from headgate.ledger import gate


class Crowd:
    """How many handlers of each partition are at work at once."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.most: dict[str, int] = defaultdict(int)

    async def __call__(self, obj: hg.Object, run: hg.Run) -> dict[str, bytes]:
        part = obj.uri.rpartition("/")[0]
        self.now[part] += 1
        self.most[part] = max(self.most[part], self.now[part])
        await asyncio.sleep(0.002)
        self.now[part] -= 1
        return {}


async def test_a_partition_is_never_worked_on_by_more_than_its_limit(world: World):
    """Three workers, two partitions, two at a time in each: the others wait, and all are done."""
    crowd = Crowd()
    p = world.pipeline(per_partition=2)
    p.transform(crowd)
    told = [change(f"{part}/{n}", b"%d" % n) for n in range(40) for part in ("hot", "cold")]
    await world.receive(p, *told)
    await world.work(p, workers=3, concurrency=8)
    assert await world.outcomes() == {"finalized": 80}
    assert dict(crowd.most) == {"test://hot": 2, "test://cold": 2}
    assert await world.val("SELECT sum(busy) FROM headgate.part") == 0


async def test_a_full_partition_does_not_hold_up_the_others(world: World):
    """A thousand changes of one folder wait, and the next folder runs at once."""
    p = world.pipeline(per_partition=1)
    await world.receive(p, *[change(f"hot/{n}") for n in range(1000)])
    await world.receive(p, change("cold/1"), change("cold/2"))
    path, worker = await world.path(p), await world.worker()
    claims = await world.claim(path, worker, most=10)
    assert sorted(c.uri.rpartition("/")[0] for c in claims) == ["test://cold", "test://hot"]
    assert await world.claim(path, worker, most=10) == []
    await world.finish(path, claims)
    again = await world.claim(path, worker, most=10)
    assert len(again) == 2
    await world.finish(path, again)


async def test_who_says_the_partition_is_the_pipeline(world: World):
    """A function of the author's tells changes apart, instead of the folder."""

    def by_first_letter(envelope: hg.Envelope) -> str:
        return envelope.uri.removeprefix("test://")[0]

    p = world.pipeline(per_partition=1, partition=by_first_letter)
    await world.receive(p, change("ab/1"), change("ac/1"), change("b/1"))
    path, worker = await world.path(p), await world.worker()
    claims = await world.claim(path, worker, most=10)
    assert sorted(c.uri[7] for c in claims) == ["a", "b"]
    await world.finish(path, claims)
    await world.run(p)


async def test_a_dead_worker_frees_its_partitions(world: World):
    """Whoever buries it gives its places back."""
    p = world.pipeline(per_partition=1)
    await world.receive(p, *[change(f"hot/{n}") for n in range(3)])
    path, dying = await world.path(p), await world.worker()
    assert len(await world.claim(path, dying, most=5)) == 1
    await world.db.execute("UPDATE headgate.worker SET alive_until = clock_timestamp()")
    await world.run(p)
    assert (await world.outcomes())["finalized"] == 3
    assert await world.val("SELECT coalesce(sum(busy), 0) FROM headgate.part") == 0


async def test_a_limit_can_be_lifted_and_set_again_while_work_waits(world: World):
    """A redeploy in the middle of a backlog costs nothing and miscounts nothing."""
    limited, free = world.pipeline(per_partition=1), world.pipeline()
    await world.receive(limited, *[change(f"hot/{n}") for n in range(9)])
    path, worker = await world.path(limited), await world.worker()
    first = await world.claim(path, worker, most=5)
    open_path = await world.path(free)
    more = await world.claim(open_path, worker, most=5)
    assert (len(first), len(more)) == (1, 5)
    await world.finish(path, first)
    await world.finish(open_path, more)
    await world.run(limited)
    assert await world.outcomes() == {"finalized": 9}


async def test_a_partition_function_that_fails_keeps_no_change_out(world: World):
    """The change counts to its folder then."""
    p = world.pipeline(per_partition=1, partition=lambda e: e.uri.split("/")[9])
    await world.receive(p, change("a/1"), change("b/1"))
    await world.run(p)
    assert await world.outcomes() == {"finalized": 2}


async def test_quarantined_and_released_entries_count_as_well(world: World):
    """A released entry goes back into its partition."""
    p = world.pipeline(per_partition=1)
    broken = True

    @p.validate
    def check(obj: hg.Object) -> None:
        if broken:
            raise hg.Permanent("no")

    await world.receive(p, *[change(f"hot/{n}") for n in range(3)])
    await world.run(p)
    broken = False
    aside = [row[0] for row in await world.rows("SELECT entry FROM headgate.quarantine")]
    await world.release(*aside)
    path, worker = await world.path(p), await world.worker()
    claims = await world.claim(path, worker, most=10)
    assert len(claims) == 1
    await world.finish(path, claims)
    await world.run(p)
    assert (await world.outcomes())["finalized"] == 3


async def test_a_burst_folds_into_its_newest_change(world: World):
    """The first runs at once; of those that follow in the window only the newest runs."""
    seen: list[bytes] = []
    p = world.pipeline(coalesce=0.5)

    @p.transform
    def note(obj: hg.Object, run: hg.Run) -> dict[str, bytes]:
        seen.append(obj.read())
        return {}

    await world.receive(p, change("a", b"0", minute=0))
    await world.run(p)
    assert seen == [b"0"], "the first waits for nothing"
    for n in range(1, 6):
        await world.receive(p, change("a", b"%d" % n, minute=n))
    path, worker = await world.path(p), await world.worker()
    assert await world.claim(path, worker, most=10) == [], "the window is open"
    await world.run(p)
    assert seen == [b"0", b"5"]
    assert await world.outcomes() == {"finalized": 2, "skipped:superseded": 4}


async def test_a_late_change_never_supersedes_a_newer_one(world: World):
    """Told last is not newest: what counts is the source's own order."""
    seen: list[bytes] = []
    p = world.pipeline(coalesce=0.2)

    @p.transform
    def note(obj: hg.Object, run: hg.Run) -> dict[str, bytes]:
        seen.append(obj.read())
        return {}

    await world.receive(
        p,
        change("a", b"new", sequence=9, minute=1),
        change("a", b"old", sequence=3, minute=2),
    )
    await world.run(p)
    assert seen == [b"new"]
    assert await world.outcomes() == {"finalized": 1, "skipped:stale": 1}


async def test_changes_of_other_objects_do_not_fold(world: World):
    """A queue may put several objects under one subject; each of them keeps its own last change."""
    p = world.pipeline(coalesce=0.05)
    told = [change(name, subject="group", minute=n) for n, name in enumerate("abca")]
    await world.receive(p, *told)
    await world.run(p)
    assert await world.outcomes() == {"finalized": 3, "skipped:superseded": 1}


async def test_a_storm_of_retries_keeps_to_its_rate(world: World, monkeypatch: pytest.MonkeyPatch):
    """Ten thousand fail at once; the retries come back no faster than the pipeline's rate.

    By the ledger's clock: a worker on a busy machine may run late what it was given in time.
    """
    began: list[float] = []
    really = gate.claim

    async def noted(*args: Any, **options: Any) -> list[gate.Claim]:
        claims = await really(*args, **options)
        began.extend(claim.claimed for claim in claims if claim.attempts > 1)
        return claims

    monkeypatch.setattr(gate, "claim", noted)
    failing, rate = 10_000, 1000.0
    plan = hg.RetryPlan("upstream-event", 3, 3600, 0.001, 0.002, "full")
    p = world.pipeline(retry=plan, retries_per_second=rate)
    first: set[str] = set()

    @p.transform
    def fail_once(obj: hg.Object, run: hg.Run) -> dict[str, bytes]:
        if obj.uri not in first:
            first.add(obj.uri)
            raise Retryable("down")
        return {}

    await world.receive(p, *[change(f"{n}") for n in range(failing)])
    await world.run(p)
    outcomes = await world.outcomes()
    assert outcomes["finalized"] == failing
    began.sort()
    for n, t in enumerate(began):
        # A bucket that is full, what a second brings, and what a worker took just before.
        assert bisect(began, t + 1.0) - n <= 2.2 * rate
    assert began[-1] - began[0] >= (failing - 2 * rate) / rate * 0.9


@pytest.mark.parametrize(
    "wrong",
    [
        {"per_partition": 0},
        {"per_partition": 1.5},
        {"partition": str},
        {"coalesce": 0},
        {"coalesce": "soon"},
        {"retries_per_second": 0},
        {"retries_per_second": "many"},
    ],
)
def test_a_pace_that_cannot_be_kept_is_refused_when_it_is_declared(wrong: dict[str, object]):
    """The message names what was given."""
    (name,) = wrong
    with pytest.raises(hg.HeadgateError, match=name):
        hg.Pipeline("p", **wrong)  # pyright: ignore[reportArgumentType]
