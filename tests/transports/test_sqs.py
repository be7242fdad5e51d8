"""A queue of SQS as a wire: named, deleted in part, asked again, given up in words."""

from __future__ import annotations

import asyncio
import json

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError
from tests.aws.anomaly import Odds, anomaly
from tests.aws.emulator import Aws
from tests.aws.mail import Mail
from tests.promises.queue import answer
from tests.world import until

from headgate.errors import ConfigError, HeadgateError, PermissionDenied, Unavailable
from headgate.model.ports import Delivery
from headgate.net import queues
from headgate.transports import open_wire, sqs


@pytest.fixture
def mail(aws: Aws) -> Mail:
    return Mail(aws, tells=False, topic=False)


async def test_a_queue_is_named_by_name_url_or_arn(mail: Mail):
    """Whichever the operator has at hand."""
    for n, queue in enumerate([mail.queue, mail.url, mail.arn(mail.queue)]):
        mail.send(str(n))
        wire = await open_wire(queue)
        (delivery,) = await wire.receive()
        assert (delivery.body, delivery.times) == (str(n).encode(), 1)
        assert delivery.sent_at is not None
        assert await wire.ack([delivery]) == []
        assert await wire.left() == 0
        assert wire.hidden_seconds == 30
        await wire.close()


@pytest.mark.parametrize(
    "queue",
    ["", "a b", "https://example.com/", "arn:aws:s3:::bucket", "a" * 81, "https://h/12/q", "a/b"],
)
def test_what_cannot_be_a_queue_is_refused_without_asking(queue: str):
    """A slip of the pen is found before anything is started."""
    with pytest.raises(ConfigError, match="cannot be a queue"):
        queues.parse(queue)


def test_the_region_of_a_queue_is_read_from_its_address():
    """A queue in another region works without further settings."""
    url = "https://sqs.us-west-2.amazonaws.com/111122223333/orders.fifo"
    assert queues.parse(url) == queues.Queue("orders.fifo", "111122223333", "us-west-2", url)
    arn = "arn:aws:sqs:ap-south-1:111122223333:orders"
    assert queues.parse(arn) == queues.Queue("orders", "111122223333", "ap-south-1")
    assert queues.parse("http://127.0.0.1:4566/000000000000/orders").region is None


async def test_what_could_not_be_deleted_is_told(mail: Mail):
    """A batch may fail in part. The others of it are gone."""
    for n in range(12):
        mail.send(str(n))
    wire = await open_wire(mail.queue)
    found = [*await wire.receive(), *await wire.receive()]
    stale = Delivery("x", b"", "no such handle")
    left = await wire.ack([*found[:6], stale, *found[6:]])
    assert [d.id for d in left] in ([], ["x"])
    assert mail.left() == 0
    await wire.close()


async def test_a_delete_that_fails_in_part_is_tried_again(
    mail: Mail, aws: Aws, monkeypatch: pytest.MonkeyPatch
):
    """What fails for a moment is deleted a moment later."""
    for n in range(10):
        mail.send(str(n))
    with anomaly(aws.endpoint, Odds(half_ack=1.0)) as between:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", between.endpoint)
        wire = await open_wire(mail.queue)
        found = await wire.receive()
        acknowledging = asyncio.create_task(wire.ack(found))
        await until(lambda: answer(bool(between.did["half_ack"])))
        between.odds = Odds()
        assert await acknowledging == []
        await wire.close()
    assert mail.left() == 0


async def test_a_delivery_is_shown_again_when_asked_for(mail: Mail):
    """Given back with nothing to wait, it is there at once, and counts as the second time."""
    mail.send("a")
    wire = await open_wire(mail.queue)
    found = await wire.receive()
    await wire.later(found, 0)
    (again,) = await wire.receive()
    assert (again.body, again.times) == (b"a", 2)
    await wire.later([again], 600)
    assert await wire.receive() == []
    await wire.close()


async def test_a_fifo_queue_is_asked_again_under_the_same_attempt(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
):
    """The answer was lost on its way: SQS gives the same messages to the same attempt id."""
    mail = Mail(aws, fifo=True, topic=False)
    mail.send("a", MessageGroupId="g", MessageDeduplicationId="1")
    monkeypatch.setattr(sqs, "REQUESTS", 1)
    with anomaly(aws.endpoint, Odds()) as between:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", between.endpoint)
        wire = await open_wire(mail.queue)
        between.odds = Odds(cut_after=1.0)
        with pytest.raises(Unavailable):
            await wire.receive()
        between.odds = Odds()
        await wire.receive()
        await wire.receive()
        attempts = [
            json.loads(body)["ReceiveRequestAttemptId"]
            for action, body in between.bodies
            if action == "ReceiveMessage"
        ]
        await wire.close()
    first, again, fresh = attempts
    assert first == again != fresh


async def test_a_delivery_of_a_fifo_queue_carries_its_group_and_number(aws: Aws):
    """What orders it upstream orders it here."""
    mail = Mail(aws, fifo=True, topic=False)
    mail.send("a", MessageGroupId="g", MessageDeduplicationId="1")
    wire = await open_wire(mail.queue)
    (delivery,) = await wire.receive()
    assert delivery.attributes["MessageGroupId"] == "g"
    assert delivery.attributes["MessageDeduplicationId"] == "1"
    assert delivery.attributes["SequenceNumber"].isdigit()
    await wire.close()


async def test_an_endpoint_that_is_away_is_unavailable(aws: Aws, monkeypatch: pytest.MonkeyPatch):
    """It is waited for; the message says where to look."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setattr(sqs, "REQUESTS", 1)
    with pytest.raises(Unavailable, match="cannot be reached") as caught:
        await open_wire("orders")
    assert "AWS_ENDPOINT_URL" in caught.value.hint


@pytest.mark.parametrize(
    ("code", "status", "kind", "reason"),
    [
        ("AWS.SimpleQueueService.NonExistentQueue", 400, ConfigError, "no_such_queue"),
        ("QueueDoesNotExist", 400, ConfigError, "no_such_queue"),
        ("AccessDenied", 403, PermissionDenied, "permission"),
        ("KmsAccessDenied", 400, PermissionDenied, "permission"),
        ("ExpiredToken", 403, Unavailable, "credentials"),
        ("RequestThrottled", 400, Unavailable, "throttled"),
        ("Whatever", 429, Unavailable, "throttled"),
        ("OverLimit", 403, Unavailable, "over_limit"),
        ("InternalFailure", 500, Unavailable, "unavailable"),
    ],
)
def test_every_refusal_has_a_fate_and_a_hint(
    code: str, status: int, kind: type[HeadgateError], reason: str
):
    """What an operator can repair is told apart from what passes by itself."""
    said = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    told = queues.explain(ClientError(said, "ReceiveMessage"), "orders", "ReceiveMessage")
    assert type(told) is kind
    assert told.reason == reason
    assert told.hint
    assert "orders" in str(told)


def test_missing_credentials_and_a_broken_network_are_told_apart():
    """The first needs somebody, the second needs time."""
    assert isinstance(queues.explain(NoCredentialsError(), "q", "x"), ConfigError)
    away = EndpointConnectionError(endpoint_url="http://secret@host")
    told = queues.explain(away, "q", "x")
    assert isinstance(told, Unavailable)
    assert "secret" not in str(told)
