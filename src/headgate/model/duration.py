"""Durations as people write them: "500ms", "1s", "15m", "6h", "2d", or a number of seconds."""

from __future__ import annotations

import math
import re

from headgate.errors import UsageError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_WRITTEN = re.compile(r"(\d{1,12}(?:\.\d{1,12})?) ?(ms|s|m|h|d)", re.ASCII)
_HINT = 'Write a number and a unit, as in "500ms", "1s", "15m", "6h", "2d", or seconds as a number.'


def seconds(duration: str | float, what: str = "duration") -> float:
    """The duration in seconds, zero or more. `what` names the setting when it cannot be read."""
    if isinstance(duration, str):
        written = _WRITTEN.fullmatch(duration.strip())
        if written is None:
            raise UsageError(f"{what} is {duration!r}, which is not a duration", hint=_HINT)
        # Milliseconds are divided: 500 * 0.001 is not always the nearest float to 0.5.
        number = float(written[1])
        return number / 1000 if written[2] == "ms" else number * _UNITS[written[2]]
    if isinstance(duration, bool) or not math.isfinite(duration) or duration < 0:
        raise UsageError(f"{what} is {duration!r}, which is not a duration", hint=_HINT)
    return float(duration)
