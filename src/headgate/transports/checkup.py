"""Is a queue set as the retry policy needs it? Judged from its attributes, without asking anyone.

Each finding names the command that repairs it. The rules are those of C7: a dead-letter queue is
attached, `maxReceiveCount` is more than the attempts, a message is hidden for more than six
admissions (or for the longest work and wait), and messages outlive an outage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from headgate.model.check import Check
from headgate.model.queue_plan import LONGEST_VISIBILITY_SECONDS, QueuePlan
from headgate.net import queues

Attributes = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue as SQS describes it: where it is, and its attributes by SQS's own names."""

    url: str
    attributes: Attributes

    @property
    def arn(self) -> str:
        return self.attributes.get("QueueArn", "")

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]

    @property
    def fifo(self) -> bool:
        return self.name.endswith(".fifo")

    def number(self, attribute: str) -> int:
        return int(self.attributes.get(attribute, 0))

    def set(self, **attributes: object) -> str:
        """The command that sets attributes."""
        said = json.dumps({name: _text(value) for name, value in attributes.items()})
        return f"aws sqs set-queue-attributes --queue-url {self.url} --attributes '{said}'"


def check_queue(queue: Queue, plan: QueuePlan) -> Iterator[Check]:
    """The queue itself."""
    waiting = queue.number("ApproximateNumberOfMessages")
    hidden = queue.number("ApproximateNumberOfMessagesNotVisible")
    kind = "FIFO" if queue.fifo else "standard"
    yield Check("queue", "ok", f"{queue.name} ({kind}): {waiting} waiting, {hidden} in flight")
    yield _visibility(queue, plan)
    yield _retention(queue, plan)
    if queue.fifo:
        yield from _fifo(queue)
    yield _encryption(queue)


def check_dead_letters(
    queue: Queue, plan: QueuePlan, dead: Queue | None, declared: str | None
) -> Iterator[Check]:
    """Is there a place for what is given up, is it reached late enough, and is it drained?

    `dead` is the queue that the redrive policy names, None where it cannot be had; `declared` is
    what the pipeline drains.
    """
    policy = _redrive(queue)
    if policy is None:
        arn = dead.arn if dead else "DEAD_LETTERS_ARN"
        hint = queue.set(RedrivePolicy=_to(arn, plan.max_receive_count))
        said = f"{queue.name} has none: a poisonous message is received for ever"
        yield Check("dead letters", "fail", said, hint)
        return
    arn = str(policy.get("deadLetterTargetArn", ""))
    name = arn.rpartition(":")[2]
    receives = int(policy.get("maxReceiveCount", 0))
    said = f"{queue.name} gives up after {receives} receives, to {name}"
    if receives <= plan.attempts:
        hint = queue.set(RedrivePolicy=_to(arn, plan.max_receive_count))
        said += f"; the pipeline itself tries {plan.attempts} times"
        yield Check("dead letters", "fail", said, hint)
    else:
        yield Check("dead letters", "ok", said)
    if dead is None:
        hint = f"Let this role read it (sqs:GetQueueAttributes on {arn}), or make it again."
        yield Check("dead letters", "fail", f"{name} cannot be looked at", hint)
    else:
        yield from _dead_queue(queue, dead)
    yield _drained(name, declared)


def _visibility(queue: Queue, plan: QueuePlan) -> Check:
    seconds = queue.number("VisibilityTimeout")
    if plan.ack == "finalized":
        why = "the longest handler and the longest wait"
    else:
        why = "six admissions"
    said = f"{queue.name} hides a message for {seconds} s"
    if seconds > plan.visibility_more_than_seconds:
        if plan.ack == "admitted" and seconds > LONGEST_VISIBILITY_SECONDS // 2:
            hint = queue.set(VisibilityTimeout=plan.visibility_seconds)
            said += ": what a dying worker had received waits that long"
            return Check("visibility", "warn", said, hint)
        return Check("visibility", "ok", said)
    said += f"; it must be more than {plan.visibility_more_than_seconds} s, {why}"
    hint = queue.set(VisibilityTimeout=plan.visibility_seconds)
    return Check("visibility", "fail", said, hint)


def _retention(queue: Queue, plan: QueuePlan) -> Check:
    seconds = queue.number("MessageRetentionPeriod")
    said = f"{queue.name} keeps messages for {_days(seconds)}"
    if seconds >= plan.retention_seconds:
        return Check("retention", "ok", said)
    said += f": an outage over a long weekend loses them; {_days(plan.retention_seconds)} or more"
    hint = queue.set(MessageRetentionPeriod=plan.retention_seconds)
    return Check("retention", "warn", said, hint)


def _dead_queue(queue: Queue, dead: Queue) -> Iterator[Check]:
    if dead.fifo != queue.fifo:
        said = f"{dead.name} and {queue.name} must both be FIFO, or neither"
        yield Check("dead letters", "fail", said, "Make a dead-letter queue of the same kind.")
    waiting = dead.number("ApproximateNumberOfMessages")
    if waiting:
        said = f"{dead.name} holds {waiting} messages"
        hint = "docs/runbooks/reliability/dead-letters.md"
        yield Check("dead letters", "warn", said, hint)
    kept, needed = dead.number("MessageRetentionPeriod"), queue.number("MessageRetentionPeriod")
    said = f"{dead.name} keeps them for {_days(kept)}"
    if kept <= needed:
        # A standard queue's message keeps its first date when it moves.
        said += f", no longer than {queue.name}: what arrives there may expire at once"
        hint = dead.set(MessageRetentionPeriod=14 * 86400)
        yield Check("retention", "fail", said, hint)
    else:
        yield Check("retention", "ok", said)
    yield _encryption(dead)


def _drained(name: str, declared: str | None) -> Check:
    if declared is None:
        said = f"nobody drains {name} into quarantine"
        return Check("dead letters", "warn", said, f'Declare it: dead_letters="{name}"')
    if queues.parse(declared).name != name:
        said = f"the pipeline drains {declared}, and the queue gives up to {name}"
        return Check("dead letters", "fail", said, f'Declare it: dead_letters="{name}"')
    return Check("dead letters", "ok", f"{name} is drained into quarantine")


def _fifo(queue: Queue) -> Iterator[Check]:
    by_content = queue.attributes.get("ContentBasedDeduplication") == "true"
    said = "by content" if by_content else "by the sender's MessageDeduplicationId alone"
    text = f"{queue.name} drops repeats within five minutes, {said}"
    if by_content:
        yield Check("fifo", "ok", text)
    else:
        hint = queue.set(ContentBasedDeduplication="true")
        yield Check("fifo", "warn", f"{text}: EventBridge sends none, and is refused", hint)
    if queue.attributes.get("FifoThroughputLimit") != "perMessageGroupId":
        hint = queue.set(DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId")
        said = f"{queue.name} is limited to 300 calls per second for all groups together"
        yield Check("fifo", "warn", said, hint)


def _encryption(queue: Queue) -> Check:
    if key := queue.attributes.get("KmsMasterKeyId"):
        return Check("encryption", "ok", f"{queue.name}: KMS key {key}")
    if queue.attributes.get("SqsManagedSseEnabled") == "true":
        return Check("encryption", "ok", f"{queue.name}: keys of SQS")
    hint = queue.set(SqsManagedSseEnabled="true")
    return Check("encryption", "warn", f"{queue.name} is not encrypted", hint)


def redrive_target(queue: Queue) -> str | None:
    """The ARN of its dead-letter queue, if it has one."""
    policy = _redrive(queue)
    return str(policy["deadLetterTargetArn"]) if policy else None


def _redrive(queue: Queue) -> dict[str, Any] | None:
    try:
        policy = json.loads(queue.attributes.get("RedrivePolicy") or "null")
    except ValueError:
        return None
    if not isinstance(policy, dict) or "deadLetterTargetArn" not in policy:
        return None
    return cast("dict[str, Any]", policy)


def _to(arn: str, receives: int) -> str:
    return json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": receives})


def _days(seconds: int) -> str:
    return f"{seconds / 86400:.3g} days" if seconds >= 86400 else f"{seconds / 3600:.3g} hours"


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)
