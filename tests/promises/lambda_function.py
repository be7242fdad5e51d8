"""A Lambda in front of the ledger: what it does not name is durable, and nothing is done twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.aws.emulator import Aws
from tests.aws.messaging import build
from tests.world import World, until

import headgate as hg
from headgate.errors import ConfigError, UsageError
from headgate.net.loop import background, wait
from headgate.runtime.invoke import Door

# A pipeline as its author writes it, with a source that reads messages of its own kind.
PIPELINE = """
import json
from datetime import UTC, datetime

import headgate as hg
from headgate.model.envelope import Refused


class Orders:
    name, provider, queue, dead_letters, ack = "orders", "s3", "orders", None, "admitted"

    def check(self): pass
    def owns(self, uri): return False
    def fetch(self, envelope): return []

    def read(self, delivery, received_at):
        told = json.loads(delivery.body)
        if told == "test":
            return []
        if told == "poison":
            raise RuntimeError("this source has a bug")
        if told == "nul":
            told = "a\\0b"
        if told == "garbage":
            return [Refused("unknown_shape", "$", "it announces nothing", delivery.body)]
        if isinstance(told, dict):
            told = told.get("Message") or told.get("detail") or told["Records"][0]["s3"]
        return [
            hg.Envelope(
                event_id=told, source="s3:ObjectCreated:Put", provider="s3", detector="event",
                uri=f"s3://b/{told}", event_time=received_at, received_at=received_at,
                subject=delivery.attributes.get("MessageGroupId"), data=told.encode(),
            )
        ]


orders = hg.Pipeline("orders", sources=[Orders()], store=STORE)


@orders.transform
def copy(obj, run):
    return {"copy.txt": obj.text()}


handler = hg.aws_lambda(orders)
"""

# Lambda's own part: an interpreter that imports the file and is handed events.
INVOKE = """
import json, os, signal, sys
from headgate.model import crash
from headgate.model.entry import Point
from pipeline import handler

if sys.argv[1] == "die":
    crash.arm(Point.AFTER_RECEIVE, lambda: os.kill(os.getpid(), signal.SIGKILL))
print(json.dumps(handler(json.loads(sys.argv[2]))))
"""

Handler = Callable[..., Any]


class Function:
    """A function of Lambda on the world's ledger, in this process or in one of its own."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.file = world.folder / "pipeline.py"
        self.file.write_text(PIPELINE.replace("STORE", repr(str(world.lake))))
        monkeypatch.chdir(world.folder)
        monkeypatch.setenv("HEADGATE_DATABASE_URL", world.url)

    def load(self) -> dict[str, Any]:
        """What a fresh import of the file defines: a cold start."""
        names: dict[str, Any] = {"__name__": "pipeline"}
        exec(compile(self.file.read_text(), str(self.file), "exec"), names)
        return names

    def start(self, how: str, event: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", INVOKE, how, json.dumps(event)],
            cwd=self.world.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(self.world.folder)},
        )


@pytest.fixture
def function(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Function]:
    """Its connections end with the test, not with the process as they do in Lambda."""
    yield Function(world, monkeypatch)
    for door in list(background().kept.values()):
        if isinstance(door, Door):
            wait(door.close())


def batch(*told: object, groups: str = "") -> dict[str, Any]:
    """What SQS hands a Lambda; a letter of `groups` makes it a FIFO message of that group."""
    records = [
        {
            "messageId": f"m{n}",
            "receiptHandle": f"h{n}",
            "body": json.dumps(each),
            "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1767225600000"}
            | ({"MessageGroupId": groups[n]} if groups else {}),
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:eu-central-1:1:orders",
        }
        for n, each in enumerate(told)
    ]
    return {"Records": records}


def failed(answer: dict[str, Any]) -> list[str]:
    return [each["itemIdentifier"] for each in answer["batchItemFailures"]]


async def invoke(handler: Handler, event: object, *context: object) -> Any:
    """Lambda calls from a thread without a loop."""
    return await asyncio.to_thread(handler, event, *context)


async def uris(world: World) -> list[str]:
    return [uri for (uri,) in await world.rows("SELECT uri FROM headgate.entry ORDER BY uri")]


async def test_what_a_queue_hands_over_is_admitted_once(world: World, function: Function) -> None:
    """Again and again in one process, over one connection; a repeat is a duplicate."""
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    before = await world.val(others)
    names = function.load()
    for _ in range(3):
        assert failed(await invoke(names["handler"], batch("a", "b", "test"))) == []
    assert failed(await invoke(names["handler"], batch("c"))) == []
    assert await world.val(others) == before + 1
    assert await uris(world) == ["s3://b/a", "s3://b/b", "s3://b/c"]
    assert (await world.tally())["duplicate"] == 4
    await world.work(names["orders"])
    assert await world.outcomes() == {"finalized": 3}


async def test_a_function_that_wakes_with_dead_connections_goes_on(
    world: World, function: Function
) -> None:
    """Frozen for an hour, its connection is gone; the next event does not pay for it."""
    handler = function.load()["handler"]
    ours = await world.rows("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
    await invoke(handler, batch("a"))
    killed = await world.val(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND NOT pid = ANY($1)",
        [pid for (pid,) in ours],
    )
    assert killed == 1
    assert failed(await invoke(handler, batch("b"))) == []
    assert await uris(world) == ["s3://b/a", "s3://b/b"]


async def test_a_bad_message_costs_none_of_its_neighbours(world: World, function: Function) -> None:
    """What cannot be read or kept comes again, alone; what announces nothing is set aside."""
    handler = function.load()["handler"]
    assert failed(await invoke(handler, batch("a", "poison", "b"))) == ["m1"]
    assert failed(await invoke(handler, batch("c", "nul", "d"))) == ["m1"]
    assert failed(await invoke(handler, batch("e", "garbage"))) == []
    assert [u for u in await uris(world) if u.startswith("s3:")] == [f"s3://b/{c}" for c in "abcde"]
    assert [(c, reason) for c, reason, _ in await world.quarantined()] == [
        ("schema", "unknown_shape")
    ]


async def test_nothing_of_a_group_overtakes_a_failure(world: World, function: Function) -> None:
    """FIFO: everything after the first failure of its group comes again, and is not admitted."""
    handler = function.load()["handler"]
    event = batch("a1", "b1", "poison", "a2", "b2", "a3", groups="abaaba")
    assert failed(await invoke(handler, event)) == ["m2", "m3", "m5"]
    assert await uris(world) == ["s3://b/a1", "s3://b/b1", "s3://b/b2"]


async def test_with_the_ledger_away_everything_comes_again(
    world: World, function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is acknowledged that is not durable; a push fails, so that Lambda repeats it."""
    monkeypatch.setenv("HEADGATE_DATABASE_URL", "postgresql://u@127.0.0.1:1/nobody")
    handler = function.load()["handler"]
    assert failed(await invoke(handler, batch("a", "b"))) == ["m0", "m1"]
    with pytest.raises(hg.Unavailable):
        await invoke(handler, {"detail-type": "Object Created", "id": "1", "detail": "a"})
    monkeypatch.setenv("HEADGATE_DATABASE_URL", world.url)
    assert failed(await invoke(function.load()["handler"], batch("a", "b"))) == []
    assert await uris(world) == ["s3://b/a", "s3://b/b"]


async def test_pushes_of_sns_s3_and_eventbridge_are_admitted(
    world: World, function: Function
) -> None:
    """Without a queue there is nothing to name: it worked, or it raises."""
    handler = function.load()["handler"]
    sns = {"Type": "Notification", "MessageId": "1", "Message": "by-sns"}
    pushes = [
        {"Records": [{"EventSource": "aws:sns", "EventVersion": "1.0", "Sns": sns}]},
        {"Records": [{"eventSource": "aws:s3", "s3": "by-s3"}]},
        {"detail-type": "Object Created", "source": "aws.s3", "id": "1", "detail": "by-bridge"},
    ]
    for push in pushes:
        assert await invoke(handler, push) is None
    assert await uris(world) == ["s3://b/by-bridge", "s3://b/by-s3", "s3://b/by-sns"]
    with pytest.raises(hg.HeadgateError):
        await invoke(handler, {"Records": [{"EventSource": "aws:sns", "Sns": {"Message": "a\0b"}}]})


async def test_killed_between_commit_and_answer_it_is_done_once(
    world: World, function: Function
) -> None:
    """SQS never hears of it and sends again; the ledger knows it already."""
    dying = function.start("die", batch("a", "b"))
    await asyncio.to_thread(dying.communicate)
    assert dying.returncode == -signal.SIGKILL
    assert await uris(world) == ["s3://b/a", "s3://b/b"]
    names = function.load()
    assert failed(await invoke(names["handler"], batch("a", "b"))) == []
    await world.work(names["orders"])
    assert await world.outcomes() == {"finalized": 2}


async def test_cold_functions_at_once_admit_once(world: World, function: Function) -> None:
    """Lambda starts several, and SQS hands some of them the same messages."""
    event = batch(*(f"o{n}" for n in range(10)))
    started = [function.start("live", event) for _ in range(2)]
    ends = await asyncio.gather(*(asyncio.to_thread(p.communicate) for p in started))
    assert [json.loads(out) for out, _ in ends] == [{"batchItemFailures": []}] * 2, ends
    assert len(await uris(world)) == 10
    assert (await world.tally())["duplicate"] == 10


class Hurry:
    """An invocation that has little time left."""

    def get_remaining_time_in_millis(self) -> int:
        return 1300


async def test_an_invocation_that_runs_out_of_time_still_answers(
    world: World, function: Function
) -> None:
    """All of it comes again, before Lambda would kill the function without an answer."""
    handler = function.load()["handler"]
    await invoke(handler, batch("a"))
    async with world.db.transaction() as link:
        await link.execute("LOCK TABLE headgate.entry IN ACCESS EXCLUSIVE MODE")
        assert failed(await invoke(handler, batch("b", "c"), Hurry())) == ["m0", "m1"]
    assert failed(await invoke(handler, batch("b", "c"))) == []
    assert await uris(world) == ["s3://b/a", "s3://b/b", "s3://b/c"]


async def test_a_function_refuses_what_it_cannot_share(
    world: World, function: Function, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No database of its own, no folder of its own, no queue it was not declared for."""
    monkeypatch.setenv("HEADGATE_DATABASE_URL", "embedded")
    with pytest.raises(ConfigError, match="no database of its own"):
        await invoke(function.load()["handler"], batch("a"))
    monkeypatch.setenv("HEADGATE_DATABASE_URL", world.url)
    here = hg.Pipeline("here", sources=function.load()["orders"].sources, store="lake/")
    with pytest.raises(ConfigError, match="folder here"):
        await invoke(hg.aws_lambda(here), batch("a"))
    deaf = hg.Pipeline("deaf", sources=[world.directory()], store=str(world.lake))
    with pytest.raises(UsageError, match="no source that listens"):
        await invoke(hg.aws_lambda(deaf), batch("a"))
    for nonsense in ({}, {"Records": []}, [], None, {"body": "x"}):
        with pytest.raises(UsageError, match="no event of"):
            await invoke(function.load()["handler"], nonsense)


def handed_over(aws: Aws, queue: str) -> list[dict[str, Any]]:
    """What a queue holds, as its event source mapping hands it to a Lambda."""
    sqs = aws.client("sqs")
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    answer = sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1, AttributeNames=["All"]
    )
    return [
        {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message["Attributes"],
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:{aws.region}:000000000000:{queue}",
        }
        for message in answer.get("Messages", ())
    ]


async def test_from_a_bucket_by_topic_queue_and_lambda_to_the_effect(
    world: World, function: Function, aws: Aws
) -> None:
    """Real notifications, and S3's test event, all handed over twice; each object is done once."""
    source = build(aws)
    pipeline = world.pipeline("files", sources=[source])

    @pipeline.transform
    def copy(obj: hg.Object) -> dict[str, str]:
        return {"copy.txt": obj.text()}

    handler = hg.aws_lambda(pipeline)
    for name in ("a b+c.csv", "d.csv", "not-asked-for.txt"):
        aws.client("s3").put_object(Bucket=source.bucket, Key=name, Body=name.encode())
    records: list[dict[str, Any]] = []

    async def both_there() -> bool:
        records.extend(await asyncio.to_thread(handed_over, aws, source.queue))
        return sum(".csv" in record["body"] for record in records) >= 2

    await until(both_there, seconds=30)
    for _ in range(2):
        assert failed(await invoke(handler, {"Records": records})) == []
    await world.work(pipeline)
    assert await uris(world) == [f"s3://{source.bucket}/{n}" for n in ("a%20b+c.csv", "d.csv")]
    assert await world.outcomes() == {"finalized": 2}
    assert (await world.tally())["duplicate"] >= 2
