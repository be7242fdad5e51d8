"""What a queue in front of Headgate must be set to: its numbers follow from the retry plan (C7).

`headgate doctor`, `headgate contract show` and the Terraform module all take them from here, so
that the queue and the pipeline cannot have different ideas of when to give up.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Literal

from headgate.errors import UsageError

from .verdict import RetryPlan

Ack = Literal["admitted", "finalized"]

DAY_SECONDS = 86400
# The ledger is given this long to answer; an admission that takes longer has failed.
ADMISSION_SECONDS = 15
# AWS's advice for consumers that take several messages at a time: a slow batch, its retries and a
# pause of the process all fit.
ADMISSIONS_PER_VISIBILITY = 6
# A receive whose answer was lost counts too, though nobody tried anything.
LOST_RECEIVES = 1
# S0: p95 from event to effect is at most five minutes. A message that is older still is a sign.
LATE_SECONDS = 300
# Ten full admissions: more than that in line means that the consumer does not keep up.
BACKLOG_MESSAGES = 10_000

# What SQS allows.
LONGEST_VISIBILITY_SECONDS = 12 * 3600
LONGEST_RETENTION_SECONDS = 14 * DAY_SECONDS
MOST_RECEIVES = 1000


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """The settings of a queue and of its dead-letter queue, and when to wake somebody."""

    ack: Ack
    attempts: int
    visibility_more_than_seconds: int
    visibility_seconds: int
    max_receive_count: int
    retention_seconds: int
    dead_letter_retention_seconds: int
    wait_seconds: int
    alarm_dead_letters: int
    alarm_age_seconds: int
    alarm_backlog_messages: int


def queue_plan(plan: RetryPlan, *, ack: Ack, deadline_seconds: float) -> QueuePlan:
    """The queue's numbers for a pipeline with this plan and this longest handler.

    Acknowledged at admission, a message is ours for a moment only. Acknowledged when its work is
    final, it must stay hidden for the longest work and the longest wait before the next try.
    """
    least = ADMISSIONS_PER_VISIBILITY * ADMISSION_SECONDS
    if ack == "finalized":
        least = math.ceil(deadline_seconds + plan.cap_seconds)
    visibility = (least // 30 + 1) * 30
    if visibility > LONGEST_VISIBILITY_SECONDS:
        raise UsageError(
            f"a handler of {deadline_seconds:g} s and a wait of {plan.cap_seconds:g} s are longer"
            f" than SQS can hide a message ({LONGEST_VISIBILITY_SECONDS} s)",
            hint='Use ack="admitted": the ledger is then the queue, and has no such limit.',
        )
    # Messages must outlive an outage that the plan itself would sit out, with days to notice it.
    retention = _within(4 * plan.budget_seconds, 4 * DAY_SECONDS, 7 * DAY_SECONDS)
    return QueuePlan(
        ack=ack,
        attempts=plan.attempts,
        visibility_more_than_seconds=least,
        visibility_seconds=visibility,
        max_receive_count=min(plan.attempts + 1 + LOST_RECEIVES, MOST_RECEIVES),
        retention_seconds=retention,
        dead_letter_retention_seconds=LONGEST_RETENTION_SECONDS,
        wait_seconds=20,
        alarm_dead_letters=0,
        alarm_age_seconds=max(LATE_SECONDS, visibility if ack == "finalized" else 0),
        alarm_backlog_messages=BACKLOG_MESSAGES,
    )


def lambda_receives(plan: RetryPlan, visibility_seconds: int) -> int:
    """How often a message may be handed to a Lambda before it is dead.

    A running Headgate stops receiving while its ledger is away. A Lambda cannot: every try counts.
    An outage as long as the plan's budget must not empty the queue into the dead letters.
    """
    return min(math.ceil(plan.budget_seconds / visibility_seconds), MOST_RECEIVES)


def queue_policy(plan: RetryPlan, deadline_seconds: float) -> dict[str, dict[str, object]]:
    """The numbers for each kind of consumer, as infra/terraform/messaging reads them.

    "finalized" is left out where SQS cannot hide a message that long.
    """
    admitted = queue_plan(plan, ack="admitted", deadline_seconds=deadline_seconds)
    receives = max(admitted.max_receive_count, lambda_receives(plan, admitted.visibility_seconds))
    policy: dict[str, dict[str, object]] = {
        "admitted": asdict(admitted),
        "lambda": {**asdict(admitted), "max_receive_count": receives},
    }
    with suppress(UsageError):
        finalized = queue_plan(plan, ack="finalized", deadline_seconds=deadline_seconds)
        policy["finalized"] = asdict(finalized)
    return policy


def _within(value: float, low: int, high: int) -> int:
    return int(min(max(value, low), high))
