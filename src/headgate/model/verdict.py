"""Verdicts: how an attempt ended, and what follows from it (C7).

The set is closed; whoever settles an attempt matches all of it. `judge` turns an error into a
verdict by the pipeline's retry plan: attempts *or* budget, whichever ends first. Only `unavailable`
errors may go on past the attempts, at the cap's pace, until the budget: an outage of three hours is
survived, a bug is not retried all day.

Time and chance are handed in.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, assert_never

from headgate import errors

from .envelope import Detector

Jitter = Literal["full", "equal"]
SkipReason = Literal["unchanged", "stale", "superseded", "kept"]
QuarantineClass = Literal[
    "schema",
    "permission",
    "missing",
    "care",
    "conflict",
    "late",
    "approval",
    "exhausted",
    "permanent",
]


# Far beyond any use, and far from where dates end.
LONGEST_SECONDS = 10 * 365 * 86400
_HINT = "Give seconds, from none to ten years."


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """How often, how long apart and for how long one kind of trigger is retried."""

    trigger: str
    attempts: int
    budget_seconds: float
    base_seconds: float
    cap_seconds: float
    jitter: Jitter
    delays: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise errors.UsageError(f"RetryPlan: attempts is {self.attempts}, at least one is made")
        for what in ("budget_seconds", "base_seconds", "cap_seconds"):
            if not 0 <= getattr(self, what) <= LONGEST_SECONDS:
                raise errors.UsageError(f"RetryPlan: {what} is {getattr(self, what)}", hint=_HINT)
        if not all(0 <= delay <= LONGEST_SECONDS for delay in self.delays):
            raise errors.UsageError(f"RetryPlan: delays are {self.delays}", hint=_HINT)
        if self.jitter not in ("full", "equal"):
            raise errors.UsageError(f"RetryPlan: jitter={self.jitter!r}", hint='"full" or "equal"')

    def bound_seconds(self, retry: int) -> float:
        """The delay before jitter ahead of retry number `retry` (0 is the first)."""
        if self.delays:
            return min(self.delays[min(retry, len(self.delays) - 1)], self.cap_seconds)
        # 2**62 seconds outlive every cap; a larger exponent only overflows.
        return min(self.base_seconds * 2 ** min(retry, 62), self.cap_seconds)

    def delay_seconds(self, retry: int, chance: float) -> float:
        """The delay ahead of retry `retry`; `chance` is uniform in [0, 1)."""
        bound = self.bound_seconds(retry)
        match self.jitter:
            case "full":
                return chance * bound
            case "equal":
                low, high = 0.5 * bound, min(1.5 * bound, self.cap_seconds)
                return low + chance * (high - low)
            case _:
                assert_never(self.jitter)


UPSTREAM = RetryPlan("upstream-event", 8, 24 * 3600, 15, 600, "full")
CRON = RetryPlan("cron", 6, 6 * 3600, 30, 900, "equal")
WEBHOOK = RetryPlan("webhook", 4, 1800, 30, 300, "equal", delays=(30, 120, 300))


def plan_of(detector: Detector) -> RetryPlan:
    """The plan of the trigger that noticed a change."""
    match detector:
        case "cron":
            return CRON
        case "webhook":
            return WEBHOOK
        case "event" | "etag" | "manifest" | "sse" | "log":
            return UPSTREAM
        case _:
            assert_never(detector)


# An object that is announced before it can be read is common; for one that never comes, a few tries
# are enough.
MISSING_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class Finalized:
    """The effect is committed and published."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """There was nothing to do, and the row says why."""

    reason: SkipReason


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again at `due_at`. `upstream` is set while we only probe something that is down."""

    due_at: datetime
    reason: str
    error: str
    upstream: str | None = None


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Set aside until a person decides."""

    classed: QuarantineClass
    reason: str
    error: str


@dataclass(frozen=True, slots=True)
class Release:
    """Given back unfinished, through no fault of its own: the attempt is not charged."""

    reason: str


Verdict = Finalized | Skipped | Retry | Quarantine | Release


def classify(error: BaseException) -> QuarantineClass:
    """The class under which an error is quarantined."""
    match error:
        case errors.SchemaError():
            return "schema"
        case errors.PermissionDenied():
            return "permission"
        case errors.ObjectMissing():
            return "missing"
        case errors.Conflict():
            return "conflict"
        case errors.LateEvent():
            return "late"
        case errors.Permanent():
            return "permanent"
        case _:
            return "exhausted"


def reason_of(error: BaseException) -> str:
    """The stable name of an error: metric label, quarantine filter, runbook."""
    if isinstance(error, errors.HeadgateError):
        return line(error.reason)
    return type(error).__name__


def describe(error: BaseException) -> str:
    """The error in one line, for people. Never raises, and any ledger and log can hold it."""
    kind = type(error).__name__
    try:
        text = line(str(error))
    except Exception as second:
        text = f"its text cannot be had ({type(second).__name__})"
    if isinstance(error, errors.HeadgateError):
        return text
    return f"{kind}: {text}" if text else kind


def line(text: str) -> str:
    """A text as one line that any ledger and log can hold."""
    # Postgres has no NUL in its texts and nobody has half a surrogate; a poisonous message must not
    # keep the verdict it explains from being written.
    line = " ".join(text.split()).encode("utf-8", "backslashreplace").decode()
    return line.replace("\0", "\\x00")


def judge(
    error: BaseException,
    *,
    attempts: int,
    first_at: datetime,
    now: datetime,
    plan: RetryPlan,
    chance: float,
    slowed: bool = False,
) -> Retry | Quarantine:
    """The fate of a failed attempt: the `attempts`-th that is charged, the first at `first_at`.

    `slowed` says that the pipeline's error budget is spent: whatever is retried comes at the cap.
    """
    reason, text = reason_of(error), describe(error)
    if isinstance(error, errors.Permanent):
        return Quarantine(classify(error), reason, text)
    limit = plan.attempts
    if isinstance(error, errors.ObjectMissing):
        limit = min(limit, MISSING_ATTEMPTS)
    unavailable = isinstance(error, errors.Unavailable)
    delay = plan.delay_seconds(max(attempts - 1, 0), chance)
    if attempts >= limit and not unavailable:
        return Quarantine(classify(error), reason, text)
    if attempts >= limit or slowed:
        delay = plan.cap_seconds * (0.5 + 0.5 * chance)
    if isinstance(error, errors.Unavailable) and error.delay_seconds is not None:
        delay = max(delay, error.delay_seconds)  # it said when to come again
    due_at = now + timedelta(seconds=delay)
    # A retry that could only begin after the budget would never be made: say so now, not then.
    if due_at > first_at + timedelta(seconds=plan.budget_seconds):
        return Quarantine(classify(error), reason, text)
    upstream = None
    if attempts >= limit and isinstance(error, errors.Unavailable):
        upstream = error.upstream or reason
    return Retry(due_at, reason, text, upstream)


@contextmanager
def checking(handler: str, reason: str = "validation") -> Generator[None]:
    """What a pure handler raises is permanent, unless it says that it is not."""
    try:
        yield
    except errors.Retryable:
        raise
    except errors.Permanent as error:
        if type(error) is not errors.Permanent:
            raise
        said = reason if error.reason == "permanent" else error.reason
        raise errors.SchemaError(str(error), reason=said) from error
    except Exception as error:
        raise errors.SchemaError(
            f"{handler}: {type(error).__name__}: {error}", reason=reason
        ) from error
