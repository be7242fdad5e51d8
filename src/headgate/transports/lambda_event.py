"""What AWS hands a Lambda: a batch of a queue, or one push. Read into deliveries, without I/O.

SQS          {"Records": [{"messageId": …, "body": …}]}     what fails is named, one by one
SNS          {"Records": [{"Sns": {"Message": …}}]}         all or nothing
S3           {"Records": [{"s3": {…}}]}                     all or nothing
EventBridge  {"detail-type": …, "detail": {…}}              all or nothing
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from headgate.errors import UsageError
from headgate.model.ports import Delivery

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Batch:
    """One invocation. Where a queue calls, `queue` is its name and failures are told by message."""

    deliveries: Sequence[Delivery]
    queue: str | None

    def failures(self, failed: Collection[str]) -> dict[str, list[dict[str, str]]]:
        """The answer that lets SQS delete the others."""
        listed = [delivery.id for delivery in self.deliveries if delivery.id in failed]
        return {"batchItemFailures": [{"itemIdentifier": id} for id in listed]}


def group_of(delivery: Delivery) -> str | None:
    """The message group of a FIFO queue's delivery."""
    return delivery.attributes.get("MessageGroupId")


def read_event(event: object) -> Batch:
    """The deliveries of an invocation. `UsageError` for what no service of AWS sends."""
    if isinstance(event, Mapping):
        given = cast("Event", event)
        records: object = given.get("Records")
        if isinstance(records, list) and records:
            return _records(cast("list[Event]", records))
        if "detail-type" in given and "detail" in given:
            return Batch([_pushed(str(given.get("id", "")), given)], None)
    raise UsageError(
        "this is no event of SQS, SNS, S3 or EventBridge",
        hint="Connect the function to a queue, with ReportBatchItemFailures.",
    )


def _records(records: list[Event]) -> Batch:
    first = records[0]
    source = first.get("eventSource") or first.get("EventSource")
    if source == "aws:sqs":
        queue = str(first.get("eventSourceARN", "")).rpartition(":")[2]
        return Batch([_message(record) for record in records], queue)
    if source == "aws:sns":
        return Batch(list(_topic(records)), None)
    # What is left is a notification of S3 or of a store that speaks like it; the source reads it.
    return Batch([_pushed("", {"Records": records})], None)


def _message(record: Event) -> Delivery:
    said = cast("Mapping[str, Event]", record.get("messageAttributes", {}))
    attributes = {
        name: str(one["stringValue"]) for name, one in said.items() if "stringValue" in one
    }
    attributes |= {str(k): str(v) for k, v in record.get("attributes", {}).items()}
    sent = attributes.get("SentTimestamp", "")
    return Delivery(
        id=str(record["messageId"]),
        body=str(record.get("body", "")).encode("utf-8", "surrogatepass"),
        handle=str(record.get("receiptHandle", "")),
        times=int(attributes.get("ApproximateReceiveCount", 1)),
        sent_at=datetime.fromtimestamp(int(sent) / 1000, UTC) if sent.isdecimal() else None,
        attributes=attributes,
    )


def _topic(records: list[Event]) -> Iterator[Delivery]:
    for record in records:
        told = cast("Event", record.get("Sns", {}))
        yield _pushed(str(told.get("MessageId", "")), told)


def _pushed(id: str, document: Event) -> Delivery:
    return Delivery(id=id, body=json.dumps(document).encode(), handle="")
