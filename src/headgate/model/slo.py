"""Service levels: what share of the work may go wrong, and how much of that is left.

    duplicates      deliveries that told what was known, among all deliveries. They cost time and do
                    no harm: each was answered with its receipt and changed nothing.
    double_applies  entries that were finalized twice. None may be: there is no budget for it.
    latency         entries that took longer than the target from their receipt to their end,
                    among those that ended. `latency_share` of them have to be quicker.
    dead_letters    attempts that ended in quarantine, among all that ended for good.

A budget is what may go wrong in the window: the allowed share of what happened in it. It burns at
rate 1 when exactly that share goes wrong; at rate 10 it is gone in a tenth of the window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Slo = Literal["duplicates", "double_applies", "latency", "dead_letters"]
SLOS: tuple[Slo, ...] = get_args(Slo)
State = Literal["ok", "burning", "spent", "no data"]
# What to run when one is not kept, and the runbook to open.
ADVICE: dict[Slo, tuple[str, str]] = {
    "duplicates": ("headgate status", "duplicate-spike"),
    "double_applies": ("headgate verify --deep", "double-apply"),
    "latency": ("headgate top", "stuck-or-slow"),
    "dead_letters": ("headgate quarantine summary", "dead-letters"),
}

# How fast a budget may burn before somebody is told. Two windows have to agree: the long one says
# that it matters, the short one that it still goes on.
BURN_WINDOWS = {"5m": 300, "1h": 3600, "6h": 21_600}
FAST = (14.4, "1h", "5m")
SLOW = (6.0, "6h", "1h")
# Fewer bad ones say nothing about a pipeline, except of what may never happen.
LEAST_BAD = 5


@dataclass(frozen=True, slots=True)
class Targets:
    """What is promised. Shares are of what may go wrong; `latency_share` of what must not."""

    duplicates: float = 0.01
    latency_seconds: float = 300.0
    latency_share: float = 0.95
    dead_letters: float = 0.01
    window_seconds: float = 30 * 86_400.0

    def allowed(self, slo: Slo) -> float:
        """The share that may go wrong."""
        match slo:
            case "duplicates":
                return self.duplicates
            case "double_applies":
                return 0.0
            case "latency":
                return round(1.0 - self.latency_share, 9)
            case "dead_letters":
                return self.dead_letters

    def said(self, slo: Slo) -> str:
        """The promise in words."""
        match slo:
            case "duplicates":
                return f"at most {_percent(self.duplicates)} of deliveries are repeated"
            case "double_applies":
                return "nothing is applied twice"
            case "latency":
                most = _percent(self.latency_share)
                return f"{most} of entries end within {self.latency_seconds:g} s"
            case "dead_letters":
                return f"at most {_percent(self.dead_letters)} of what ends is set aside"


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


@dataclass(frozen=True, slots=True)
class Counted:
    """What happened in a window, and how much of it went wrong."""

    total: float = 0.0
    bad: float = 0.0

    @property
    def share(self) -> float | None:
        """The share that went wrong; None when nothing happened."""
        return self.bad / self.total if self.total else None


@dataclass(frozen=True, slots=True)
class SloStanding:
    """How a pipeline stands against one promise. `budget_left` is 1 when nothing went wrong, 0 when
    all that may has, and below 0 beyond. `burn` is by window; empty where there is no budget.
    """

    slo: Slo
    pipeline: str
    promise: str
    allowed: float
    window_seconds: float
    total: float
    bad: float
    share: float | None
    budget_left: float
    burn: Mapping[str, float]
    state: State
    p95_seconds: float | None = None


def stand(
    slo: Slo,
    pipeline: str,
    targets: Targets,
    window: Counted,
    recent: Mapping[str, Counted],
    p95_seconds: float | None = None,
) -> SloStanding:
    """Hold what happened against a promise."""
    allowed = targets.allowed(slo)
    burn = {name: (c.share or 0.0) / allowed for name, c in recent.items()} if allowed else {}
    if not allowed:
        left = 0.0 if window.bad else 1.0
    else:
        left = 1.0 - window.bad / (allowed * window.total) if window.total else 1.0
    return SloStanding(
        slo, pipeline, targets.said(slo), allowed, targets.window_seconds, window.total, window.bad,
        window.share, left, burn, _state(allowed, left, window, recent, burn), p95_seconds,
    )  # fmt: skip


def _state(
    allowed: float,
    left: float,
    window: Counted,
    recent: Mapping[str, Counted],
    burn: Mapping[str, float],
) -> State:
    if not window.total:
        return "no data"
    if not allowed:
        return "spent" if window.bad else "ok"
    if left <= 0 and window.bad >= LEAST_BAD:
        return "spent"
    for rate, long, short in (FAST, SLOW):
        hot = burn.get(long, 0.0) > rate and burn.get(short, 0.0) > rate
        if hot and recent[long].bad >= LEAST_BAD:
            return "burning"
    return "ok"
