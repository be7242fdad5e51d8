"""`headgate doctor` on real queues, topics and buckets of an emulated AWS account."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncIterable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.aws.emulator import Aws
from tests.aws.messaging import PLAN, build

import headgate as hg
from headgate.model.check import Check
from headgate.transports.look import check_clock, look


async def gathered(checks: AsyncIterable[Check]) -> list[Check]:
    return [check async for check in checks]


def told(checks: list[Check], *states: str) -> list[tuple[str, str]]:
    return [(check.name, check.state) for check in checks if check.state in states]


async def test_a_way_that_is_built_right_has_nothing_wrong(aws: Aws) -> None:
    """From the bucket to the queue, everything is looked at and nothing is found."""
    checks = await gathered(look(build(aws), PLAN))
    assert not told(checks, "warn", "fail"), checks
    assert {check.name for check in checks} == {
        "credentials",
        "dns",
        "clock",
        "queue",
        "visibility",
        "retention",
        "encryption",
        "dead letters",
        "policy",
        "notifications",
        "subscription",
        "versioning",
    }
    (found,) = [check for check in checks if check.name == "credentials"]
    assert "the environment" in found.text


async def test_mistakes_on_the_way_are_found(aws: Aws) -> None:
    """A short visibility, an early end, a filter that is narrower than the pipeline's."""
    source = build(aws, VisibilityTimeout="30")
    source.suffix = None
    checks = await gathered(look(source, PLAN))
    assert told(checks, "fail") == [("visibility", "fail"), ("notifications", "fail")]


async def test_the_repair_repairs(aws: Aws) -> None:
    """What the hint says is what makes the finding go away."""
    source = build(aws, VisibilityTimeout="30")
    (found,) = [c for c in await gathered(look(source, PLAN)) if c.state == "fail"]
    url, wanted = found.hint.split("--queue-url ")[1].split(" --attributes ")
    aws.client("sqs").set_queue_attributes(QueueUrl=url, Attributes=json.loads(wanted.strip("'")))
    assert not told(await gathered(look(source, PLAN)), "fail")


async def test_a_queue_that_is_not_there_is_one_finding(aws: Aws) -> None:
    """By name or by address: it says which, and how to make it."""
    for named in ("no-such-queue", f"{aws.endpoint}/000000000000/no-such-queue"):
        checks = await gathered(look(hg.S3Events(queue=named), PLAN))
        assert told(checks, "fail") == [("queue", "fail")]
        assert "there is no queue no-such-queue" in checks[-1].text


async def test_a_bucket_that_is_not_there_is_found(aws: Aws) -> None:
    """The queue is still looked at."""
    source = build(aws)
    source.bucket = "no-such-bucket"
    checks = await gathered(look(source, PLAN))
    assert told(checks, "fail") == [("bucket", "fail")]


async def test_without_credentials_nothing_else_is_asked(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One finding, with every way to get some."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    checks = await gathered(look(hg.S3Events(queue="rain"), PLAN))
    assert told(checks, "ok", "warn", "fail") == [("credentials", "fail")]
    assert "aws sso login" in checks[0].hint


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address that takes connections and hangs up on each."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        threading.Thread(target=hang_up, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


async def test_an_aws_that_cannot_be_reached_is_a_finding(
    aws: Aws, monkeypatch: pytest.MonkeyPatch, nobody: str
) -> None:
    """The doctor does not fall ill itself."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", nobody)
    checks = await gathered(look(hg.S3Events(queue="rain"), PLAN))
    assert ("queue", "fail") in told(checks, "fail")


@pytest.mark.parametrize(("seconds", "state"), [(1, "ok"), (90, "warn"), (-400, "fail")])
def test_a_clock_that_is_off_is_found_before_aws_refuses_it(seconds: int, state: str) -> None:
    """AWS takes nothing that is five minutes off."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert check_clock(now - timedelta(seconds=seconds), now).state == state
