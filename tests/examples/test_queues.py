"""The examples that drain queues run as they are written, against an emulated AWS."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.aws.emulator import Aws
from tests.aws.mail import Mail, notification
from tests.world import World

EXAMPLES = Path(__file__).parents[2] / "examples"


async def test_the_standard_queue_example_fills_its_table(
    world: World, aws: Aws, monkeypatch: pytest.MonkeyPatch
):
    """Files put into the bucket are rows; the empty one is in quarantine; a repetition is none."""
    mail = Mail(aws)
    monkeypatch.setenv("RAIN_QUEUE", mail.url)
    monkeypatch.setenv("RAIN_DEAD_LETTERS", mail.dead_url)
    monkeypatch.setenv("RAIN_STORE", str(world.lake))
    for n in (1, 2, 1):
        mail.put(f"{n}.csv", f"station,at,mm\noslo-{n},2026-01-05T06:00:00Z,1.5\n".encode())
    mail.put("empty.csv")
    mail.put("note.txt", b"not asked for")
    await world.up(EXAMPLES / "sqs-standard" / "pipeline.py")
    assert await world.table("reading", "station") == [("oslo-1",), ("oslo-2",)]
    assert [(c, r) for c, r, _ in await world.quarantined()] == [("schema", "empty")]
    assert (await world.outcomes())["finalized"] == 2
    assert (mail.left(), mail.dead()) == (0, 0)


async def test_the_fifo_queue_example_keeps_the_order_of_a_region(
    world: World, aws: Aws, monkeypatch: pytest.MonkeyPatch
):
    """States of an order come one after the other; the last one stands."""
    mail = Mail(aws, fifo=True, topic=False)
    monkeypatch.setenv("ORDERS_QUEUE", mail.arn(mail.queue))
    monkeypatch.setenv("ORDERS_DEAD_LETTERS", mail.arn(mail.dead_letters))
    monkeypatch.setenv("ORDERS_STORE", str(world.lake))
    for n, state in enumerate(("placed", "paid", "sent")):
        key = f"north/7-{state}.json"
        order = {"order_id": "7", "customer": "c", "state": state}
        mail.put(key, json.dumps(order).encode())
        mail.send(
            notification(mail.bucket, key, sequencer=f"{n + 1}1"),
            MessageGroupId="north",
            MessageDeduplicationId=key,
        )
    await world.up(EXAMPLES / "sqs-fifo" / "pipeline.py")
    assert await world.outcomes() == {"finalized": 3}
    assert await world.table("customer_order", "order_id", "state") == [("7", "sent")]
    assert mail.left() == 0
