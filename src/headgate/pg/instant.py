"""Times as Postgres sends them: eight bytes, the microseconds since 2000.

To make a `datetime` of them takes longer than to read all else of a row, and most are never looked
at. `timestamptz_send(…)` answers them as they are; whoever looks pays for it then.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def instant(sent: bytes) -> datetime:
    """The time that was sent."""
    return _EPOCH + timedelta(microseconds=int.from_bytes(sent, "big", signed=True))


def as_sent(at: datetime) -> bytes:
    """The inverse: a time as Postgres would send it."""
    return ((at - _EPOCH) // _MICROSECOND).to_bytes(8, "big", signed=True)
