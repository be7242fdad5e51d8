"""Cron arithmetic: when a schedule is due, as instants, in a time zone with its clock changes.

Only forward steps of cronsim are used, and only instants (UTC) are compared: wall clocks repeat an
hour in autumn, and two times of one zone compare by what they read, not by when they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from headgate.errors import PipelineError

_FIRST_LOOK = timedelta(hours=1)
# cronsim gives up after fifty years; nothing that is due more rarely is a schedule.
_LONGEST_LOOK = timedelta(days=50 * 366)
_SOME_DAY = datetime(2024, 1, 1, tzinfo=UTC)
_HINT = 'Five fields: minute, hour, day of month, month, day of week, as in "0 6 * * *".'


class Cron:
    """A cron expression of five fields in a time zone."""

    def __init__(self, expression: str, zone: str) -> None:
        self.expression = " ".join(expression.split())
        self.zone = zone
        if len(self.expression.split()) != 5:
            raise PipelineError(
                f"schedule {expression!r} has {len(expression.split())} fields", hint=_HINT
            )
        try:
            self._zone = ZoneInfo(zone)
        except (KeyError, OSError, ValueError) as error:  # no such name, or one that is no name
            raise PipelineError(
                f"there is no time zone {zone!r}",
                hint='As in "Europe/Vienna" or "UTC". On a system without zones: '
                "pip install tzdata",
            ) from error
        try:
            next(CronSim(self.expression, _SOME_DAY))
        except CronSimError as error:
            raise PipelineError(f"schedule {expression!r}: {error}", hint=_HINT) from error
        except StopIteration:
            raise PipelineError(f"schedule {expression!r} is never due", hint=_HINT) from None

    def __str__(self) -> str:
        return f"{self.expression} {self.zone}"

    def after(self, instant: datetime) -> Iterator[datetime]:
        """Every time it is due after the instant, in the zone's own time."""
        last = _at(instant)
        for told in CronSim(self.expression, last.astimezone(self._zone)):
            due = _at(told)
            # In the hour that comes twice, cronsim begins with its first round once more.
            if due > last:
                last = due
                yield due.astimezone(self._zone)  # which also turns 00:00 that never was into 01:00

    def between(self, after: datetime, until: datetime, most: int) -> tuple[list[datetime], bool]:
        """The last `most` times it was due in (after, until], and whether these are all of them.

        However long ago `after` is, the work is in proportion to `most`.
        """
        look, whole = _FIRST_LOOK, until - after
        while True:
            since = after if look >= whole else until - look
            found = list(takewhile(lambda due: _at(due) <= _at(until), self.after(since)))
            if since is after or len(found) > most:
                return found[-most:], since is after and len(found) <= most
            look *= 4

    def before(self, due: datetime) -> datetime:
        """The time it was due before this one; the same one when there was none."""
        just_before = _at(due) - timedelta(microseconds=1)
        found, _ = self.between(just_before - _LONGEST_LOOK, just_before, 1)
        return found[0] if found else due


def _at(time: datetime) -> datetime:
    return time.astimezone(UTC)
