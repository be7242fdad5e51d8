"""A followed source is read to its end once, by however many, whatever dies in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable

import pytest
from tests.world import World, change, until

import headgate as hg
from headgate.errors import ObjectMissing, Unavailable
from headgate.ledger import mark
from headgate.model import crash
from headgate.model.entry import Point
from headgate.model.envelope import Provider, Refused
from headgate.model.ports import Advance, Followed
from headgate.runtime.follow import Follower


class Numbers:
    """A stream of the numbers 1, 2, 3 …; its checkpoint is the last one that was told."""

    name = "numbers"
    provider: Provider = "http"

    def __init__(self, last: int, *, bad: Iterable[int] = (), step: int = 3) -> None:
        self.last = last
        self.bad = set(bad)
        self.step = step
        self.failures = 0
        self.told: list[int] = []

    def check(self) -> None: ...

    def owns(self, uri: str) -> bool:
        return False

    def fetch(self, envelope: hg.Envelope) -> Iterable[bytes]:
        raise ObjectMissing(envelope.uri)

    async def follow(self, checkpoint: str | None) -> AsyncGenerator[Advance | None]:
        at = int(checkpoint or 0)
        while True:
            if self.failures:
                self.failures -= 1
                raise Unavailable("the stream was cut")
            if at == self.last:
                yield None
                await asyncio.sleep(0.01)
                continue
            upto = min(at + self.step, self.last)
            self.told += range(at + 1, upto + 1)
            yield Advance([self._one(n) for n in range(at + 1, upto + 1)], str(upto))
            at = upto

    def _one(self, n: int) -> hg.Envelope | Refused:
        if n in self.bad:
            return Refused("not_json", "data", "no JSON", b"\xff%d" % n)
        return change(f"n/{n}", b"%d" % n, event=str(n))


async def test_a_stream_is_read_to_its_end(world: World):
    """Every event has one effect, and the mark stands at the last one."""
    source = Numbers(10)
    assert isinstance(source, Followed)
    p = world.pipeline(sources=[source])
    await world.run(p)
    assert await world.outcomes() == {"finalized": 10}
    at = await world.register(p)
    assert await mark.at(world.db, at.pipeline, "numbers") == "10"


async def test_a_stream_goes_on_where_it_was_left(world: World):
    """The second run asks for what comes after the first, and tells nothing twice."""
    source = Numbers(4)
    p = world.pipeline(sources=[source])
    await world.run(p)
    source.last = 9
    await world.run(p)
    assert source.told == list(range(1, 10))
    assert await world.outcomes() == {"finalized": 9}


async def test_a_cut_stream_is_followed_again(world: World):
    """An outage costs time, not events."""
    source = Numbers(9)
    source.failures = 2
    await world.run(world.pipeline(sources=[source]))
    assert await world.outcomes() == {"finalized": 9}


async def test_a_source_that_stays_away_ends_the_waiting(world: World):
    """`--until-idle` says which source it gave up on, instead of waiting for ever."""
    source = Numbers(3)
    source.failures = 1_000_000
    with pytest.raises(Unavailable, match=r"gave up after 0\.3 s: the stream was cut"):
        await world.run(world.pipeline(sources=[source]), max_wait_seconds=0.3)


async def test_a_record_that_cannot_be_read_is_kept_and_costs_no_neighbour(world: World):
    """Its bytes are in quarantine under a stable reason; the others are processed."""
    source = Numbers(6, bad=[2, 5])
    p = world.pipeline(sources=[source])
    await world.run(p)
    assert await world.outcomes() == {"finalized": 4, "quarantined:not_json": 2}
    rows = await world.db.fetch(
        "SELECT q.class, q.reason, q.error, e.data FROM headgate.quarantine q"
        " JOIN headgate.entry e ON e.id = q.entry ORDER BY e.data"
    )
    assert [tuple(r) for r in rows] == [
        ("schema", "not_json", "data: no JSON", b"\xff2"),
        ("schema", "not_json", "data: no JSON", b"\xff5"),
    ]


async def test_a_record_the_ledger_cannot_take_holds_up_nobody(world: World):
    """A source may make up anything; what does not fit is kept, and the stream goes on."""

    class Odd(Numbers):
        def _one(self, n: int) -> hg.Envelope | Refused:
            return change(f"n/{n}\0" if n == 4 else f"n/{n}", b"%d" % n, event=str(n))

    await world.run(world.pipeline(sources=[Odd(9)]))
    assert await world.outcomes() == {"finalized": 8, "quarantined:unfit": 1}


async def test_a_refused_record_that_is_released_is_refused_again(world: World):
    """A release cannot make sense of it; it comes back to quarantine and nothing is published."""
    p = world.pipeline(sources=[Numbers(1, bad=[1])])
    await world.run(p)
    await world.release(await world.val("SELECT entry FROM headgate.quarantine"))
    await world.run(p)
    (aside,) = await world.quarantined()
    assert aside == ("schema", "schema", "a message that could not be read")


async def test_two_followers_of_one_source_admit_it_once(world: World):
    """Whoever finds the mark moved goes on from there."""
    sources = [Numbers(60, step=1), Numbers(60, step=7)]
    pipelines = [world.pipeline(sources=[source]) for source in sources]
    at = await world.register(pipelines[0])
    followers = [Follower(world.db, at, source) for source in sources]
    running = [asyncio.create_task(follower.run()) for follower in followers]

    async def at_the_end() -> bool:
        return await mark.at(world.db, at.pipeline, "numbers") == "60"

    await until(at_the_end)
    for task in running:
        task.cancel()
    await world.work(pipelines[0])
    assert await world.outcomes() == {"finalized": 60}
    received = await world.db.fetchval("SELECT sum(received) FROM headgate.tally")
    assert received == 60, "what the loser read was not even counted"


@pytest.mark.parametrize("point", [Point.BEFORE_RECEIVE, Point.AFTER_RECEIVE])
async def test_a_crash_on_either_side_of_the_commit_loses_and_doubles_nothing(
    world: World, point: Point
):
    """The mark and what it admitted are one commit."""
    source = Numbers(9, bad=[4])
    p = world.pipeline(sources=[source])
    at = await world.register(p)

    class Plug(BaseException):
        pass

    def pull() -> None:
        raise Plug

    crash.arm(point, pull)
    with pytest.raises(Plug):
        await Follower(world.db, at, source).run()
    crash.disarm()
    await world.run(p)
    assert await world.outcomes() == {"finalized": 8, "quarantined:not_json": 1}
