"""Orders in a bucket, by EventBridge to a FIFO queue: those of one region one after the other.

headgate up examples/sqs-fifo/pipeline.py
"""

import json
import os
from collections.abc import Iterator
from typing import TypedDict

import headgate as hg

orders = hg.Pipeline(
    "orders",
    sources=[
        hg.S3Events(
            queue=os.environ.get("ORDERS_QUEUE", "orders-events.fifo"),
            dead_letters=os.environ.get("ORDERS_DEAD_LETTERS", "orders-dead-letters.fifo"),
            suffix=".json",
        )
    ],
    store=os.environ.get("ORDERS_STORE", "lake/"),
    version="1",
)


class Order(TypedDict):
    order_id: str
    customer: str
    state: str


@orders.rows("customer_order", key="order_id", schema=Order)
def one_order(obj: hg.Object, run: hg.Run) -> Iterator[dict[str, str]]:
    yield json.loads(obj.text())
