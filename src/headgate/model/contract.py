"""The ingestion contract of a pipeline (S0): what is told, by what way, and what follows.

Everything is derived from the declaration. What is not kept says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from .pipeline import Pipeline
from .ports import Followed, Polled, Source, Wired
from .queue_plan import QueuePlan, queue_plan
from .verdict import CRON, UPSTREAM, WEBHOOK, RetryPlan

RUNBOOKS = "docs/runbooks/reliability"


@dataclass(frozen=True, slots=True)
class Requirement:
    """Something a consumer must do, and whether and by what it is done."""

    requirement: str
    kept: bool
    by: str


@dataclass(frozen=True, slots=True)
class Contract:
    """How changes of one source arrive, and what is required of who takes them."""

    source: str
    event_source: str
    transport: Sequence[str]
    delivery_semantics: str
    order: str
    acknowledged: str
    consumer_requirements: Sequence[Requirement]
    retry: RetryPlan
    queue: QueuePlan | None


def contracts(pipeline: Pipeline, deadline_seconds: float) -> list[Contract]:
    """One contract for each source; `deadline_seconds` counts where the pipeline has none."""
    longest = pipeline.deadline_seconds or deadline_seconds
    return [_contract(pipeline, source, longest) for source in pipeline.sources]


def plan_for(pipeline: Pipeline, source: Source) -> RetryPlan:
    """The pipeline's own plan, else that of what triggers the source's entries."""
    if pipeline.retry is not None:
        return pipeline.retry
    return {"cron": CRON, "webhook": WEBHOOK}.get(getattr(source, "provider", ""), UPSTREAM)


def _contract(pipeline: Pipeline, source: Source, deadline_seconds: float) -> Contract:
    way = _way(source)
    plan = plan_for(pipeline, source)
    queue = None
    if isinstance(source, Wired):
        queue = queue_plan(plan, ack=source.ack, deadline_seconds=deadline_seconds)
    return Contract(
        source=source.name,
        event_source=_event_source(source),
        transport=way.transport,
        delivery_semantics=way.delivery,
        order=way.order,
        acknowledged=way.acknowledged,
        consumer_requirements=_requirements(plan, source, way.key),
        retry=plan,
        queue=queue,
    )


@dataclass(frozen=True, slots=True)
class _Way:
    transport: Sequence[str]
    delivery: str
    order: str
    acknowledged: str
    key: str


_AT_LEAST_ONCE = "at-least-once (duplicates & out-of-order possible)"
_BY_OBJECT = "changes of one uri one after the other; an older one never overwrites a newer one"


def _way(source: Source) -> _Way:
    """How the source tells us."""
    match source:
        case Wired():
            fifo = source.queue.endswith(".fifo")
            kind = "FIFO" if fifo else "standard"
            when = "when its work is final" if source.ack == "finalized" else "at admission"
            return _Way(
                transport=[f"SQS ({kind}): {source.queue}"],
                delivery="at-least-once (duplicates possible; in order within a message group)"
                if fifo
                else _AT_LEAST_ONCE,
                order=f"{_BY_OBJECT}; within a message group as sent" if fifo else _BY_OBJECT,
                acknowledged=f"{when}, after the commit",
                key="uri and version id, else sequencer, else event id",
            )
        case Followed():
            return _Way(
                transport=["followed from a checkpoint"],
                delivery=_AT_LEAST_ONCE,
                order=_BY_OBJECT,
                acknowledged="the checkpoint moves in the transaction that admits",
                key="uri and event id",
            )
        case Polled():
            return _Way(
                transport=[f"polled every {source.every_seconds:g} s"],
                delivery="at-least-once; states between two looks are not seen",
                order=_BY_OBJECT,
                acknowledged="the listing moves in the transaction that admits",
                key="uri and the generation the ledger gave it",
            )
        case _:
            return _Way(
                transport=["pushed to headgate serve"],
                delivery=_AT_LEAST_ONCE,
                order=_BY_OBJECT,
                acknowledged="by the answer, after the commit",
                key="uri and event id, or the request's id",
            )


def _event_source(source: Source) -> str:
    """The source as declared: its kind, and where and what it listens to."""
    said = [type(source).__name__]
    for name in ("bucket", "prefix", "suffix", "pattern", "url", "path", "cron"):
        if value := getattr(source, name, None):
            several = cast("tuple[str, ...]", value) if isinstance(value, tuple) else (str(value),)
            said.append(f"{name}={','.join(several)}")
    return " ".join(said)


def _requirements(plan: RetryPlan, source: Source, key: str) -> list[Requirement]:
    """S0's list, in its words."""
    return [
        Requirement(
            "idempotent reprocessing",
            True,
            "effects commit with the entry that caused them, under a fence; a finished entry never"
            " reopens",
        ),
        Requirement("deduplication keys", True, key),
        Requirement("deterministic watermarking for backfills", False, "not yet"),
        Requirement("exponential backoff with jitter", True, _plan(plan)),
        _dead_letters(source),
    ]


def _plan(plan: RetryPlan) -> str:
    waits = (
        ", ".join(f"{d:g} s" for d in plan.delays)
        if plan.delays
        else f"{plan.base_seconds:g} s doubling to {plan.cap_seconds:g} s"
    )
    return (
        f"{plan.trigger}: {plan.attempts} attempts in all, waits {waits}, {plan.jitter} jitter,"
        f" budget {plan.budget_seconds:g} s"
    )


def _dead_letters(source: Source) -> Requirement:
    what = "DLQ attachment + redrive SOP"
    sop = f"{RUNBOOKS}/dead-letters.md"
    if not isinstance(source, Wired):
        return Requirement(what, True, f"quarantine; {sop}")
    if source.dead_letters is None:
        return Requirement(
            what, False, "no dead_letters= is declared: the queue's are not drained into quarantine"
        )
    return Requirement(what, True, f"{source.dead_letters} drained into quarantine; {sop}")
