"""The other side of a queue: a bucket whose changes are told by SNS or directly, and what is left.

mail = Mail(aws)                 # bucket → SNS → SQS, as infra/terraform/messaging sets it up
mail.put("a.csv", b"1")
hg.S3Events(queue=mail.queue)
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from tests.aws.emulator import Aws

ACCOUNT = "000000000000"
HEARD_SECONDS = 30


class Mail:
    """A bucket, a queue, and a dead letter queue behind it. Names are of this test alone."""

    def __init__(
        self,
        aws: Aws,
        *,
        fifo: bool = False,
        by_content: bool = False,
        hidden_seconds: int = 30,
        receives: int = 100,
        topic: bool = True,
        tells: bool = True,
        versions: bool = False,
    ) -> None:
        self.aws = aws
        self.sqs: Any = aws.client("sqs")
        self.sns: Any = aws.client("sns")
        self.s3: Any = aws.client("s3")
        self._by_content = by_content
        end = ".fifo" if fifo else ""
        self.bucket = aws.bucket("uploads", versions=versions)
        self.dead_letters = aws.name("dead") + end
        self.queue = aws.name("uploads") + end
        kind = {"FifoQueue": "true"} if fifo else {}
        self.dead_url: str = self._make(self.dead_letters, kind)
        redrive = {"deadLetterTargetArn": self.arn(self.dead_letters), "maxReceiveCount": receives}
        content = {"ContentBasedDeduplication": "true"} if by_content else {}
        self.url: str = self._make(
            self.queue,
            kind
            | content
            | {"VisibilityTimeout": str(hidden_seconds), "RedrivePolicy": json.dumps(redrive)},
        )
        self.topic = self._topic() if topic else None
        self._tells = tells and not fifo
        if self._tells:
            self._tell()

    def _make(self, name: str, attributes: dict[str, str]) -> str:
        return self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]

    def _topic(self) -> str:
        made = self.sns.create_topic(Name=self.aws.name("uploads"))
        topic: str = made["TopicArn"]
        self.sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=self.arn(self.queue))
        return topic

    def _tell(self) -> None:
        """Have the bucket tell about its objects, by SNS or directly."""
        events = ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]
        if self.topic:
            told = {"TopicConfigurations": [{"TopicArn": self.topic, "Events": events}]}
        else:
            told = {"QueueConfigurations": [{"QueueArn": self.arn(self.queue), "Events": events}]}
        self.s3.put_bucket_notification_configuration(
            Bucket=self.bucket, NotificationConfiguration=told
        )

    def arn(self, queue: str) -> str:
        return f"arn:aws:sqs:{self.aws.region}:{ACCOUNT}:{queue}"

    def put(self, key: str, body: bytes = b"") -> dict[str, Any]:
        """Write an object. A standard queue hears of it by itself; a FIFO queue is told."""
        with self._heard(1):
            return self._put(key, body)

    def put_many(self, keys: Sequence[str], threads: int = 4) -> None:
        with self._heard(len(keys)), ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda key: self._put(key, key.encode()), keys))

    def _put(self, key: str, body: bytes) -> dict[str, Any]:
        return self.s3.put_object(Bucket=self.bucket, Key=key, Body=body)

    @contextmanager
    def _heard(self, more: int) -> Iterator[None]:
        """S3 tells some time after it has answered: go on when the queue has heard of it.

        An `up --until-idle` that began sooner would find nothing to do, and be right. Nobody may
        acknowledge messages meanwhile.
        """
        if not self._tells:
            yield
            return
        due = self.left() + more
        yield
        until = time.monotonic() + HEARD_SECONDS
        while self.left() < due:
            assert time.monotonic() < until, f"the queue heard of {self.left()} objects of {due}"
            time.sleep(0.01)  # the emulator says nothing when it has told

    def send(self, body: str | dict[str, Any], **more: Any) -> None:
        """Put a message onto the queue by hand."""
        text = body if isinstance(body, str) else json.dumps(body)
        self.sqs.send_message(QueueUrl=self.url, MessageBody=text, **more)

    def publish(self, key: str, *, group: str, twice: bool = False) -> None:
        """Tell of an object in the order of a group; twice, as a sender that got no answer."""
        said = json.dumps(notification(self.bucket, key))
        more = {} if self._by_content else {"MessageDeduplicationId": f"{group}/{key}"}
        for _ in range(1 + twice):
            self.send(said, MessageGroupId=group, **more)

    def left(self) -> int:
        """Messages in the queue, visible or not."""
        return self._count(self.url)

    def dead(self) -> int:
        return self._count(self.dead_url)

    def _count(self, url: str) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        got = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return sum(int(n) for n in got.values())


def notification(bucket: str, key: str, *, sequencer: str | None = None, **more: Any) -> Any:
    """A notification of S3 about one object, as S3 writes it."""
    about: dict[str, Any] = {"key": key, "size": 1, **more}
    if sequencer is not None:
        about["sequencer"] = sequencer
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "eu-central-1",
        "eventTime": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
        "eventName": "ObjectCreated:Put",
        "s3": {"s3SchemaVersion": "1.0", "bucket": {"name": bucket}, "object": about},
    }
    return {"Records": [record]}
