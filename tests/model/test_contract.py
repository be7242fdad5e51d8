"""The ingestion contract of a pipeline follows from its declaration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import pytest

import headgate as hg
from headgate.errors import UsageError
from headgate.model.contract import contracts
from headgate.model.envelope import Envelope, Provider, Refused
from headgate.model.ports import Delivery
from headgate.model.queue_plan import Ack, lambda_receives, queue_plan, queue_policy
from headgate.model.verdict import CRON, UPSTREAM


class Queue:
    """A wired source that never tells anything."""

    provider: Provider = "s3"

    def __init__(
        self, queue: str, dead_letters: str | None = None, ack: Ack = "admitted", suffix: str = ""
    ) -> None:
        self.name = queue
        self.queue = queue
        self.dead_letters = dead_letters
        self.ack: Ack = ack
        self.suffix = suffix

    def check(self) -> None: ...

    def owns(self, uri: str) -> bool:
        return uri.startswith("s3://")

    def fetch(self, envelope: Envelope) -> Iterable[bytes]:
        return ()

    def read(self, delivery: Delivery, received_at: datetime) -> Sequence[Envelope | Refused]:
        return ()


def test_a_queue_has_the_contract_of_the_seed() -> None:
    """Event source, transport, delivery semantics and what a consumer must do, in S0's words."""
    pipeline = hg.Pipeline("rain", sources=[Queue("rain-events", "rain-dead", suffix=".csv")])
    (found,) = contracts(pipeline, 3600)
    assert found.event_source == "Queue suffix=.csv"
    assert found.transport == ["SQS (standard): rain-events"]
    assert found.delivery_semantics == "at-least-once (duplicates & out-of-order possible)"
    assert found.acknowledged == "at admission, after the commit"
    assert [wanted.requirement for wanted in found.consumer_requirements] == [
        "idempotent reprocessing",
        "deduplication keys",
        "deterministic watermarking for backfills",
        "exponential backoff with jitter",
        "DLQ attachment + redrive SOP",
    ]
    assert "rain-dead" in found.consumer_requirements[-1].by
    assert found.queue is not None
    assert found.queue.visibility_seconds > 6 * 15
    assert found.queue.max_receive_count > UPSTREAM.attempts


def test_a_queue_whose_dead_letters_nobody_drains_says_so() -> None:
    """A requirement that is not kept is not called kept."""
    (found,) = contracts(hg.Pipeline("rain", sources=[Queue("rain-events")]), 3600)
    assert [w.requirement for w in found.consumer_requirements if not w.kept] == [
        "deterministic watermarking for backfills",
        "DLQ attachment + redrive SOP",
    ]


def test_a_fifo_queue_keeps_the_order_of_its_groups() -> None:
    """The queue's name says that it is FIFO."""
    (found,) = contracts(hg.Pipeline("rain", sources=[Queue("rain.fifo", "dead.fifo")]), 3600)
    assert found.transport == ["SQS (FIFO): rain.fifo"]
    assert "in order within a message group" in found.delivery_semantics


def test_a_message_that_is_acknowledged_late_is_hidden_for_as_long_as_its_work() -> None:
    """Longest handler plus longest wait; the pipeline's own deadline counts."""
    source = Queue("q", "d", ack="finalized")
    (found,) = contracts(hg.Pipeline("rain", sources=[source], deadline="2h"), 3600)
    assert found.queue is not None
    assert found.queue.visibility_seconds > 7200 + UPSTREAM.cap_seconds
    assert found.acknowledged == "when its work is final, after the commit"


def test_a_plan_of_its_own_changes_the_queue() -> None:
    """More attempts need more receives."""
    patient = hg.RetryPlan("upstream-event", 20, 3 * 86400, 60, 3600, "full")
    (found,) = contracts(hg.Pipeline("p", sources=[Queue("q", "d")], retry=patient), 3600)
    assert found.queue is not None
    assert found.queue.max_receive_count > 20
    assert found.queue.retention_seconds > patient.budget_seconds
    assert found.queue.dead_letter_retention_seconds > found.queue.retention_seconds


def test_work_that_no_queue_can_hide_is_refused() -> None:
    """SQS hides a message for twelve hours at most; the way out is in the hint."""
    with pytest.raises(UsageError, match="longer than SQS can hide") as refused:
        queue_plan(UPSTREAM, ack="finalized", deadline_seconds=12 * 3600)
    assert 'ack="admitted"' in refused.value.hint
    assert "finalized" not in queue_policy(UPSTREAM, 12 * 3600)


def test_a_lambda_survives_an_outage_as_long_as_the_budget() -> None:
    """It cannot stop receiving, so its queue must not count to ten."""
    for plan in (UPSTREAM, CRON):
        assert lambda_receives(plan, 120) * 120 >= plan.budget_seconds


def test_a_folder_has_a_contract_too(tmp_path: object) -> None:
    """Whatever tells, the same questions are answered; there is no queue to set."""
    (found,) = contracts(hg.Pipeline("rain", sources=[hg.Directory(str(tmp_path))]), 3600)
    assert found.transport[0].startswith("polled every")
    assert found.queue is None
