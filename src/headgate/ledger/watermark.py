"""Watermarks in the ledger: what is late is decided with the admission, and stays what it was.

The rules are in `model/watermark.py`, as values, and in watermark.sql, where they are kept: under
the lock of the stream's row, over what is new, in the order it was told. Read those first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby

from headgate.errors import LateEvent, Unavailable
from headgate.model.envelope import Envelope
from headgate.model.identity import change_key
from headgate.model.verdict import Quarantine, classify, describe, reason_of
from headgate.model.watermark import EventTime, Watermark, by_how_much, combine, is_idle
from headgate.pg import Database, Link, queries

from .arrays import column
from .aside import Aside

Q = queries.load(__file__)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one stream stands. `now` is the ledger's clock; `late` counts what came late."""

    id: int  # of the pipeline
    pipeline: str
    source: str
    seen: datetime | None
    watermark: datetime | None
    heard_at: datetime
    late: int
    idle: bool
    now: datetime

    @property
    def name(self) -> str:
        """The stream's name, as metrics have it."""
        return f"{self.pipeline}/{self.source}"

    @property
    def lag_seconds(self) -> float | None:
        """How far the watermark is behind the clock."""
        return None if self.watermark is None else (self.now - self.watermark).total_seconds()


@dataclass(frozen=True, slots=True)
class Holding:
    """A pipeline that holds what is late, and when that is to be released."""

    pipeline: int
    name: str
    release: str
    released: datetime | None
    now: datetime


async def declare(link: Link, pipeline: int, sources: Sequence[str]) -> None:
    """Wait for these sources from now on."""
    await link.execute(Q.declare, pipeline, list(sources))


def timing(
    rule: EventTime, told: Sequence[Envelope], events: Sequence[Envelope]
) -> tuple[list[bool], float, float] | None:
    """What `receive_timed` has to know beyond `receive`; None when nothing told is an event.

    What is set aside on arrival has no time that could be believed, and a period is no event.
    """
    heard = {id(e) for e in events if e.detector != "cron"}
    flags = [id(e) in heard for e in told]
    return (column(flags), rule.lateness_seconds, rule.skew_seconds) if any(flags) else None


def held(
    source: str, envelopes: Sequence[Envelope], late: Mapping[bytes, datetime]
) -> Iterator[Aside]:
    """Those of the envelopes that came late, on their way into quarantine."""
    rest = dict(late)
    for envelope in envelopes:
        passed = rest.pop(change_key(envelope), None)
        if passed is not None:
            error = LateEvent(
                f"it is of {_utc(envelope.event_time)}, {by_how_much(envelope.event_time, passed)}"
                f" before the watermark of {source}, which stood at {_utc(passed)}"
            )
            yield Aside(envelope, Quarantine(classify(error), reason_of(error), describe(error)))


async def streams(db: Database | Link, pipeline: str | None = None) -> list[Standing]:
    """The streams of every pipeline that declares event time, or of one."""
    return [
        Standing(
            *row[:7],
            idle=is_idle(row["heard_at"], row["now"], row["idle_seconds"]),
            now=row["now"],
        )
        for row in await db.fetch(Q.streams, pipeline)
    ]


def combined(standing: Sequence[Standing]) -> dict[str, datetime | None]:
    """The watermark that the streams of each pipeline have in common."""
    return {
        pipeline: combine((s.watermark, s.idle) for s in of)
        for pipeline, of in groupby(standing, key=lambda s: s.pipeline)
    }


async def stands(db: Database, by: Watermark, due: datetime | None) -> datetime | None:
    """Up to when a pipeline is complete: by its watermark, and everything in time is done.

    Whether work is left is asked only when the watermark has passed `due`. Raises `Unavailable`
    when the pipeline has no watermark to go by.
    """
    standing = await streams(db, by.pipeline)
    if not standing:
        raise Unavailable(
            f"pipeline {by.pipeline!r} has no watermark to go by",
            hint="Give it event_time=hg.EventTime(...) and a source, and start it.",
        )
    at = combined(standing)[by.pipeline]
    if at is not None and due is not None and at >= due:
        unfinished: datetime | None = await db.fetchval(Q.unfinished, standing[0].id, at)
        at = unfinished or at
    if by.at_most_seconds is not None:
        latest = standing[0].now - timedelta(seconds=by.at_most_seconds)
        at = latest if at is None else max(at, latest)
    return at


async def holding(db: Database) -> list[Holding]:
    """Pipelines that say when what they hold is to be released."""
    return [Holding(*row) for row in await db.fetch(Q.holding)]


async def held_until(db: Database, pipeline: int, until: datetime, most: int) -> list[int]:
    """Entries that were held for being late, up to a moment."""
    return [r["entry"] for r in await db.fetch(Q.held, pipeline, until, most)]


async def released(db: Database, pipeline: int, until: datetime) -> None:
    """Everything that was held up to this moment has been released."""
    await db.execute(Q.released, pipeline, until)


def _utc(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
