"""Event time: how far a stream has come by its own account, and what is late.

A stream is one source of one pipeline. Its watermark is the latest event time that counted, less
the allowed lateness; it never goes back. An event from before the watermark is late. That is
decided once, when the event is admitted, by what was admitted before it: a function of the order of
admission and of nothing else. What came before is not asked again on a retry, and a duplicate is
not an event.

A clock that runs ahead is believed only so far (`skew`): one event dated tomorrow would otherwise
make late whatever comes until then. A stream that has told nothing new for a while (`idle`) does
not hold back the watermark that all streams of a pipeline have in common.

The ledger decides in the same words (`headgate.receive_timed` in ledger/watermark.sql); a property
holds one against the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from headgate.errors import PipelineError

from .cron import Cron
from .duration import seconds

Late = Literal["patch", "hold"]
# Far beyond any use, and far from where dates end.
LONGEST = timedelta(days=3650)
FIRST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class EventTime:
    """What a pipeline makes of event time: how late is allowed, and what becomes of what is later.

    `patch` applies a late event at once, as a publication of its own. `hold` sets it aside until
    somebody, or `release` (a cron expression, UTC), lets it run.
    """

    lateness: str | float = "1h"
    late: Late = "patch"
    idle: str | float = "15m"
    skew: str | float = "5m"
    release: str | None = None
    lateness_seconds: float = field(init=False)
    idle_seconds: float = field(init=False)
    skew_seconds: float = field(init=False)

    def __post_init__(self) -> None:
        if self.late not in ("patch", "hold"):
            raise PipelineError(f"EventTime: late={self.late!r}", hint='use "patch" or "hold"')
        if self.release is not None and self.late != "hold":
            raise PipelineError(
                f"EventTime: release={self.release!r} has nothing to release",
                hint='it serves late="hold": what is patched is applied at once',
            )
        if self.release is not None:
            Cron(self.release, "UTC")  # which says what is wrong with it
        for name in ("lateness", "idle", "skew"):
            given = seconds(getattr(self, name), f"EventTime: {name}")
            if given > LONGEST.total_seconds():
                raise PipelineError(
                    f"EventTime: {name}={getattr(self, name)!r}", hint="ten years are the most"
                )
            object.__setattr__(self, f"{name}_seconds", given)

    @property
    def lateness_allowed(self) -> timedelta:
        return timedelta(seconds=self.lateness_seconds)

    @property
    def skew_allowed(self) -> timedelta:
        return timedelta(seconds=self.skew_seconds)

    def declared(self) -> dict[str, Any]:
        """As the ledger keeps it."""
        return {
            "lateness_seconds": self.lateness_seconds,
            "late": self.late,
            "idle_seconds": self.idle_seconds,
            "skew_seconds": self.skew_seconds,
            "release": self.release,
        }


@dataclass(frozen=True, slots=True)
class Watermark:
    """The watermark of a pipeline, as what a schedule goes by instead of the clock.

    `at_most` is how long after its end a period waits, by the clock, for a pipeline whose streams
    are silent or whose work does not end. None: as long as it takes.
    """

    pipeline: str
    at_most: str | float | None = None
    at_most_seconds: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.at_most is not None:
            object.__setattr__(self, "at_most_seconds", seconds(self.at_most, "Watermark: at_most"))


@dataclass(frozen=True, slots=True)
class Stream:
    """How far one stream has come. Nothing told yet: both are None."""

    seen: datetime | None = None
    watermark: datetime | None = None


def is_late(event_time: datetime, watermark: datetime | None) -> bool:
    """Had the watermark already passed this event?"""
    return watermark is not None and event_time < watermark


def by_how_much(event_time: datetime, watermark: datetime) -> str:
    """How late an event is, for people: days, hours, minutes and seconds."""
    return str(watermark - event_time).removesuffix("000")


def counted(event_time: datetime, now: datetime, skew: timedelta) -> datetime:
    """The event time as far as it is believed: no further ahead of the clock than `skew`."""
    return min(event_time, now + skew)


def advance(stream: Stream, event_time: datetime, now: datetime, rule: EventTime) -> Stream:
    """The stream after one more event. Its watermark never goes back."""
    seen = _latest(stream.seen, counted(event_time, now, rule.skew_allowed))
    reached = seen - min(rule.lateness_allowed, seen - FIRST)
    return Stream(seen, _latest(stream.watermark, reached))


def admit(
    stream: Stream, event_times: Iterable[datetime], now: datetime, rule: EventTime
) -> tuple[Stream, list[datetime | None]]:
    """Events that are new, in the order they are admitted: the stream after them, and for each the
    watermark that had already passed it; None: it is on time.
    """
    passed: list[datetime | None] = []
    for event_time in event_times:
        passed.append(stream.watermark if is_late(event_time, stream.watermark) else None)
        stream = advance(stream, event_time, now, rule)
    return stream, passed


def is_idle(heard_at: datetime, now: datetime, idle_seconds: float) -> bool:
    """Has a stream told nothing new for so long that nobody should wait for it?"""
    return heard_at < now - timedelta(seconds=idle_seconds)


def combine(streams: Iterable[tuple[datetime | None, bool]]) -> datetime | None:
    """The watermark that streams have in common, of the watermark of each and whether it is idle.

    It is the lowest of those that are not idle; a stream that has told nothing yet (None) holds it
    back until it counts as idle. When all are idle none holds back another, and the highest
    stands: silence alone moves nothing.
    """
    told = list(streams)
    if awake := [watermark for watermark, idle in told if not idle]:
        return None if None in awake else min(w for w in awake if w is not None)
    return max((w for w, _ in told if w is not None), default=None)


def _latest(one: datetime | None, other: datetime) -> datetime:
    return other if one is None or other > one else one
