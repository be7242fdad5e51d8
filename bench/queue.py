"""A queue of SQS: received, admitted, deleted, beside a loop that only receives and deletes.

Both talk to the same emulator of AWS, with the same client and as many requests at a time. The
emulator is slower than SQS and shares the machine: the share tells what the ledger adds.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import headgate as hg
from headgate.ledger import FUNCTIONS, MIGRATIONS
from headgate.model.ports import Delivery
from headgate.net import aws
from headgate.pg import Database, migrate
from headgate.runtime import drain, loop, station
from headgate.runtime.tuning import Tuning
from headgate.transports import sqs
from headgate.transports.sqs import CONNECTIONS

from .files import row
from .gate import set_as_up_does
from .job import Count
from .result import Figure, Row
from .server import Place

MESSAGES = 5000
HOW = "one process drains a queue on an emulator of AWS; bare: the same without the ledger"


@contextmanager
def _emulator() -> Iterator[Any]:
    from tests.aws.emulator import running

    folder = Path(tempfile.mkdtemp(prefix="hg-bench-aws-"))
    try:
        with running(folder) as emulated:
            os.environ.update(emulated.env)
            yield emulated
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _message(n: int) -> str:
    about = {"key": f"in/{n:07}.csv", "size": 8192, "eTag": f"{n:032x}", "sequencer": f"{n:016X}"}
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "eu-central-1",
        "eventTime": "2026-01-01T12:00:00.000Z",
        "eventName": "ObjectCreated:Put",
        "userIdentity": {"principalId": "AWS:EXAMPLE"},
        "requestParameters": {"sourceIPAddress": "192.0.2.1"},
        "responseElements": {"x-amz-request-id": f"R{n}", "x-amz-id-2": "x" * 60},
        "s3": {"s3SchemaVersion": "1.0", "bucket": {"name": "uploads"}, "object": about},
    }
    return json.dumps({"Records": [record]}, separators=(",", ":"))


def _fill(emulated: Any, n: int) -> str:
    """A new queue with as many messages in it; its name."""
    queue, client = emulated.name("bench"), emulated.client("sqs")
    url = client.create_queue(QueueName=queue)["QueueUrl"]
    for at in range(0, n, sqs.AT_ONCE):
        those = range(at, min(at + sqs.AT_ONCE, n))
        told = [{"Id": str(k), "MessageBody": _message(k)} for k in those]
        client.send_message_batch(QueueUrl=url, Entries=told)
    return queue


async def _bare(queue: str, n: int) -> float:
    """Receive and delete until all are gone, as a loop without a ledger would."""
    left = n
    from aiobotocore.config import AioConfig

    # The settings that Headgate has, so that the ledger is all the difference.
    same = AioConfig(max_pool_connections=CONNECTIONS, parameter_validation=False)
    async with aws.session().create_client("sqs", config=same) as client:
        url = (await client.get_queue_url(QueueName=queue))["QueueUrl"]

        async def work() -> None:
            nonlocal left
            while left > 0:
                answer = await client.receive_message(
                    QueueUrl=url, MaxNumberOfMessages=sqs.AT_ONCE, WaitTimeSeconds=1
                )
                handles = [m["ReceiptHandle"] for m in answer.get("Messages", ())]
                if handles:
                    entries = [{"Id": str(k), "ReceiptHandle": h} for k, h in enumerate(handles)]
                    await client.delete_message_batch(QueueUrl=url, Entries=entries)
                    left -= len(handles)

        began = perf_counter()
        working = [asyncio.create_task(work()) for _ in range(drain.RECEIVERS)]
        await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
        seconds = perf_counter() - began
        await asyncio.gather(*working)
    return seconds


async def _drained(url: str, folder: Path, queue: str, n: int) -> tuple[float, Count]:
    """The same by way of the ledger, until the last one is deleted."""
    source = hg.S3Events(queue=queue)
    pipeline = hg.Pipeline("queue", sources=[source], store=str(folder / queue))
    done, acknowledged, began = asyncio.Event(), 0, 0.0

    async def opened(name: str) -> sqs.SqsWire:
        nonlocal began
        wire = await sqs.open_queue(name)
        acknowledge = wire.ack

        async def counted(deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
            nonlocal acknowledged
            left = await acknowledge(deliveries)
            acknowledged += len(deliveries) - len(left)
            if acknowledged >= n:
                done.set()
            return left

        wire.ack = counted
        began = perf_counter()  # as for the bare loop: once there is a client
        return wire

    async with await Database.open(url) as db:
        await migrate.migrate(db, MIGRATIONS, FUNCTIONS)
        to = await station.register(db, pipeline)
        drain.open_wire = opened
        task = asyncio.create_task(drain.Drain(db, to, source, Tuning()).run())
        await done.wait()
        seconds = perf_counter() - began
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        entries = await db.fetchval("SELECT count(*) FROM headgate.entry")
    return seconds, Count(max(0, n - entries), max(0, entries - n))


def drained(place: Place, reps: int, n: int = MESSAGES) -> tuple[list[Row], list[Figure]]:
    """As many messages by the bare loop and by way of the ledger, in turn."""
    runs: list[tuple[float, float, Count]] = []
    with _emulator() as emulated:

        def bare() -> float:
            queue = _fill(emulated, n)
            return loop.run(lambda: _bare(queue, n))

        set_as_up_does()
        before = bare()
        for _ in range(reps):
            url, queue = loop.run(place.fresh), _fill(emulated, n)
            seconds, counted = loop.run(
                lambda url=url, queue=queue: _drained(url, place.folder, queue, n)
            )
            after = bare()
            runs.append((seconds, (before + after) / 2, counted))
            before = after
    return [row("sqs", HOW, n, runs)], []
