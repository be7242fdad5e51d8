"""Retries, by the book: how often, how long apart, and when it ends."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import errors
from headgate.model.verdict import (
    CRON,
    MISSING_ATTEMPTS,
    UPSTREAM,
    WEBHOOK,
    Quarantine,
    Retry,
    RetryPlan,
    classify,
    describe,
    judge,
    reason_of,
)

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
ALMOST_ONE = math.nextafter(1.0, 0.0)
PLANS = {plan.trigger: plan for plan in (UPSTREAM, CRON, WEBHOOK)}

plans = st.sampled_from(list(PLANS.values()))
chances = st.floats(0, 1, exclude_max=True)


def fate(error: BaseException, attempts: int = 1, plan: RetryPlan = UPSTREAM, **more: Any):
    given_ = {"first_at": NOON, "now": NOON, "chance": 0.5, **more}
    return judge(error, attempts=attempts, plan=plan, **given_)


@pytest.mark.parametrize(
    ("trigger", "attempts", "budget", "bounds", "jitter"),
    [
        ("cron", 6, 6 * 3600, [30, 60, 120, 240, 480, 900, 900], "equal"),
        ("webhook", 4, 30 * 60, [30, 120, 300, 300], "equal"),
        ("upstream-event", 8, 24 * 3600, [15, 30, 60, 120, 240, 480, 600, 600], "full"),
    ],
)
def test_each_trigger_is_retried_as_promised(
    trigger: str, attempts: int, budget: float, bounds: list[float], jitter: str
):
    """The table in the documentation is what happens: attempts, delays, budget and jitter."""
    plan = PLANS[trigger]
    assert (plan.attempts, plan.budget_seconds, plan.jitter) == (attempts, budget, jitter)
    assert [plan.bound_seconds(n) for n in range(len(bounds))] == bounds


@pytest.mark.parametrize("retry", range(12))
@pytest.mark.parametrize("trigger", PLANS)
def test_jitter_spreads_over_its_whole_range(trigger: str, retry: int):
    """full is 0 … b, equal is 0.5·b … min(1.5·b, cap), and chance decides where in it, evenly."""
    plan = PLANS[trigger]
    bound = plan.bound_seconds(retry)
    low, high = 0.0, bound
    if plan.jitter == "equal":
        low, high = 0.5 * bound, min(1.5 * bound, plan.cap_seconds)
    assert plan.delay_seconds(retry, 0.0) == low
    assert plan.delay_seconds(retry, ALMOST_ONE) == pytest.approx(high)
    assert plan.delay_seconds(retry, 0.5) == pytest.approx((low + high) / 2)


any_plan = st.builds(
    RetryPlan,
    trigger=st.just("mine"),
    attempts=st.integers(1, 20),
    budget_seconds=st.floats(0, 10**6),
    base_seconds=st.floats(0, 10**4),
    cap_seconds=st.floats(0, 10**4),
    jitter=st.sampled_from(["full", "equal"]),
    delays=st.lists(st.floats(0, 10**4), max_size=4).map(lambda d: tuple(sorted(d))),
)


@given(any_plan, st.integers(0, 10**9), chances, chances)
def test_no_delay_leaves_its_bounds(plan: RetryPlan, retry: int, one: float, other: float):
    """Whatever the plan, the retry and the dice: not before now, not beyond the cap."""
    low, high = sorted((plan.delay_seconds(retry, one), plan.delay_seconds(retry, other)))
    assert 0 <= low <= high <= plan.cap_seconds
    if one <= other:
        assert plan.delay_seconds(retry, one) <= plan.delay_seconds(retry, other)


@given(any_plan, st.integers(0, 10**6))
def test_later_retries_never_wait_less(plan: RetryPlan, retry: int):
    """The bound only grows, up to the cap."""
    assert plan.bound_seconds(retry) <= plan.bound_seconds(retry + 1) <= plan.cap_seconds


@given(any_plan, st.integers(0, 10**9), chances, st.floats(0, 10**7))
def test_a_retry_is_never_due_in_the_past_nor_after_the_budget(
    plan: RetryPlan, attempts: int, chance: float, elapsed: float
):
    """A retry is made while the budget lasts or not at all."""
    now = NOON + timedelta(seconds=elapsed)
    for error in (ValueError("x"), errors.Unavailable("x"), errors.ObjectMissing("x")):
        verdict = fate(error, attempts, plan, now=now, chance=chance)
        if isinstance(verdict, Retry):
            assert now <= verdict.due_at <= NOON + timedelta(seconds=plan.budget_seconds)


@pytest.mark.parametrize("trigger", PLANS)
@pytest.mark.parametrize(
    "error",
    [
        ValueError("bug"),
        errors.Retryable("again"),
        errors.WorkerLost(),
        errors.DeadlineExceeded(),
        errors.ObjectChanged(),
    ],
    ids=lambda e: type(e).__name__,
)
def test_an_entry_is_attempted_exactly_as_often_as_its_plan_says(trigger: str, error: Exception):
    """A bug or a process that keeps dying stops at the cap, not before and not after."""
    plan = PLANS[trigger]
    verdicts = [fate(error, n, plan) for n in range(1, plan.attempts + 3)]
    assert [isinstance(v, Retry) for v in verdicts] == [True] * (plan.attempts - 1) + [False] * 3
    assert verdicts[-1] == Quarantine("exhausted", reason_of(error), describe(error))


def test_the_budget_ends_it_before_the_attempts_do():
    """Attempts or budget, whichever is first; a retry that could only come too late is not made."""
    budget = timedelta(seconds=WEBHOOK.budget_seconds)
    just = budget - timedelta(seconds=30)
    assert isinstance(fate(ValueError(), 1, WEBHOOK, now=NOON + just), Retry)
    late = fate(ValueError("x"), 1, WEBHOOK, now=NOON + just + timedelta(seconds=1))
    assert late == Quarantine("exhausted", "ValueError", "ValueError: x")
    assert isinstance(fate(errors.Unavailable(), 1, WEBHOOK, now=NOON + budget), Quarantine)


@given(plans, chances)
def test_an_outage_is_waited_for_at_the_caps_pace(plan: RetryPlan, chance: float):
    """Past the attempts we only probe: half a cap to a cap apart, and say what we wait for."""
    error = errors.Unavailable("503", upstream="https://example.org")
    verdict = fate(error, plan.attempts + 5, plan, chance=chance)
    assert isinstance(verdict, Retry)
    waited = (verdict.due_at - NOON).total_seconds()
    assert plan.cap_seconds / 2 <= waited <= plan.cap_seconds
    assert verdict.upstream == "https://example.org"


def test_who_says_when_to_come_again_is_not_asked_before():
    """`Retry-After` beats the plan where it is longer, and never where it is shorter."""
    patient = fate(errors.Unavailable("429", delay_seconds=7200.0))
    eager = fate(errors.Unavailable("429", delay_seconds=0.1))
    assert isinstance(patient, Retry)
    assert isinstance(eager, Retry)
    assert patient.due_at == NOON + timedelta(hours=2)
    assert eager.due_at == NOON + timedelta(seconds=7.5)


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_spent_budget_makes_every_retry_wait_for_the_cap(attempts: int):
    """Whichever retry it is, it comes at the slowest pace of its plan."""
    verdict = fate(RuntimeError("x"), attempts, slowed=True)
    assert isinstance(verdict, Retry)
    assert verdict.due_at == NOON + timedelta(seconds=UPSTREAM.cap_seconds * 0.75)


def test_an_outage_without_a_name_is_called_by_its_reason():
    """Probes of one thing that is down share a lane, also when nobody named it."""
    verdict = fate(errors.StoreUnavailable(), UPSTREAM.attempts)
    assert isinstance(verdict, Retry)
    assert verdict.upstream == "store_unavailable"
    before = fate(errors.Unavailable("x", upstream="u"), UPSTREAM.attempts - 1)
    assert isinstance(before, Retry)
    assert before.upstream is None


@pytest.mark.parametrize("chance", [0.0, 0.5, ALMOST_ONE])
def test_an_outage_of_three_hours_is_survived(chance: float):
    """The source is away from noon to three; its changes are there in the evening."""
    now, attempts = NOON, 0
    while now < NOON + timedelta(hours=3):
        attempts += 1
        verdict = fate(errors.Unavailable("down"), attempts, now=now, chance=chance)
        assert isinstance(verdict, Retry)
        now = verdict.due_at
    assert attempts < 60  # and it was not asked more often than it can bear


@pytest.mark.parametrize("trigger", PLANS)
def test_an_outage_ends_with_the_budget(trigger: str):
    """Nothing is retried forever: what stays away is quarantined, as exhausted."""
    plan, now, attempts = PLANS[trigger], NOON, 0
    while True:
        attempts += 1
        verdict = fate(errors.Unavailable("down"), attempts, plan, now=now)
        if isinstance(verdict, Quarantine):
            break
        now = verdict.due_at
    assert verdict.classed == "exhausted"
    left = plan.budget_seconds - (now - NOON).total_seconds()
    assert 0 <= left < plan.cap_seconds


def test_a_missing_object_is_given_a_few_tries():
    """Announced before it can be read is common; what never comes is not retried all day."""
    verdicts = [fate(errors.ObjectMissing("gone"), n) for n in range(1, MISSING_ATTEMPTS + 1)]
    assert [isinstance(v, Retry) for v in verdicts] == [True, True, True, False]
    assert verdicts[-1] == Quarantine("missing", "missing_object", "gone")


@pytest.mark.parametrize(
    ("error", "classed"),
    [
        (errors.SchemaError("x"), "schema"),
        (errors.PermissionDenied("x"), "permission"),
        (errors.Conflict("x"), "conflict"),
        (errors.EffectRefused("x"), "permanent"),
        (errors.Permanent("x"), "permanent"),
        (errors.Permanent("x", reason="mine"), "permanent"),
    ],
)
def test_what_cannot_get_better_is_quarantined_at_once(error: errors.Permanent, classed: str):
    """The first attempt is the last one, and the class says why."""
    assert fate(error) == Quarantine(classed, error.reason, "x")  # pyright: ignore[reportArgumentType]


def test_every_error_has_a_class():
    """Also those that are not ours."""
    assert classify(errors.ObjectMissing()) == "missing"
    for error in (errors.Unavailable(), errors.Fenced(), KeyError(), KeyboardInterrupt()):
        assert classify(error) == "exhausted"


@pytest.mark.parametrize("attempts", [0, 1, 64, 1000, 10**6, 10**18])
def test_no_number_of_attempts_overflows(attempts: int):
    """An entry that was tried a million times is judged like any other."""
    for plan in PLANS.values():
        verdict = fate(errors.Unavailable("x"), attempts, plan, chance=ALMOST_ONE)
        assert isinstance(verdict, Retry)
        assert verdict.due_at <= NOON + timedelta(seconds=plan.cap_seconds)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError(), "ValueError"),
        (ValueError("a"), "ValueError: a"),
        (KeyError("a"), "KeyError: 'a'"),
        (errors.Retryable("a"), "a"),
        (errors.Retryable(), "The attempt failed; another one may succeed."),
        (ValueError("two\n  lines\r\n"), "ValueError: two lines"),
        (errors.SchemaError("two\nlines"), "two lines"),
        (ValueError("a\0b"), r"ValueError: a\x00b"),
        (OSError("caf\udce9.csv"), r"OSError: caf\udce9.csv"),
        (Mute(), "Mute: its text cannot be had (RuntimeError)"),
    ],
)
def test_an_error_is_described_in_one_line_that_can_be_stored(error: Exception, said: str):
    """A poisonous message does not keep its own entry out of quarantine."""
    assert describe(error) == said


@given(st.text(), st.text(min_size=1))
def test_no_text_of_an_error_breaks_the_ledger(text: str, reason: str):
    """No NUL, no half surrogate, no line break, whatever was raised."""
    for error in (ValueError(text), errors.Permanent(text, reason=reason)):
        for line in (describe(error), reason_of(error)):
            assert "\0" not in line
            assert len(line.encode().splitlines()) <= 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"attempts": -1},
        {"budget_seconds": -1},
        {"base_seconds": math.nan},
        {"cap_seconds": math.inf},
        {"cap_seconds": 10**12},
        {"delays": (30, -1)},
        {"jitter": "none"},
    ],
)
def test_a_plan_that_cannot_be_kept_is_refused(wrong: dict[str, Any]):
    """When it is declared, naming the setting, not when the first entry fails."""
    right = {
        "trigger": "mine",
        "attempts": 3,
        "budget_seconds": 60,
        "base_seconds": 1,
        "cap_seconds": 10,
        "jitter": "full",
    }
    assert RetryPlan(**right).attempts == 3
    with pytest.raises(errors.UsageError, match=next(iter(wrong))):
        RetryPlan(**{**right, **wrong})
