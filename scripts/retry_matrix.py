"""The runbook of triggers and retries, written from the policy in code.

.venv/bin/python scripts/retry_matrix.py > docs/runbooks/reliability/trigger-retry-matrix.md
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from headgate import errors
from headgate.model import verdict
from headgate.model.queue_plan import QueuePlan, lambda_receives, queue_plan
from headgate.model.verdict import Quarantine, Retry, RetryPlan, judge
from headgate.settings import Settings

PLANS = (verdict.UPSTREAM, verdict.CRON, verdict.WEBHOOK)
START = datetime(2026, 1, 1, tzinfo=UTC)


class Trigger(NamedTuple):
    """What the code does not say about a plan."""

    what: str
    why: str
    key: str


TRIGGERS = {
    "upstream-event": Trigger(
        "files, objects, messages, web addresses",
        "patient: the other side may be bursty, or away for hours",
        "the uri and its occurrence: version id, else sequencer, else event id",
    ),
    "cron": Trigger(
        "schedules",
        "bounded: a run must not go on into the next periods",
        "dataset, period, partition, version",
    ),
    "webhook": Trigger(
        "calls by people and programs",
        "short: somebody waits for the answer",
        "the request's id, used once",
    ),
}

# What to do, where the error's own hint does not say it. By class, so that a new one is missed.
TODO = {
    errors.Retryable: "Look at the error. Nothing, while it is being retried.",
    errors.Unavailable: "Look whether the upstream is down: [Outage](outage.md).",
    errors.LedgerUnavailable: "[Outage](outage.md), “the ledger”.",
    errors.StoreUnavailable: "[Outage](outage.md), “a store”.",
    errors.ObjectChanged: "Nothing: it is read again. If it goes on, the sender writes in place; "
    "ask for write-then-rename, or for versioning.",
    errors.ObjectMissing: "Was it deleted, moved, or announced too early? Bring it back "
    "and release, or discard.",
    errors.DeadlineExceeded: "Raise the pipeline's `deadline`, or make the work smaller.",
    errors.InProgress: "Nothing: another caller is at it. `headgate operation list`.",
    errors.Escalated: "See who holds it: `headgate operation show KEY`; call again, or reset it.",
    errors.WorkerLost: "Look for a crash of the handler: memory, a native library.",
    errors.Permanent: "Read the error; fix the data or the handler; release.",
    errors.SchemaError: "Have the source repair the data, or fix the handler; release.",
    errors.PermissionDenied: "Grant read access; release.",
    errors.Conflict: "Ask the sender which payload is right.",
    errors.ConditionFailed: "Make the condition hold, or correct the check; call again.",
    errors.EffectRefused: "The handler asks for what cannot be kept. Fix it; release.",
}

INTRODUCTION = """\
# Triggers and retries

What starts work, how often it is tried, and when a person is needed. This page is written from
the policy in code. The thoughts behind it are in [the retry
matrix](../../explanation/retry-matrix.md).

You never need to hurry because of a retry: what is waiting is durable, and what has ended is in
quarantine, whole. Nothing is lost on this page.
"""

BUDGET = """\
Work ends when its attempts **or** its budget are used up, whichever comes first. A retry that
could only begin after the budget is not waited for. Any pipeline can have another plan,
`Pipeline(retry=hg.RetryPlan(…))`; `headgate contract show rain.py` prints the one that counts.
"""

WAITS = """\
## How long until the next try

The shortest and the longest wait ahead of each retry. “By then” is how long it has been since the
first attempt, at the latest, not counting the work itself.
"""

FATES = """\
## What an error means

Find the reason in `headgate quarantine list`, in `retry_attempts_total{reason}` or in the log.
"""

UNKNOWN = """\
Any other exception of a handler has its class name as reason, and the fate of `retryable`. What a
`validate` handler raises is `validation`, set aside at once as `schema`, unless it is
`hg.Retryable`.
"""

STEPS = """\
## What to do

1. `headgate status` says how much waits and how much is set aside.
2. **Waiting** needs nobody. `headgate entry list --status waiting` shows it; `headgate explain
   ENTRY` says when it is tried next, and what went wrong.
3. **Set aside** needs a decision: [Dead letters](dead-letters.md).
4. Many at once with one reason is one cause, not many. Repair that first, then release them
   together.
5. Many that fail also spend the pipeline's error budget: retries then come at the cap's pace, and
   no more than ten entries are released at once. `headgate budget list` shows it. When the cause
   is repaired: `headgate budget override PIPELINE --because WHY --for 30m`.
"""

QUEUES = """\
## What a queue is set to

The queue must be more patient than the pipeline, or it gives up first. These numbers follow from
the plan for `upstream-event`. `headgate doctor FILE.py` compares them with the queue that is
there.
"""


def runbook() -> str:
    """The whole page."""
    parts = [
        INTRODUCTION,
        *_plans(),
        "",
        BUDGET,
        WAITS,
        *_waits(),
        FATES,
        *_fates(),
        "",
        UNKNOWN,
        STEPS,
        QUEUES,
        *_queues(),
        "",
    ]
    return "\n".join(parts)


def _plans() -> Iterator[str]:
    yield "| trigger | starts with | attempts in all | waits | budget | jitter | key |"
    yield "|---|---|---|---|---|---|---|"
    for plan in PLANS:
        about = TRIGGERS[plan.trigger]
        if plan.delays:
            waits = ", ".join(_span(d) for d in plan.delays)
        else:
            waits = f"doubling from {_span(plan.base_seconds)}, cap {_span(plan.cap_seconds)}"
        yield (
            f"| `{plan.trigger}` | {about.what} | {plan.attempts} | {waits} "
            f"| {_span(plan.budget_seconds)} | {plan.jitter} | {about.key} |"
        )
    yield ""
    for plan in PLANS:
        yield f"- `{plan.trigger}` is {TRIGGERS[plan.trigger].why}."


def _waits() -> Iterator[str]:
    for plan in PLANS:
        yield f"`{plan.trigger}`:"
        yield ""
        yield "| ahead of attempt | wait | by then |"
        yield "|---|---|---|"
        passed = 0.0
        for retry in range(plan.attempts - 1):
            least, most = plan.delay_seconds(retry, 0), plan.delay_seconds(retry, 1)
            passed += most
            yield f"| {retry + 2} | {_span(least)} to {_span(most)} | {_span(passed)} |"
        yield ""


def _fates() -> Iterator[str]:
    yield "| reason | means | tried | then | do |"
    yield "|---|---|---|---|---|"
    for error, todo in TODO.items():
        tried, then = _fate(error())
        yield f"| `{error.reason}` | {_means(error)} | {tried} | {then} | {todo} |"


def _means(error: type[errors.HeadgateError]) -> str:
    return (error.__doc__ or "").strip().partition("\n")[0]


def _fate(error: errors.HeadgateError) -> tuple[str, str]:
    """What `judge` makes of an error that does not go away, under the plan for events."""
    if isinstance(error, errors.LedgerUnavailable):
        return "until it is back; not charged", "goes on"
    plan = verdict.UPSTREAM
    now, attempts = START, 0
    while True:
        attempts += 1
        fate = judge(error, attempts=attempts, first_at=START, now=now, plan=plan, chance=0.5)
        match fate:
            case Quarantine(classed):
                break
            case Retry(due_at):
                now = due_at
    then = f"set aside as `{classed}`"
    if attempts == 1:
        return "once", then
    if now - START > timedelta(seconds=plan.budget_seconds / 2):
        return "until the budget ends, one at a time", then
    if attempts == plan.attempts:
        return "up to the plan's attempts", then
    return f"{attempts} times", then


def _queues() -> Iterator[str]:
    plan, deadline = verdict.UPSTREAM, Settings.deadline_seconds
    admitted = queue_plan(plan, ack="admitted", deadline_seconds=deadline)
    finalized = queue_plan(plan, ack="finalized", deadline_seconds=deadline)
    receives = lambda_receives(plan, admitted.visibility_seconds)
    yield '| setting | acknowledged at admission | `ack="finalized"` | Lambda |'
    yield "|---|---|---|---|"
    for name, values in _settings(plan, (admitted, finalized), receives):
        yield f"| {name} | {' | '.join(values)} |"


def _settings(
    plan: RetryPlan, plans: tuple[QueuePlan, QueuePlan], lambda_receives: int
) -> Iterator[tuple[str, tuple[str, ...]]]:
    admitted, _ = plans
    three = (*plans, admitted)

    def spans(name: str) -> tuple[str, ...]:
        return tuple(_span(getattr(p, name)) for p in three)

    yield "visibility", spans("visibility_seconds")
    yield "which is more than", spans("visibility_more_than_seconds")
    receives = (*(p.max_receive_count for p in plans), lambda_receives)
    yield (
        f"`maxReceiveCount` (more than {plan.attempts} attempts)",
        tuple(str(n) for n in receives),
    )
    yield "messages are kept", spans("retention_seconds")
    yield "dead letters are kept", spans("dead_letter_retention_seconds")
    yield "alarm: oldest message", spans("alarm_age_seconds")
    yield "alarm: messages in line", tuple(f"{p.alarm_backlog_messages:,}" for p in three)


def _span(seconds: float) -> str:
    """A duration as people say it, without rounding."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= size and (seconds > 86400 or unit != "days"):
            whole, rest = divmod(seconds, size)
            if unit == "min" and rest:
                return f"{whole:g} min {rest:g} s"
            return f"{seconds / size:g} {unit}" if not rest else f"{whole:g} {unit} {_span(rest)}"
    return f"{seconds:g} s"


if __name__ == "__main__":
    print(runbook(), end="")
