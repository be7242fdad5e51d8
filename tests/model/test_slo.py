"""How promises are kept in figures: shares, budgets, and how fast they burn."""

from __future__ import annotations

import pytest

from headgate.model.flow import BOUNDS, merged, quantile, within
from headgate.model.slo import Counted, Slo, SloStanding, Targets, stand

QUIET = {"5m": Counted(), "1h": Counted(), "6h": Counted()}


def standing(slo: Slo, total: float, bad: float, **recent: tuple[float, float]) -> SloStanding:
    windows = QUIET | {f"{k[1:]}": Counted(*v) for k, v in recent.items()}
    return stand(slo, "rain", Targets(), Counted(total, bad), windows)


@pytest.mark.parametrize(
    ("bad", "left", "state"),
    [(0, 1.0, "ok"), (50, 0.5, "ok"), (100, 0.0, "spent"), (300, -2.0, "spent")],
)
def test_a_budget_is_what_may_still_go_wrong(bad: int, left: float, state: str) -> None:
    """Of 10,000 a hundred may: half of them leave half of the budget."""
    s = standing("dead_letters", 10_000, bad)
    assert (s.budget_left, s.state) == (pytest.approx(left), state)


def test_what_may_never_happen_has_no_budget() -> None:
    """One double apply among a million breaks the promise, however few."""
    assert standing("double_applies", 1_000_000, 0).state == "ok"
    broken = standing("double_applies", 1_000_000, 1)
    assert (broken.state, broken.budget_left, broken.burn) == ("spent", 0.0, {})


def test_a_budget_burns_when_the_long_and_the_short_window_agree() -> None:
    """A spike that is over, or one that just began, wakes nobody."""
    hot, cold = (1000.0, 200.0), (1000.0, 1.0)
    assert standing("dead_letters", 1e6, 200, _1h=hot, _5m=hot).state == "burning"
    assert standing("dead_letters", 1e6, 200, _1h=hot, _5m=cold).state == "ok"
    assert standing("dead_letters", 1e6, 200, _1h=cold, _5m=hot).state == "ok"
    slow = (1000.0, 70.0)
    assert standing("dead_letters", 1e6, 200, _6h=slow, _1h=slow).state == "burning"
    assert standing("dead_letters", 1e6, 200, _1h=hot, _5m=hot).burn["1h"] == pytest.approx(20)


def test_a_handful_says_nothing_and_nothing_says_so() -> None:
    """Two of twenty are ten percent and no alarm; a pipeline that never ran has no data."""
    few = standing("dead_letters", 20, 2, _1h=(20, 2), _5m=(20, 2))
    assert (few.state, few.share) == ("ok", 0.1)
    assert standing("latency", 0, 0).state == "no data"


def test_quantiles_are_read_from_buckets() -> None:
    """As if each bucket were filled evenly; beyond the last bound nobody knows more."""
    ten_seconds = BOUNDS.index(10.0)
    assert quantile({ten_seconds: 100}, 0.5) == pytest.approx(7.5)
    assert quantile({}, 0.5) is None
    assert quantile({len(BOUNDS): 5}, 0.95) == BOUNDS[-1]
    five_minutes = BOUNDS.index(300.0)
    mixed = merged({five_minutes: 90}, {five_minutes: 5, five_minutes + 1: 5})
    assert within(mixed, 300.0) == pytest.approx(95)
    assert within(mixed, 450.0) == pytest.approx(97.5)
    assert within({len(BOUNDS): 5}, 1e9) == 0
    assert quantile(mixed, 0.95) == pytest.approx(300.0)
