"""For a given order of admission there is one late set, one final state and one set of digests.

Told again, cut into other batches, interrupted by crashes, worked on by any number of workers, some
of whom die: the ledger ends where it ends when each event is told once and worked on by one.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, TypedDict

import orjson
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)
from tests.world import NOON, World, change, until

import headgate as hg
from headgate.ledger import inbox, quarantine
from headgate.ledger import worker as workers
from headgate.ledger.gate import Claim
from headgate.model import watermark as model
from headgate.model.crash import arm, disarm
from headgate.model.entry import Point
from headgate.model.identity import change_key, is_newer
from headgate.pipeline import Path

# A history that fails is short as it is: making it shorter would take minutes.
FEW = settings(
    max_examples=12, stateful_step_count=8, deadline=None, phases=(Phase.reuse, Phase.generate)
)
PULLED = (Point.BEFORE_RECEIVE, Point.AFTER_RECEIVE)
_PIPELINES = itertools.count(1)


class Row(TypedDict):
    name: str
    text: str


@dataclass
class Lane:
    """One pipeline of a world, worked by hand. What is unlucky fails once before it succeeds.

    Its outputs are made of the bytes alone: where the bytes stay the same, nothing is made again.
    """

    world: World
    timed: hg.EventTime

    async def open(self) -> Lane:
        self.table = f"texts_{next(_PIPELINES)}"
        pipeline = self.world.pipeline(self.table.replace("_", "-"), event_time=self.timed)
        self.tried: set[str] = set()

        @pipeline.rows(self.table, key="name", schema=Row)
        def rows(obj: hg.Object):
            if obj.envelope.event_id not in self.tried and obj.text() == "unlucky":
                self.tried.add(obj.envelope.event_id)
                raise hg.Retryable("not now")
            yield {"name": obj.name, "text": obj.text()}

        @pipeline.transform
        def shout(obj: hg.Object, run: hg.Run):
            return {"loud.txt": obj.text().upper()}

        self.path: Path = await self.world.path(pipeline)
        self.id = self.path.at.pipeline
        return self

    async def tell(self, *told: hg.Envelope) -> None:
        await inbox.receive(self.world.db, self.path.at, "test", told)

    async def tell_and_die(self, told: Sequence[hg.Envelope], point: Point) -> None:
        def pull() -> None:
            raise ConnectionError("the plug was pulled")

        arm(point, pull)
        try:
            await self.tell(*told)
        except ConnectionError:
            pass
        finally:
            disarm()

    async def claim(self, most: int) -> tuple[int, list[Claim]]:
        worker = await self.world.worker()
        return worker, await self.world.claim(self.path, worker, most)

    async def work(self, *shares: int) -> None:
        """Several workers at once, each with its share."""
        claimed = [await self.claim(most) for most in shares]
        await asyncio.gather(*(self.world.finish(self.path, claims) for _, claims in claimed))

    async def work_and_die(self, most: int) -> None:
        """A worker that ends with what it holds; it is found and buried."""
        worker, _ = await self.claim(most)
        await workers.bury(self.world.db, worker, "killed", running=(), innocent=True)

    async def drain(self) -> None:
        """Until nothing is left to do, with what was held released."""
        held = await self.world.rows(
            "SELECT entry FROM headgate.quarantine WHERE pipeline = $1 AND class = 'late'", self.id
        )
        await quarantine.release(self.world.db, [e for (e,) in held], because="the end")

        async def done() -> bool:
            await self.work(100)
            left = "SELECT count(*) FROM headgate.work WHERE pipeline = $1"
            return await self.world.val(left, self.id) == 0

        await until(done)

    async def order(self) -> list[tuple[bytes, datetime, datetime | None]]:
        """What was admitted, in order: key, event time, and the watermark that had passed it."""
        return await self.world.rows(
            "SELECT key, event_time, late FROM headgate.entry WHERE pipeline = $1 ORDER BY id",
            self.id,
        )

    async def state(self) -> list[Any]:
        """What readers see, to the digest; and how far the stream has come."""
        heads = await self.world.rows(
            "SELECT uri, encode(content, 'hex'), artifacts::text FROM headgate.publication"
            " WHERE pipeline = $1 AND successor IS NULL ORDER BY uri",
            self.id,
        )
        mark = await self.world.rows(
            "SELECT seen, watermark, late FROM headgate.watermark WHERE pipeline = $1", self.id
        )
        rows = await self.world.table(self.table, "name", "text") if heads else []
        return [heads, mark, rows]


def digest(state: Any) -> str:
    return hashlib.sha256(orjson.dumps(state, default=str)).hexdigest()


EVENTS = st.builds(
    lambda name, minute, text: (name, minute, text),
    st.sampled_from("abc"),
    st.integers(0, 240),
    st.sampled_from(["fair", "foul", "unlucky"]),
)
BATCHES = st.lists(EVENTS, min_size=1, max_size=5)
AGAIN = st.lists(st.integers(0, 99), max_size=3)


class Histories(RuleBasedStateMachine):
    """Whatever may happen to a stream on its way in and through."""

    world: ClassVar[World]
    run: ClassVar[Callable[[Coroutine[Any, Any, Any]], Any]]

    @initialize(late=st.sampled_from(["patch", "hold"]))
    def declare(self, late: model.Late) -> None:
        self.told: list[hg.Envelope] = []
        self.timed = hg.EventTime(lateness="1h", late=late)
        self.lane: Lane = type(self).run(Lane(self.world, self.timed).open())

    def _batch(self, events: list[tuple[str, int, str]], again: list[int]) -> list[hg.Envelope]:
        new = [change(name, text, minute=minute) for name, minute, text in events]
        old = [self.told[n % len(self.told)] for n in again if self.told]
        self.told += new
        return [*old[:1], *new, *old[1:]]

    @rule(events=BATCHES, again=AGAIN)
    def tell(self, events: list[tuple[str, int, str]], again: list[int]) -> None:
        type(self).run(self.lane.tell(*self._batch(events, again)))

    @rule(events=BATCHES, again=AGAIN, point=st.sampled_from(PULLED), once_more=st.booleans())
    def tell_and_die(
        self, events: list[tuple[str, int, str]], again: list[int], point: Point, once_more: bool
    ) -> None:
        batch = self._batch(events, again)
        type(self).run(self.lane.tell_and_die(batch, point))
        if once_more:
            type(self).run(self.lane.tell(*batch))

    @rule(one=BATCHES, other=BATCHES, again=AGAIN)
    def tell_at_once(
        self, one: list[tuple[str, int, str]], other: list[tuple[str, int, str]], again: list[int]
    ) -> None:
        batches = [self._batch(one, again), self._batch(other, again)]

        async def both() -> None:
            await asyncio.gather(*(self.lane.tell(*batch) for batch in batches))

        type(self).run(both())

    @rule(shares=st.lists(st.integers(1, 4), min_size=1, max_size=3))
    def work(self, shares: list[int]) -> None:
        type(self).run(self.lane.work(*shares))

    @rule(most=st.integers(1, 4))
    def work_and_die(self, most: int) -> None:
        type(self).run(self.lane.work_and_die(most))

    def teardown(self) -> None:
        type(self).run(self._compare())

    async def _compare(self) -> None:
        await self.lane.drain()
        admitted = await self.lane.order()
        times = [event_time for _, event_time, _ in admitted]
        _, expected = model.admit(model.Stream(), times, datetime.now(UTC), self.timed)
        assert [late for _, _, late in admitted] == expected
        by_key = {change_key(envelope): envelope for envelope in self.told}
        plain = await Lane(self.world, self.timed).open()
        for key, _, _ in admitted:
            await plain.tell(by_key[key])
        await plain.drain()
        assert await plain.order() == admitted
        assert await plain.state() == await self.lane.state()


def test_the_order_of_admission_decides_and_nothing_else(world: World) -> None:
    """Duplicates, crashes, races of receivers, workers in any number, some of whom die."""
    with asyncio.Runner() as runner:
        runner.run(world.open())
        try:
            Histories.world, Histories.run = world, staticmethod(runner.run)
            run_state_machine_as_test(Histories, settings=FEW)
            runner.run(world.audit())
        finally:
            runner.run(world.close())


# A history without lateness: all of it happened within the hour that is allowed.
CALM = [
    change(name, f"{name}{minute}", minute=minute)
    for minute, name in enumerate(itertools.islice(itertools.cycle("abcd"), 24))
]
HOUR = hg.EventTime(lateness="1h")


def test_ten_thousand_orders_of_one_history_end_in_one_state() -> None:
    """By the rules alone: what is late, what readers see, how far the stream has come."""
    chance, ends = random.Random(0), set[str]()
    now = NOON + timedelta(hours=1)
    for _ in range(10_000):
        order = chance.sample(CALM, len(CALM))
        stream, passed = model.admit(model.Stream(), [e.event_time for e in order], now, HOUR)
        heads: dict[str, tuple[datetime, int, bytes]] = {}
        for n, e in enumerate(order):
            at, by, _ = heads.get(e.uri, (datetime.min.replace(tzinfo=UTC), -1, b""))
            if is_newer(e.sequence, e.event_time, n, None, at, by):
                heads[e.uri] = (e.event_time, n, e.data or b"")
        seen = {uri: data.decode() for uri, (_, _, data) in heads.items()}
        ends.add(digest([sorted(seen.items()), stream.seen, stream.watermark, passed]))
    assert len(ends) == 1


async def test_orders_of_one_history_end_in_one_state_in_the_ledger(world: World):
    """The same through the ledger, in batches of any size, with two workers."""
    chance, ends = random.Random(1), set[str]()
    for _ in range(12):
        lane = await Lane(world, HOUR).open()
        rest = chance.sample(CALM, len(CALM))
        while rest:
            n = chance.randint(1, 9)
            await lane.tell(*rest[:n])
            rest = rest[n:]
            if chance.random() < 0.5:
                await lane.work(2, 3)
        await lane.drain()
        assert {late for _, _, late in await lane.order()} == {None}
        ends.add(digest(await lane.state()))
    assert len(ends) == 1
