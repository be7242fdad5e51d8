"""Times as Postgres sends them: eight bytes, the microseconds since 2000.

To make a `datetime` of them takes longer than to read all else of a row, and most are never looked
at. `timestamptz_send(…)` answers them as they are; whoever looks pays for it then.

The first and the last time that Python knows are without end in Postgres: the driver has it so, and
some senders say the year 1 where they mean none.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ENDLESS = {
    b"\x80" + bytes(7): datetime.min.replace(tzinfo=UTC),
    b"\x7f" + b"\xff" * 7: datetime.max.replace(tzinfo=UTC),
}
_SENT = {at: sent for sent, at in _ENDLESS.items()}


def instant(sent: bytes) -> datetime:
    """The time that was sent."""
    if (endless := _ENDLESS.get(sent)) is not None:
        return endless
    return _EPOCH + timedelta(microseconds=int.from_bytes(sent, "big", signed=True))


def as_sent(at: datetime) -> bytes:
    """The inverse: a time as Postgres would send it."""
    if (sent := _SENT.get(at)) is not None:
        return sent
    return ((at - _EPOCH) // _MICROSECOND).to_bytes(8, "big", signed=True)
