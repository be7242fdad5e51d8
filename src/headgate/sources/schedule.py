"""A clock as a source: one entry for each period of a schedule, once, whoever else watches.

A period ends when the schedule is due and began when it was due before; its run is for what
happened in between. The mark is the last time that was dealt with, so after downtime the source
knows what it missed, and does about it what `missed` says. The first start has missed nothing.

Each period has a uri of its own and all of them have one subject: no period replaces another, and
no two run at the same time. The key is made of the schedule's name and the period alone, so two
processes with the same schedule admit each period once, and so does one whose clock went back.

By a watermark (`by`) a period ends when the pipeline it names is complete up to then, whatever the
clock says. The schedule's own mark never goes back.

Clock changes, as in Debian's cron: a fixed time that does not exist (02:30 in spring) is due when
the clock has jumped; one that comes twice (02:30 in autumn) is due the first time. Where the minute
or the hour begins with `*`, real time counts: the missing hour has no periods and the repeated one
has both of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from copy import copy
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Literal
from urllib.parse import quote

import orjson

from headgate.errors import ObjectMissing, PipelineError
from headgate.model.cron import Cron
from headgate.model.duration import seconds
from headgate.model.envelope import Envelope, Provider
from headgate.model.ports import Advance, Stands
from headgate.model.watermark import Watermark

Missed = Literal["all", "last", "skip"]
# The clock may be set, and a machine may sleep: look at it again after this long at most.
LONGEST_NAP_SECONDS = 60.0
# How often a watermark is looked at.
LOOK_SECONDS = 5.0
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
        by: Watermark | None = None,
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
        if by is not None and missed == "skip":
            raise PipelineError(
                f"{name}: missed='skip' has no meaning by a watermark, which moves in leaps",
                hint='"all", or "last"',
            )
        if not 1 <= catch_up_limit <= MOST_CATCH_UP:
            raise PipelineError(
                f"{name}: catch_up_limit={catch_up_limit!r}",
                hint=f'1 to {MOST_CATCH_UP:,}. To run no missed period: missed="skip".',
            )
        if not name:
            raise PipelineError("a schedule has no name", hint="leave name out, or give it one")
        self.name = name
        self.by = by
        self.missed: Missed = missed
        self.catch_up_limit = catch_up_limit
        self.grace_seconds = seconds(grace, f"{name}: grace")
        self.uri = f"schedule://{quote(name, safe='')}"
        self._clock = now
        self._sleep = sleep
        self._stands: Stands | None = None

    def going_by(self, stands: Stands) -> Schedule:
        """The same schedule, with the watermark that it goes by at hand."""
        made = copy(self)
        made._stands = stands
        return made

    def check(self) -> None:
        """Nothing outside of this process is needed."""

    def owns(self, uri: str) -> bool:
        """What a schedule tells travels inside its envelope: there is nothing to read."""
        return False

    def fetch(self, envelope: Envelope) -> Iterable[bytes]:
        raise ObjectMissing(f"{envelope.uri} is a time, not an object")

    def describe(self) -> dict[str, str]:
        """What is declared, and when it is due next."""
        said = {"cron": self.cron.expression, "zone": self.cron.zone, "missed": self.missed}
        if self.by is not None:
            return said | {"by": f"the watermark of {self.by.pipeline}"}
        return said | {"next": next(self.cron.after(self._now())).isoformat()}

    async def follow(self, checkpoint: str | None) -> AsyncGenerator[Advance | None]:
        """Every period that ends after the checkpoint, when it has ended."""
        if self.by is not None:
            async with aclosing(self._follow_watermark(self.by, checkpoint)) as telling:
                async for advance in telling:
                    yield advance
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

    async def _follow_watermark(
        self, by: Watermark, checkpoint: str | None
    ) -> AsyncGenerator[Advance | None]:
        """The same by a watermark: a period has ended when nothing from before can be in time.

        Streams wake up behind the others, so it may stand lower than before: that is waited out.
        """
        assert self._stands is not None, "whoever follows a schedule hands it the watermark"
        at = None if checkpoint is None else self._read(checkpoint)
        while True:
            due = None if at is None else next(self.cron.after(at))
            stands = await self._stands(by, due)
            if stands is None or (due is not None and stands < due):
                yield None
                await self._sleep(LOOK_SECONDS)
            elif at is None:
                at = stands
                yield Advance([], _stamp(at))
            else:
                told, at = self._due(at, stands)
                now = self._now()
                yield Advance([self._envelope(*period, now) for period in told], _stamp(at))

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
