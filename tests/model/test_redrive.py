"""The rule of a redrive, in every order of good and bad: it never hurries, and it always ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import UsageError
from headgate.model.redrive import (
    LEAST,
    End,
    Hold,
    Progress,
    Release,
    State,
    Terms,
    decide,
    per_second,
)

FATES = st.lists(st.booleans(), min_size=1, max_size=200)
TERMS = st.builds(
    Terms,
    canary=st.integers(0, 12),
    batch=st.integers(1, 60),
    per_second=st.one_of(st.none(), st.just(10.0)),
    stop_share=st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0]),
    backlog=st.integers(1, 80),
)


class Driven:
    """A plan that is worked off by a ledger that keeps its promises."""

    def __init__(self, terms: Terms, good: list[bool]) -> None:
        self.terms = terms
        self.good = good
        self.state: State = "planned"
        self.at = Progress(len(good), 0, 0, 0, 0)
        self.ended: list[bool] = []
        self.releases: list[tuple[State, int]] = []

    def end(self, entries: int) -> None:
        """The oldest that are live end as they are fated to."""
        done = len(self.ended)
        self.ended += self.good[done : done + entries]
        recent = self.ended[-100:]
        self.at = replace(
            self.at,
            passed=sum(self.ended),
            failed=len(self.ended) - sum(self.ended),
            recent=len(recent),
            recent_failed=len(recent) - sum(recent),
        )

    def step(self) -> bool:
        """Decide once; False when it has ended."""
        step = decide(self.terms, self.at, self.state, self.terms.batch)
        self.state = step.state
        match step:
            case Release(entries=n):
                assert n > 0
                self.releases.append((step.state, n))
                self.at = replace(self.at, released=self.at.released + n)
            case Hold():
                assert self.at.live, "whoever waits for nothing waits for ever"
                self.end(max(1, self.at.live // 2))
            case End():
                return False
        return True


@given(TERMS, FATES)
def test_it_ends_and_never_exceeds_its_terms(terms: Terms, good: list[bool]) -> None:
    """Whatever passes or fails: no batch is too large, the backlog is kept, and it ends."""
    plan = Driven(terms, good)
    for _ in range(10 * len(good) + 10):
        live = plan.at.live
        going = plan.step()
        assert plan.at.released <= len(good)
        if plan.releases and plan.at.live > live:
            state, n = plan.releases[-1]
            assert n <= (terms.canary if state == "canary" else terms.batch)
            assert state == "canary" or plan.at.live <= max(terms.backlog, live)
        if not going:
            break
    else:
        raise AssertionError("it never ends")
    if plan.state == "done":
        assert plan.at.left == plan.at.live == 0


@given(TERMS, FATES)
def test_nothing_follows_before_all_that_went_first_have_ended(
    terms: Terms, good: list[bool]
) -> None:
    """None of the others is touched while a canary is under way, or when too many failed."""
    plan = Driven(terms, good)
    ahead = min(terms.canary, len(good))
    while plan.step():
        if plan.at.released > ahead:
            assert len(plan.ended) >= ahead
            bad = ahead - sum(plan.ended[:ahead])
            assert bad <= terms.stop_share * ahead
            break


def test_what_fails_and_is_tried_again_holds_the_rest_and_stops_nothing() -> None:
    """Failures that may still pass are no reason to end; they are a reason to wait."""
    at = Progress(500, 60, 40, 0, 0, recent=60, recent_failing=20)
    assert decide(Terms(), at, "running", 50) == Hold("failing", "running")
    assert isinstance(decide(Terms(), replace(at, recent_failing=12), "running", 50), Release)


def test_few_failures_say_nothing_yet() -> None:
    """One bad entry among the first two after the canaries does not end a plan."""
    few = int(0.2 * LEAST)
    at = Progress(500, 10, 10 - few, few, 0, recent=10, recent_failed=few)
    assert isinstance(decide(Terms(), at, "running", 50), Release)
    more = replace(at, passed=10 - few - 1, failed=few + 1, recent_failed=few + 1)
    assert decide(Terms(), more, "running", 50) == End("stopped", "5 of the last 10 failed")


@pytest.mark.parametrize(
    ("said", "means"),
    [("10/s", 10), ("600/m", 10), ("36000/h", 10), ("0.5 / s", 0.5), ("max", None)],
)
def test_a_rate_is_read_as_people_write_it(said: str, means: float | None) -> None:
    assert per_second(said) == means


@pytest.mark.parametrize("said", ["10", "0/s", "-1/s", "fast", "10/d", ""])
def test_what_is_no_rate_is_refused(said: str) -> None:
    with pytest.raises(UsageError, match="is not a rate"):
        per_second(said)
