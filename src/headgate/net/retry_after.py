"""Retry-After: when a server wants to be asked again, in seconds from its answer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# A server that says "next year" is asked again tomorrow.
LONGEST_SECONDS = 86_400.0


def delay_of(headers: Mapping[str, str]) -> float | None:
    """The wait that the header asks for, or None when it asks for none that can be read."""
    said = headers.get("Retry-After", "").strip()
    if said.isascii() and said.isdecimal():
        return min(float(said[:12]), LONGEST_SECONDS)
    until = http_date(said)
    if until is None:
        return None
    # By the server's own clock, if it tells: ours may be wrong.
    now = http_date(headers.get("Date", "")) or datetime.fromtimestamp(time.time(), UTC)
    return min(max((until - now).total_seconds(), 0.0), LONGEST_SECONDS)


def http_date(text: str) -> datetime | None:
    """A date of HTTP in any of its three forms, or None."""
    try:
        parsed = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
