"""`headgate doctor` on queues and buckets: every mistake is found, and told with its repair."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from headgate.model.check import Check
from headgate.model.queue_plan import queue_plan
from headgate.model.verdict import UPSTREAM
from headgate.transports.checkup import Queue, check_dead_letters, check_queue
from headgate.transports.checkup_way import Bucket, Wanted, check_bucket, check_senders

PLAN = queue_plan(UPSTREAM, ack="admitted", deadline_seconds=3600)
LATE = queue_plan(UPSTREAM, ack="finalized", deadline_seconds=3600)
ARN = "arn:aws:sqs:eu-central-1:1:rain"
TOPIC = "arn:aws:sns:eu-central-1:1:events"
DEAD_ARN = "arn:aws:sqs:eu-central-1:1:dead"


def queue(name: str = "rain", **attributes: object) -> Queue:
    """A queue with nothing wrong with it, but for what is told."""
    said = {
        "QueueArn": f"arn:aws:sqs:eu-central-1:1:{name}",
        "VisibilityTimeout": PLAN.visibility_seconds,
        "MessageRetentionPeriod": PLAN.retention_seconds,
        "RedrivePolicy": json.dumps({"deadLetterTargetArn": DEAD_ARN, "maxReceiveCount": 10}),
        "SqsManagedSseEnabled": "true",
        "Policy": json.dumps({"Statement": [sends(TOPIC), TLS]}),
        **attributes,
    }
    url = f"https://sqs.eu-central-1.amazonaws.com/1/{name}"
    return Queue(url, {k: str(v) for k, v in said.items() if v is not None})


def dead(name: str = "dead", **attributes: object) -> Queue:
    kept = PLAN.dead_letter_retention_seconds
    return queue(name, **{"MessageRetentionPeriod": kept, **attributes})


def sends(arn: str | None, **more: object) -> dict[str, object]:
    condition = {"Condition": {"ArnEquals": {"aws:SourceArn": arn}}} if arn else {}
    return {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        **condition,
        **more,
    }


TLS = {
    "Effect": "Deny",
    "Principal": "*",
    "Action": "sqs:*",
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}


def wrong(checks: Any) -> dict[str, Check]:
    """What is not as it should be, by name."""
    return {check.name: check for check in checks if check.state != "ok"}


def given_up(q: Queue, d: Queue | None, declared: str | None = "dead") -> dict[str, Check]:
    return wrong(check_dead_letters(q, PLAN, d, declared))


def test_a_queue_as_terraform_makes_it_has_nothing_wrong() -> None:
    """The numbers of the module are the numbers of the doctor."""
    assert not wrong(check_queue(queue(), PLAN))
    assert not given_up(queue(), dead())
    fifo = queue(
        "rain.fifo", ContentBasedDeduplication="true", FifoThroughputLimit="perMessageGroupId"
    )
    assert not wrong(check_queue(fifo, PLAN))


@pytest.mark.parametrize(
    ("seconds", "state"), [(30, "fail"), (90, "fail"), (91, "ok"), (120, "ok")]
)
def test_a_message_is_hidden_for_more_than_six_admissions(seconds: int, state: str) -> None:
    """Exactly six are not enough."""
    found = {c.name: c for c in check_queue(queue(VisibilityTimeout=seconds), PLAN)}
    assert found["visibility"].state == state


def test_a_message_acknowledged_late_is_hidden_for_the_longest_work_and_wait() -> None:
    """S0: more than max processing + max backoff."""
    found = wrong(check_queue(queue(VisibilityTimeout=4200), LATE))
    assert found["visibility"].state == "fail"
    assert "4200 s, the longest handler and the longest wait" in found["visibility"].text
    assert not wrong(check_queue(queue(VisibilityTimeout=4201), LATE))


def test_the_repair_is_a_command_that_can_be_pasted() -> None:
    """It parses as a shell would, and it sets what is missing."""
    found = wrong(check_queue(queue(VisibilityTimeout=30), PLAN))["visibility"]
    words = shlex.split(found.hint)
    assert words[:3] == ["aws", "sqs", "set-queue-attributes"]
    assert json.loads(words[-1]) == {"VisibilityTimeout": "120"}
    words = shlex.split(given_up(queue(RedrivePolicy=None), None)["dead letters"].hint)
    policy = json.loads(json.loads(words[-1])["RedrivePolicy"])
    assert policy["maxReceiveCount"] == PLAN.max_receive_count


@pytest.mark.parametrize(("receives", "fails"), [(5, True), (8, True), (9, False), (10, False)])
def test_a_queue_gives_up_later_than_the_pipeline(receives: int, fails: bool) -> None:
    """maxReceiveCount is more than the attempts, not as many."""
    policy = json.dumps({"deadLetterTargetArn": DEAD_ARN, "maxReceiveCount": receives})
    assert ("dead letters" in given_up(queue(RedrivePolicy=policy), dead())) is fails


def test_dead_letters_that_nobody_would_see_are_found() -> None:
    """None attached, gone, of the other kind, kept too short, not drained, drained elsewhere."""
    assert given_up(queue(RedrivePolicy=None), None)["dead letters"].state == "fail"
    assert given_up(queue(RedrivePolicy="{"), None)["dead letters"].state == "fail"
    assert "cannot be looked at" in given_up(queue(), None)["dead letters"].text
    assert "both be FIFO" in given_up(queue("rain.fifo"), dead())["dead letters"].text
    short = dead(MessageRetentionPeriod=PLAN.retention_seconds)
    assert "may expire at once" in given_up(queue(), short)["retention"].text
    assert given_up(queue(), dead(), None)["dead letters"].state == "warn"
    assert (
        given_up(queue(), dead(), "https://sqs.x/000000000001/other")["dead letters"].state
        == "fail"
    )
    assert not given_up(queue(), dead(), "https://sqs.x/000000000001/dead")
    full = dead(ApproximateNumberOfMessages=3)
    assert "holds 3 messages" in given_up(queue(), full)["dead letters"].text


def test_what_a_queue_forgets_or_shows_is_found() -> None:
    """Short retention, no encryption; FIFO without deduplication by content, or throttled."""
    found = wrong(
        check_queue(queue(MessageRetentionPeriod=3600, SqsManagedSseEnabled="false"), PLAN)
    )
    assert set(found) == {"retention", "encryption"}
    assert not wrong(check_queue(queue(SqsManagedSseEnabled=None, KmsMasterKeyId="k"), PLAN))
    checks = [c for c in check_queue(queue("rain.fifo"), PLAN) if c.state != "ok"]
    assert [check.name for check in checks] == ["fifo", "fifo"]


def bucket(**more: Any) -> Bucket:
    """A bucket that announces *.csv below in/ to a topic that the queue hears."""
    rules = [{"Name": "Prefix", "Value": "in/"}, {"Name": "Suffix", "Value": ".csv"}]
    announced = {
        "TopicArn": TOPIC,
        "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"],
        "Filter": {"Key": {"FilterRules": rules}},
    }
    heard = {
        "TopicArn": TOPIC,
        "Endpoint": ARN,
        "SubscriptionArn": f"{TOPIC}:x",
        "RawMessageDelivery": "true",
        "RedrivePolicy": "{…}",
        **more.pop("subscription", {}),
    }
    announced |= more.pop("announced", {})
    found = {"notification": {"TopicConfigurations": [announced]}, "versioning": "Enabled"}
    return Bucket("b", **{**found, "subscriptions": {TOPIC: [heard]}, **more})


WANTED = Wanted("b", "in/", (".csv",))


def way(found: Bucket, wanted: Wanted = WANTED) -> dict[str, Check]:
    return wrong(check_bucket(wanted, found, queue()))


def test_a_bucket_as_terraform_makes_it_has_nothing_wrong() -> None:
    """Announced, subscribed, kept in versions."""
    assert not way(bucket())
    assert not wrong(check_senders(queue(), bucket()))


@pytest.mark.parametrize(
    ("wanted", "announced"),
    [
        (Wanted("b", "in/2026/", (".csv",)), True),
        (Wanted("b", "in/", (".old.csv",)), True),
        (Wanted("b", "", (".csv",)), False),
        (Wanted("b", "out/", (".csv",)), False),
        (Wanted("b", "in/"), False),
        (Wanted("b", "in/", (".json",)), False),
        (Wanted("b", "in/", (".csv", ".json")), False),
    ],
)
def test_an_announcement_covers_all_that_the_pipeline_wants(
    wanted: Wanted, announced: bool
) -> None:
    """A filter that is narrower than the pipeline's loses objects in silence; it is found here."""
    assert ("notifications" not in way(bucket(), wanted)) is announced


def test_events_that_get_lost_on_their_way_are_found() -> None:
    """No notification, another queue, only some creations, only removals, EventBridge instead."""
    assert way(bucket(notification={}))["notifications"].state == "fail"
    elsewhere = bucket(subscription={"Endpoint": "arn:aws:sqs:x:1:other"})
    assert "reaches rain" in way(elsewhere)["notifications"].text
    put = bucket(announced={"Events": ["s3:ObjectCreated:Put"]})
    assert way(put)["notifications"].state == "warn"
    gone = bucket(announced={"Events": ["s3:ObjectRemoved:*"]})
    assert way(gone)["notifications"].state == "fail"
    bridged = bucket(notification={"EventBridgeConfiguration": {}}, subscriptions={})
    assert not way(bridged)


def test_what_a_subscription_does_to_messages_is_said() -> None:
    """Wrapped or raw is fine; filtered, dropped or unconfirmed is worth knowing."""
    assert not way(bucket(subscription={"RawMessageDelivery": "false"}))
    filtered = way(bucket(subscription={"FilterPolicy": '{"a":["b"]}'}))["subscription"]
    assert '{"a":["b"]}' in filtered.text
    dropped = way(bucket(subscription={"RedrivePolicy": None}))["subscription"]
    assert "dropped" in dropped.text
    pending = way(bucket(subscription={"PendingConfirmation": "true"}))["subscription"]
    assert pending.state == "fail"


def test_a_bucket_without_versions_says_what_follows() -> None:
    """What was overwritten before it was read is read as its successor."""
    found = way(bucket(versioning="Suspended"))["versioning"]
    assert found.state == "warn"
    assert "sequencer" in found.text
    assert "Status=Enabled" in found.hint


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        (sends(TOPIC), True),
        (sends(None), True),
        (sends(TOPIC, Action=["SQS:SendMessage", "sqs:X"]), True),
        (sends(TOPIC, Action="sqs:*"), True),
        (sends("arn:aws:sns:*:1:ev*"), True),
        (sends(TOPIC, Principal={"AWS": "*"}), True),
        (sends("arn:aws:sns:eu-central-1:1:other"), False),
        (sends(TOPIC, Action="sqs:ReceiveMessage"), False),
        (sends(TOPIC, Principal={"Service": "s3.amazonaws.com"}), False),
        (sends(TOPIC, Effect="Deny"), False),
    ],
)
def test_the_policy_lets_the_topic_send(statement: dict[str, object], allowed: bool) -> None:
    """The one mistake that makes a queue stay empty without a word."""
    policy = json.dumps({"Statement": [statement, TLS]})
    found = wrong(check_senders(queue(Policy=policy), bucket()))
    assert ("policy" not in found) is allowed


def test_a_queue_that_anyone_may_send_to_is_found() -> None:
    """So is one that may be used without TLS, and one without a policy."""
    anyone = json.dumps({"Statement": [sends(None, Principal="*"), TLS]})
    checks = list(check_senders(queue(Policy=anyone), None))
    assert [(c.state, "anyone" in c.text) for c in checks] == [("fail", True)]
    plain = json.dumps({"Statement": sends(TOPIC)})
    assert "without TLS" in wrong(check_senders(queue(Policy=plain), bucket()))["policy"].text
    assert "policy" in wrong(check_senders(queue(Policy=None), bucket()))
