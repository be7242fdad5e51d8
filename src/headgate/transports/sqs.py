"""Queues of SQS, standard and FIFO.

A poll waits for messages at the other end. One that is cut off there may have taken messages along:
nobody has them, and nobody else gets them before their visibility ends. So a poll that was begun is
always heard to its end, and what it brings when nobody wants it any more is given back at once.

A FIFO queue is asked again under the same attempt id when an answer was lost, and answers the
same. It hands over nothing more of a group while messages of it are with us: that keeps its order.
"""

# botocore and aiobotocore come without types.
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from typing import Any, cast
from uuid import uuid4

from headgate.errors import HeadgateError, PermissionDenied, Unavailable
from headgate.model.ports import Delivery
from headgate.net import aws, queues

AT_ONCE = 10  # what SQS gives and takes with one request
# An idle queue is asked ever more rarely. Stopping waits for the poll that is on its way.
FIRST_WAIT_SECONDS = 1
LONGEST_WAIT_SECONDS = 10
CONNECT_SECONDS = 5
ANSWER_SECONDS = 20
REQUESTS = 3
CONNECTIONS = 50
ACK_TRIES = 4
FIRST_PAUSE_SECONDS = 0.1
DEFAULT_HIDDEN_SECONDS = 30.0
_STANDARD = [
    "ApproximateReceiveCount",
    "AWSTraceHeader",
    "DeadLetterQueueSourceArn",
    "SentTimestamp",
]
_FIFO = [*_STANDARD, "MessageGroupId", "SequenceNumber", "MessageDeduplicationId"]
_COUNTS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


async def open_queue(queue: str) -> SqsWire:
    """Find the queue and learn how long it hides what it handed over."""
    address = queues.parse(queue)
    stack = AsyncExitStack()
    try:
        client = await _client(stack, address, queue)
        url = address.url or await _url(client, address, queue)
        hidden = await _hidden_seconds(client, url, queue)
    except BaseException:
        await stack.aclose()
        raise
    return SqsWire(client, stack, url, queue, address.is_fifo, hidden)


class SqsWire:
    """One queue. Any number of tasks may receive and acknowledge at once."""

    def __init__(
        self,
        client: Any,
        stack: AsyncExitStack,
        url: str,
        queue: str,
        is_fifo: bool,
        hidden_seconds: float,
    ) -> None:
        self._client = client
        self._stack = stack
        self._url = url
        self._queue = queue
        self._is_fifo = is_fifo
        self.hidden_seconds = hidden_seconds
        self.at_once = AT_ONCE
        self._idle_since = time.monotonic()
        self._unanswered: list[str] = []
        self._polls: set[asyncio.Task[list[Delivery]]] = set()

    async def receive(self) -> Sequence[Delivery]:
        """Up to ten deliveries, as soon as there are any; none after some seconds."""
        poll = asyncio.create_task(self._poll())
        self._polls.add(poll)
        try:
            # Cancelled, we leave the poll behind; `close` hears it to its end.
            return await asyncio.shield(poll)
        finally:
            if poll.done():
                self._polls.discard(poll)

    async def ack(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """Delete them, ten at a time. What could not be deleted comes again, and is known then."""
        tens = [deliveries[at : at + AT_ONCE] for at in range(0, len(deliveries), AT_ONCE)]
        kept = await asyncio.gather(*(self._delete(ten) for ten in tens))
        return [delivery for ten in kept for delivery in ten]

    async def later(self, deliveries: Sequence[Delivery], seconds: float) -> None:
        """Show them again after so many seconds. One whose handle has expired is left alone."""
        tens = [deliveries[at : at + AT_ONCE] for at in range(0, len(deliveries), AT_ONCE)]
        await asyncio.gather(*(self._hide(ten, round(seconds)) for ten in tens))

    async def left(self) -> int:
        """About how many messages the queue holds, with those that somebody has in hand."""
        answer = await self._ask("get_queue_attributes", AttributeNames=list(_COUNTS))
        return sum(int(n) for n in answer.get("Attributes", {}).values())

    async def close(self) -> None:
        """Hear polls to their end, and give back what they bring."""
        for brought in await asyncio.gather(*self._polls, return_exceptions=True):
            if not isinstance(brought, BaseException) and brought:
                with suppress(HeadgateError):
                    await self.later(brought, 0)
        self._polls.clear()
        await self._stack.aclose()

    async def _poll(self) -> list[Delivery]:
        idle = int(time.monotonic() - self._idle_since)
        wait = min(max(idle // 2, FIRST_WAIT_SECONDS), LONGEST_WAIT_SECONDS)
        asked: dict[str, Any] = {"MaxNumberOfMessages": AT_ONCE, "WaitTimeSeconds": wait}
        attempt = ""
        if self._is_fifo:
            attempt = self._unanswered.pop() if self._unanswered else uuid4().hex
            asked["ReceiveRequestAttemptId"] = attempt
        try:
            answer = await self._ask(
                "receive_message",
                MessageSystemAttributeNames=_FIFO if self._is_fifo else _STANDARD,
                MessageAttributeNames=["All"],
                **asked,
            )
        except Unavailable:
            if attempt:
                self._unanswered.append(attempt)
            raise
        found = [_delivery(message) for message in answer.get("Messages", ())]
        if found:
            self._idle_since = time.monotonic()
        return found

    async def _delete(self, ten: Sequence[Delivery]) -> Sequence[Delivery]:
        """Those of them that could not be deleted. Some may go where others stay."""
        left = {str(n): delivery for n, delivery in enumerate(ten)}
        pause = FIRST_PAUSE_SECONDS
        for n in range(ACK_TRIES):
            if n:
                await asyncio.sleep(pause)
                pause *= 2
            asked = [{"Id": id_, "ReceiptHandle": d.handle} for id_, d in left.items()]
            try:
                answer = await self._ask("delete_message_batch", Entries=asked)
            except Unavailable:
                continue
            failed = {one["Id"]: one for one in answer.get("Failed", ())}
            left = {id_: delivery for id_, delivery in left.items() if id_ in failed}
            # What the sender got wrong (the handle has expired) stays wrong.
            if not left or all(failed[id_].get("SenderFault") for id_ in left):
                break
        return list(left.values())

    async def _hide(self, ten: Sequence[Delivery], seconds: int) -> None:
        entries = [
            {"Id": str(n), "ReceiptHandle": delivery.handle, "VisibilityTimeout": seconds}
            for n, delivery in enumerate(ten)
        ]
        await self._ask("change_message_visibility_batch", Entries=entries)

    async def _ask(self, method: str, **what: Any) -> dict[str, Any]:
        return await _ask(self._client, self._queue, method, QueueUrl=self._url, **what)


async def _client(stack: AsyncExitStack, address: queues.Queue, queue: str) -> Any:
    session = aws.session()
    from aiobotocore.config import AioConfig
    from botocore.exceptions import BotoCoreError

    limits = AioConfig(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=LONGEST_WAIT_SECONDS + ANSWER_SECONDS,
        max_pool_connections=CONNECTIONS,
        parameter_validation=False,  # what is asked is written in this file
        retries={"mode": "standard", "total_max_attempts": REQUESTS},
    )
    try:
        creating = session.create_client("sqs", region_name=address.region, config=limits)
        return await stack.enter_async_context(creating)
    except (BotoCoreError, ValueError) as error:
        raise queues.misconfigured(error, queue) from None


async def _ask(client: Any, queue: str, method: str, **what: Any) -> dict[str, Any]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return cast("dict[str, Any]", await getattr(client, method)(**what))
    except (ClientError, BotoCoreError, OSError) as error:
        raise queues.explain(
            error, queue, method.removesuffix("_batch").title().replace("_", "")
        ) from None


async def _url(client: Any, address: queues.Queue, queue: str) -> str:
    owner = {"QueueOwnerAWSAccountId": address.account} if address.account else {}
    answer = await _ask(client, queue, "get_queue_url", QueueName=address.name, **owner)
    return answer["QueueUrl"]


async def _hidden_seconds(client: Any, url: str, queue: str) -> float:
    asked = {"QueueUrl": url, "AttributeNames": ["VisibilityTimeout"]}
    try:
        answer = await _ask(client, queue, "get_queue_attributes", **asked)
    except PermissionDenied:
        # Who may receive and delete can do without; then SQS's own default is the careful guess.
        return DEFAULT_HIDDEN_SECONDS
    return max(float(answer.get("Attributes", {}).get("VisibilityTimeout", 0)), 1.0)


def _delivery(message: dict[str, Any]) -> Delivery:
    system: dict[str, str] = message.get("Attributes", {})
    said: dict[str, dict[str, Any]] = message.get("MessageAttributes", {})
    attributes = {name: v["StringValue"] for name, v in said.items() if "StringValue" in v}
    sent = system.get("SentTimestamp")
    return Delivery(
        id=message["MessageId"],
        body=message["Body"].encode("utf-8", "surrogatepass"),
        handle=message["ReceiptHandle"],
        times=int(system.get("ApproximateReceiveCount", 1)),
        sent_at=datetime.fromtimestamp(int(sent) / 1000, UTC) if sent else None,
        attributes=attributes | system,
    )
