"""A redrive: quarantined entries run again by a plan that stops by itself (C9).

    planned → canary → running → done        paused, and back to where it was
                 └────────┴────→ stopped     too many failed, or somebody said so

A few go first, and the rest waits until all of them have ended. Afterwards a batch at a time, no
faster than the rate, and nothing more while what was released is not worked off. `decide` is the
whole rule; clocks and counts are handed in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headgate.errors import UsageError

State = Literal["planned", "canary", "running", "paused", "stopped", "done"]
Held = Literal["canary", "failing", "live", "backlog", "budget", "rate", "ending"]
"""Why nothing is released right now."""
HELD: Mapping[Held, str] = {
    "canary": "those that went first have not all ended",
    "failing": "what was released fails, and is tried again",
    "live": "so many were released and have not ended",
    "backlog": "the pipeline has enough to do",
    "budget": "the pipeline's error budget is spent: it recovers by itself, or `headgate budget"
    " override`",
    "rate": "as fast as it may",
    "ending": "all are released; the last are running",
}

ACTIVE: tuple[State, ...] = ("planned", "canary", "running")
# The share is that of the last so many that were released and tried: nine thousand good ones must
# not hide a thousand bad ones behind them. Not of those that ended last: what fails takes its time,
# and then many end together.
RECENT = 100
# One failure among two says nothing yet.
LEAST = 20

_RATE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?) ?/ ?(s|m|h)", re.ASCII)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Terms:
    """How careful a redrive is. `per_second` None: as fast as the work is done."""

    canary: int = 5
    batch: int = 50
    per_second: float | None = 10.0
    stop_share: float = 0.2
    backlog: int = 1000

    @property
    def pace(self) -> str:
        """How fast it goes at most, as people say it."""
        if self.per_second is None:
            return "as fast as the work is done"
        units = ((1.0, "a second"), (60.0, "a minute"), (3600.0, "an hour"))
        times, unit = next((u for u in units if self.per_second * u[0] >= 1), units[-1])
        return f"at most {self.per_second * times:g} {unit}"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is. `recent` are the last that were tried: some failed for good, some are failing
    and will be tried again.
    """

    total: int
    released: int
    passed: int
    failed: int
    gone: int
    recent: int = 0
    recent_failed: int = 0
    recent_failing: int = 0

    @property
    def live(self) -> int:
        """Released, and not ended."""
        return self.released - self.passed - self.failed

    @property
    def left(self) -> int:
        """Still in quarantine, until it is their turn."""
        return self.total - self.released - self.gone


@dataclass(frozen=True, slots=True)
class Release:
    """Let so many run now."""

    entries: int
    state: State


@dataclass(frozen=True, slots=True)
class Hold:
    """Release nothing now, and look again soon."""

    why: Held
    state: State


@dataclass(frozen=True, slots=True)
class End:
    """Nothing more will be released."""

    state: Literal["stopped", "done"]
    why: str | None = None


Step = Release | Hold | End


def decide(terms: Terms, at: Progress, state: State, tokens: float) -> Step:
    """What a plan that is not paused does next. `tokens` is what the rate allows by now."""
    if state != "running":
        ahead = min(terms.canary, at.total - at.gone) - at.released
        if ahead > 0:
            return Release(ahead, "canary")
        if at.live:
            return Hold("canary", "canary")
        if at.failed > terms.stop_share * (at.passed + at.failed):
            ended = at.passed + at.failed
            return End("stopped", f"{at.failed} of {ended} that went first failed")
    if at.recent_failed > terms.stop_share * max(at.recent, LEAST):
        return End("stopped", f"{at.recent_failed} of the last {at.recent} failed")
    if not at.left:
        return Hold("ending", "running") if at.live else End("done")
    if at.recent_failed + at.recent_failing > terms.stop_share * max(at.recent, LEAST):
        return Hold("failing", "running")
    if at.live >= terms.backlog:
        return Hold("live", "running")
    most = min(terms.batch, at.left, terms.backlog - at.live)
    if terms.per_second is not None:
        most = min(most, math.floor(tokens))
    return Release(most, "running") if most else Hold("rate", "running")


def per_second(rate: str) -> float | None:
    """A rate as people write it: `10/s`, `600/m`, `5000/h`; `max` is None."""
    if rate.strip() == "max":
        return None
    written = _RATE.fullmatch(rate.strip())
    if written is None or float(written[1]) == 0:
        raise UsageError(
            f"--rate is {rate!r}, which is not a rate",
            hint="Write 10/s, 600/m or 5000/h; or max, which is as fast as the work is done.",
        )
    return float(written[1]) / _SECONDS[written[2]]
