"""A clock as a source: one entry for each period of a schedule, once, whoever else watches.

A period ends when the schedule is due and began when it was due before; its run is for what
happened in between. The mark is the last time that was dealt with, so after downtime the source
knows what it missed, and does about it what `missed` says. The first start has missed nothing.

Each period has a uri of its own and all of them have one subject: no period replaces another, and
no two run at the same time. The key is made of the schedule's name and the period alone, so two
processes with the same schedule admit each period once, and so does one whose clock went back.

Clock changes, as in Debian's cron: a fixed time that does not exist (02:30 in spring) is due when
the clock has jumped; one that comes twice (02:30 in autumn) is due the first time. Where the minute
or the hour begins with `*`, real time counts: the missing hour has no periods and the repeated one
has both of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Literal
from urllib.parse import quote

import orjson

from headgate.errors import ObjectMissing, PipelineError
from headgate.model.duration import seconds
from headgate.model.envelope import Envelope, Provider
from headgate.model.ports import Advance

from headgate.model.cron import Cron

Missed = Literal["all", "last", "skip"]
# The clock may be set, and a machine may sleep: look at it again after this long at most.
LONGEST_NAP_SECONDS = 60.0
# A mark this far ahead of the clock was left by a clock that was wrong, or ours is.
AHEAD = timedelta(hours=1)
MOST_CATCH_UP = 1000
_log = logging.getLogger(__name__)


def _utc() -> datetime:
    return datetime.now(UTC)


class Schedule:
    """When a cron expression of five fields is due. A minute is the finest it can say."""

    name: str
    provider: Provider = "cron"

    def __init__(
        self,
        cron: str,
        *,
        zone: str = "UTC",
        missed: Missed = "all",
        catch_up_limit: int = 100,
        grace: str | float = "1m",
        name: str = "schedule",
        now: Callable[[], datetime] = _utc,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.cron = Cron(cron, zone)
        if missed not in ("all", "last", "skip"):
            raise PipelineError(f"{name}: missed={missed!r}", hint='"all", "last" or "skip"')
        if not 1 <= catch_up_limit <= MOST_CATCH_UP:
            raise PipelineError(
                f"{name}: catch_up_limit={catch_up_limit!r}",
                hint=f'1 to {MOST_CATCH_UP:,}. To run no missed period: missed="skip".',
            )
        if not name:
            raise PipelineError("a schedule has no name", hint="leave name out, or give it one")
        self.name = name
        self.missed: Missed = missed
        self.catch_up_limit = catch_up_limit
        self.grace_seconds = seconds(grace, f"{name}: grace")
        self.uri = f"schedule://{quote(name, safe='')}"
        self._clock = now
        self._sleep = sleep

    def check(self) -> None:
        """Nothing outside of this process is needed."""

    def owns(self, uri: str) -> bool:
        """What a schedule tells travels inside its envelope: there is nothing to read."""
        return False

    def fetch(self, envelope: Envelope) -> Iterable[bytes]:
        raise ObjectMissing(f"{envelope.uri} is a time, not an object")

    def describe(self) -> dict[str, str]:
        """What is declared, and when it is due next."""
        return {
            "cron": self.cron.expression,
            "zone": self.cron.zone,
            "missed": self.missed,
            "next": next(self.cron.after(self._now())).isoformat(),
        }

    async def follow(self, checkpoint: str | None) -> AsyncGenerator[Advance | None]:
        """Every period that ends after the checkpoint, when it has ended."""
        at = self._now() if checkpoint is None else self._read(checkpoint)
        if checkpoint is None:
            yield Advance([], _stamp(at))
        while True:
            now = self._now()
            if at > now + AHEAD:
                _log.warning(
                    "schedule %s: its mark %s is ahead of the clock, which says %s;"
                    " it goes on from now, and no period runs twice",
                    *(self.name, _stamp(at), _stamp(now)),
                )
                at = now
                yield Advance([], _stamp(at))
            due = next(self.cron.after(at))
            if due <= now:
                told, at = self._due(at, now)
                yield Advance([self._envelope(*period, now) for period in told], _stamp(at))
            else:
                yield None
                wait = (due - self._now()).total_seconds()
                await self._sleep(min(max(wait, 0.0), LONGEST_NAP_SECONDS))

    def _now(self) -> datetime:
        return self._clock().astimezone(UTC)

    def _read(self, checkpoint: str) -> datetime:
        try:
            return datetime.fromisoformat(checkpoint).astimezone(UTC)
        except ValueError:
            raise PipelineError(
                f"the mark of {self.name!r} is {checkpoint!r}, which is no time",
                hint="Another source had this name before. Give the schedule one of its own.",
            ) from None

    def _due(
        self, after: datetime, now: datetime
    ) -> tuple[Sequence[tuple[datetime, datetime]], datetime]:
        """The periods to run, by policy, and the end of the last that ended."""
        due, all_of_them = self.cron.between(after, now, self.catch_up_limit)
        match self.missed:
            case "all":
                chosen = due
            case "last":
                chosen = due[-1:]
            case "skip":
                chosen = [d for d in due if (now - d).total_seconds() <= self.grace_seconds]
        if len(chosen) < len(due) or not all_of_them:
            _log.warning(
                "schedule %s: %s%d of its periods were missed since %s and do not run (missed=%r,"
                " catch_up_limit=%d)",
                *(self.name, "" if all_of_them else "more than ", len(due) - len(chosen)),
                *(_stamp(after), self.missed, self.catch_up_limit),
            )
        ends = [self.cron.before(chosen[0]), *chosen] if chosen else []
        return list(pairwise(ends)), due[-1].astimezone(UTC)

    def _envelope(self, start: datetime, end: datetime, received_at: datetime) -> Envelope:
        period = {
            "schedule": self.name,
            "start": start.isoformat(),
            "end": end.isoformat(),
            "zone": self.cron.zone,
        }
        data = orjson.dumps(period)
        return Envelope(
            event_id=end.isoformat(),
            source="schedule:due",
            provider=self.provider,
            detector="cron",
            uri=f"{self.uri}/{end.isoformat()}",
            subject=self.uri,
            event_time=end.astimezone(UTC),
            received_at=received_at,
            size=len(data),
            content_type="application/json",
            data=data,
        )


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()
