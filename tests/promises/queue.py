"""From a bucket by SNS and SQS into the ledger: nothing is lost and nothing happens twice."""

from __future__ import annotations

import asyncio
import json
import os
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import pairwise

import msgspec
import pytest
from tests.aws.anomaly import WORST, WORST_FIFO, anomaly
from tests.aws.emulator import Aws
from tests.aws.mail import Mail, notification
from tests.world import World, until

import headgate as hg
from headgate.errors import ConfigError
from headgate.model.envelope import Refused
from headgate.model.ports import Delivery
from headgate.model.signal import IGNORED, listen
from headgate.runtime import drain
from headgate.runtime.drain import Drain
from headgate.runtime.tuning import Tuning
from headgate.transports import open_wire, sqs

# `make test-queue` sends 10,000 objects.
OBJECTS = int(os.environ.get("HEADGATE_TEST_OBJECTS", "200"))


@pytest.fixture(autouse=True)
def short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopping waits for the poll that is on its way; tests stop often."""
    monkeypatch.setattr(sqs, "LONGEST_WAIT_SECONDS", 1)


def counting(world: World, source: hg.S3Events) -> hg.Pipeline:
    """A pipeline that notes every object it applied, in a table that allows no repeats."""
    p = world.pipeline(sources=[source])

    @p.apply
    async def note(tx: hg.Transaction, obj: hg.Object) -> None:
        tx.later("INSERT INTO seen (uri, subject) VALUES ($1, $2)", obj.uri, obj.envelope.subject)

    return p


async def make_table(world: World) -> None:
    await world.db.execute("CREATE TABLE seen (n bigserial, uri text UNIQUE, subject text)")


async def seen(world: World) -> set[str]:
    return {uri.rpartition("/")[2] for (uri,) in await world.rows("SELECT uri FROM seen")}


@pytest.mark.timeout(1500)
async def test_a_bucket_is_heard_through_a_queue_that_misbehaves(
    world: World, aws: Aws, monkeypatch: pytest.MonkeyPatch
):
    """Messages come twice, late and shuffled, acknowledgements get lost: an object counts once."""
    mail = Mail(aws, hidden_seconds=1)
    keys = [f"{n}.csv" for n in range(OBJECTS)]
    await make_table(world)
    await asyncio.to_thread(mail.put_many, keys)
    with anomaly(aws.endpoint, WORST) as between:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", between.endpoint)
        await world.run(counting(world, hg.S3Events(queue=mail.queue)))
        happened = {what for what, times in between.did.items() if times}
    assert {"again", "shuffle", "delay"} <= happened
    assert {"lose_ack", "half_ack"} & happened
    assert await seen(world) == set(keys)
    assert await world.outcomes() == {"finalized": OBJECTS}
    assert (await world.tally())["duplicate"] > 0
    assert mail.left() == mail.dead() == 0


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("by_content", [True, False], ids=["content", "explicit"])
async def test_a_fifo_queue_that_misbehaves_keeps_the_order_of_its_groups(
    world: World, aws: Aws, monkeypatch: pytest.MonkeyPatch, by_content: bool
):
    """Acknowledgements and answers get lost; each object counts once, in the order of its group."""
    # S3 cannot tell a FIFO queue by itself; somebody in between does, and names the groups.
    mail = Mail(aws, fifo=True, by_content=by_content, hidden_seconds=1, topic=False)
    groups = [f"g{n}" for n in range(OBJECTS // 40)]
    keys = [f"{group}-{n:03}" for n in range(20) for group in groups]
    await asyncio.to_thread(mail.put_many, keys)
    for key in keys:
        mail.publish(key, group=key.partition("-")[0], twice=True)
    await make_table(world)
    with anomaly(aws.endpoint, WORST_FIFO, seed=2) as between:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", between.endpoint)
        await world.run(counting(world, hg.S3Events(queue=mail.queue)))
    assert await seen(world) == set(keys)
    assert await world.outcomes() == {"finalized": len(keys)}
    assert mail.left() == mail.dead() == 0
    order: dict[str, list[str]] = defaultdict(list)
    for uri, subject in await world.rows("SELECT uri, subject FROM seen ORDER BY n"):
        order[subject].append(uri)
    assert set(order) == set(groups)
    assert all(a < b for uris in order.values() for a, b in pairwise(uris))


async def test_a_message_that_cannot_be_read_is_kept_and_costs_no_neighbour(world: World, aws: Aws):
    """Poison goes to quarantine with its bytes, is acknowledged, and the others are processed."""
    mail = Mail(aws, topic=False)
    mail.put("a.csv", b"1")
    mail.send("{not json")
    both = notification(mail.bucket, "b.csv")
    both["Records"].append({"eventVersion": "9.9"})
    mail.put("b.csv", b"2")
    mail.send(both)
    await make_table(world)
    await world.run(counting(world, hg.S3Events(queue=mail.queue)))
    assert await seen(world) == {"a.csv", "b.csv"}
    held = {(classed, reason) for classed, reason, _ in await world.quarantined()}
    assert len(held) == 2
    assert {classed for classed, _ in held} == {"schema"}
    bodies = {row[0] for row in await world.rows(
        "SELECT e.data FROM headgate.quarantine q JOIN headgate.entry e ON e.id = q.entry"
    )}  # fmt: skip
    assert b"{not json" in bodies
    assert mail.left() == 0


async def test_a_record_that_the_ledger_cannot_take_costs_no_neighbour(world: World, aws: Aws):
    """It is told apart from those that came with it, set aside, and acknowledged."""
    mail = Mail(aws, fifo=True, topic=False)
    source = _Cursed(queue=mail.queue)
    for n in range(7):
        mail.put(f"{n}", b"x")
        mail.send(
            notification(mail.bucket, f"{n}"), MessageGroupId="g", MessageDeduplicationId=f"{n}"
        )
    await make_table(world)
    await world.run(counting(world, source))
    assert await seen(world) == {"0", "1", "2", "4", "5", "6"}
    assert [(c, r) for c, r, _ in await world.quarantined()] == [("schema", "unfit")]
    assert mail.left() == 0


class _Cursed(hg.S3Events):
    """Tells something about `3` that no ledger can hold."""

    def read(self, delivery: Delivery, received_at: datetime) -> Sequence[hg.Envelope | Refused]:
        return [
            msgspec.structs.replace(e, subject="\0") if e.uri.endswith("/3") else e
            for e in super().read(delivery, received_at)
            if isinstance(e, hg.Envelope)
        ]


async def test_what_a_source_does_not_ask_for_is_acknowledged_and_counted(world: World, aws: Aws):
    """Filters and test events leave nothing in the queue and nothing in the ledger."""
    mail = Mail(aws)
    for key in ("in/a.csv", "in/a.txt", "out/a.csv", "in/ü b+c.csv"):
        mail.put(key, b"1")
    mail.send({"Service": "Amazon S3", "Event": "s3:TestEvent", "Time": "2026-01-01T00:00:00.000Z",
               "Bucket": mail.bucket, "RequestId": "r", "HostId": "h"})  # fmt: skip
    mail.send(notification("another", "in/x.csv"))
    await make_table(world)
    heard: list[float] = []
    stop = listen(lambda s, value, _: heard.append(value) if s is IGNORED else None)
    source = hg.S3Events(queue=mail.queue, bucket=mail.bucket, prefix="in/", suffix=(".csv",))
    await world.run(counting(world, source))
    stop()
    assert len(await seen(world)) == 2
    assert await world.outcomes() == {"finalized": 2}
    # ministack sends a test event of its own when a notification is set up.
    assert sum(heard) in (4, 5)
    assert mail.left() == 0


async def test_a_message_that_waits_for_the_end_is_held_until_it_is_done(world: World, aws: Aws):
    """`ack="finalized"`: the queue keeps it, nobody else gets it, and then it is gone."""
    mail = Mail(aws, hidden_seconds=3, topic=False)
    mail.put("slow", b"1")
    mail.put("bad", b"2")
    source = hg.S3Events(queue=mail.queue, ack="finalized")
    p = world.pipeline(sources=[source], retry=hg.RetryPlan("upstream-event", 1, 60, 0, 0, "full"))
    go_on = asyncio.Event()

    @p.transform
    async def wait(obj: hg.Object) -> None:
        if obj.uri.endswith("bad"):
            raise hg.Permanent("bad")
        await go_on.wait()

    running = asyncio.create_task(world.run(p))
    await until(lambda: answer(mail.left() == 1), seconds=30)  # the bad one is quarantined: done
    assert await world.outcomes() == {"quarantined:permanent": 1}
    await asyncio.sleep(3.5)  # longer than the queue hides it by itself
    assert mail.left() == 1
    go_on.set()
    await running
    assert mail.left() == 0
    assert await world.outcomes() == {"quarantined:permanent": 1, "finalized": 1}
    assert (await world.tally())["duplicate"] == 0, "it was never shown to anybody else"


async def test_dead_letters_go_into_quarantine_and_run_when_released(world: World, aws: Aws):
    """What the queue gave up on waits for a person; what was admitted after all is left alone."""
    mail = Mail(aws, receives=1, tells=False)
    for n, key in enumerate("ab"):
        mail.put(key, key.encode())
        mail.send(notification(mail.bucket, key, sequencer=f"{n}1"))
        if key == "a":  # nobody acknowledges it, and the queue gives up
            for _ in range(2):
                mail.sqs.receive_message(QueueUrl=mail.url, VisibilityTimeout=0)
    assert (mail.left(), mail.dead()) == (1, 1)
    p = counting(world, hg.S3Events(queue=mail.queue, dead_letters=mail.dead_letters))
    await make_table(world)
    await world.run(p)
    assert await seen(world) == {"b"}
    ((classed, reason, error),) = await world.quarantined()
    assert (classed, reason) == ("exhausted", "dead_letter")
    assert error.startswith("given up by")
    again = json.dumps(notification(mail.bucket, "b", sequencer="11"))
    mail.sqs.send_message(QueueUrl=mail.dead_url, MessageBody=again)
    await world.release(await world.val("SELECT entry FROM headgate.quarantine"))
    await world.run(p)
    assert await seen(world) == {"a", "b"}
    assert await world.quarantined() == []
    assert (mail.left(), mail.dead()) == (0, 0)


async def test_a_full_ledger_stops_the_receiving(
    world: World, aws: Aws, monkeypatch: pytest.MonkeyPatch
):
    """With enough to do, the rest stays in the queue, where it is as safe."""
    monkeypatch.setattr(drain, "RECEIVERS", 1)
    monkeypatch.setattr(drain, "LOOK_SECONDS", 0.05)
    mail = Mail(aws, topic=False)
    await asyncio.to_thread(mail.put_many, [f"{n}" for n in range(100)])
    source = hg.S3Events(queue=mail.queue)
    await make_table(world)
    p = counting(world, source)
    at = await world.register(p)
    one = Drain(world.db, at, source, Tuning(backlog_max=30))
    async with draining(one):
        await until(lambda: answer(mail.left() < 80), seconds=30)
        await asyncio.sleep(0.5)
        assert 30 <= await world.count("headgate.work") <= 50
        async with asyncio.timeout(30):
            while not await quiet(one):
                await world.work(p, workers=1)  # it ends when the ledger is empty for a moment
    await world.work(p, workers=1)
    assert len(await seen(world)) == 100


async def test_whoever_stops_gives_back_what_a_poll_still_brings(world: World, aws: Aws):
    """A poll is on its way when we stop. What it brings is at once there for others."""
    mail = Mail(aws, topic=False, hidden_seconds=300)
    wire = await open_wire(mail.queue)
    polling = asyncio.create_task(wire.receive())
    await asyncio.sleep(0.3)  # the poll is at the other end
    polling.cancel()
    mail.send("hello")
    await wire.close()
    got = mail.sqs.receive_message(QueueUrl=mail.url, WaitTimeSeconds=0)
    assert [m["Body"] for m in got["Messages"]] == ["hello"]


async def test_a_queue_that_is_not_there_is_named_at_once(world: World, aws: Aws):
    """`up` does not wait for a queue that nobody made; it says which one is meant."""
    with pytest.raises(ConfigError, match="there is no queue nowhere") as caught:
        await world.run(world.pipeline(sources=[hg.S3Events(queue="nowhere")]))
    assert caught.value.reason == "no_such_queue"
    assert "Make the queue" in caught.value.hint


@asynccontextmanager
async def draining(*drains: Drain) -> AsyncGenerator[None]:
    """Drains that run beside the block and are stopped in order."""
    tasks = [asyncio.create_task(one.run()) for one in drains]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def quiet(*drains: Drain) -> bool:
    return all(one.quiet.scanned for one in drains)


async def answer(yes: bool) -> bool:
    return yes
