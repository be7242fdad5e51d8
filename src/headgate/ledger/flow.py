"""Flow: how much came in, what became of it and how quickly, without reading it all again.

The sweeper adds up new commits of the journal and new deliveries of the tally, by the minute and
by the hour (flow.sql). Totals are exact at any moment: what is added up, and what came after it.
Series are as of the last roll-up, which is a second or a few ago while somebody sweeps.

    roll_up   add up what is new
    totals    where entries rest that are done or set aside
    now       each pipeline as it stands: figures, rates, watermark, lag
    series    the last minutes, minute by minute
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headgate.model.flow import BOUNDS
from headgate.pg import Database, Link, queries

from . import watermark

Q = queries.load(__file__)

LINES = 20_000
SAMPLES = 500
MINUTES_KEPT_HOURS = 72
# Of a queue longer than this only so many are looked at one by one.
LONG_QUEUE = 10_000


@dataclass(slots=True)
class Total:
    """Where entries of a pipeline rest that are not live work. `skipped` is by reason."""

    finalized: int = 0
    quarantined: int = 0
    discarded: int = 0
    skipped: dict[str, int] = field(default_factory=dict[str, int])
    last_at: datetime | None = None

    @property
    def ended(self) -> int:
        return self.finalized + self.discarded + sum(self.skipped.values())


@dataclass(frozen=True, slots=True)
class Queue:
    """Live work of a pipeline; `oldest` is when the first of it was received."""

    ready: int = 0
    claimed: int = 0
    waiting: int = 0
    oldest: datetime | None = None
    now: datetime | None = None


@dataclass(frozen=True, slots=True)
class SourceNow:
    """One source of a pipeline. Without event time it has no watermark."""

    source: str
    received: int = 0
    new: int = 0
    duplicate: int = 0
    conflict: int = 0
    watermark: datetime | None = None
    lag_seconds: float | None = None
    idle: bool = False
    late: int = 0


@dataclass(slots=True)
class StreamNow:
    """One pipeline as it stands. Rates are of the last one to two minutes.

    `waiting` is what waits for a retry, `oldest_seconds` how long the oldest live entry is here.
    """

    pipeline: str
    received: int = 0
    new: int = 0
    duplicate: int = 0
    conflict: int = 0
    ready: int = 0
    claimed: int = 0
    waiting: int = 0
    quarantined: int = 0
    finalized: int = 0
    skipped: int = 0
    discarded: int = 0
    received_per_second: float = 0.0
    new_per_second: float = 0.0
    duplicate_per_second: float = 0.0
    finalized_per_second: float = 0.0
    failed_per_second: float = 0.0
    watermark: datetime | None = None
    lag_seconds: float | None = None
    oldest_seconds: float | None = None
    last_settled_at: datetime | None = None
    sources: list[SourceNow] = field(default_factory=list[SourceNow])


@dataclass(slots=True)
class Point:
    """What happened to a pipeline in one minute (or hour) that begins at `at`."""

    at: datetime
    received: int = 0
    new: int = 0
    duplicate: int = 0
    conflict: int = 0
    finalized: int = 0
    skipped: int = 0
    quarantined: int = 0
    waiting: int = 0
    fenced: int = 0
    other: int = 0
    doubled: int = 0
    latency: dict[int, int] = field(default_factory=dict[int, int])


@dataclass(frozen=True, slots=True)
class Clock:
    """The ledger's time, when it was last added up, and the commits that are not yet."""

    now: datetime
    rolled_at: datetime
    behind: int
    waits_since: datetime | None

    @property
    def stale_seconds(self) -> float:
        """How long the first of them waits."""
        since = self.waits_since
        return 0.0 if since is None else (self.now - since).total_seconds()


@dataclass(frozen=True, slots=True)
class Series:
    """The last minutes of each pipeline, none left out. `behind` are commits not added up yet."""

    since: datetime
    now: datetime
    rolled_at: datetime
    behind: int
    step_seconds: int
    pipelines: dict[str, list[Point]]


async def roll_up(db: Database, lines: int = LINES) -> int:
    """Add up what is new, page by page; how many lines and deliveries that was.

    Each page is a transaction with the mark that it moves: a crash adds nothing, and of several who
    try at once one adds.
    """
    done = 0
    while more := await db.fetchval(Q.roll_up, lines, SAMPLES, BOUNDS):
        done += more
    return done


async def forget(db: Database) -> None:
    """Minutes that are some days old go; their hours stay."""
    for sql in (Q.forget, Q.forget_latency, Q.forget_deliveries):
        await db.execute(sql, MINUTES_KEPT_HOURS)


async def totals(link: Link) -> dict[int, Total]:
    """Where entries rest that are done or set aside, by the pipeline's number: exact."""
    found: dict[int, Total] = {}
    for pipeline, kind, reason, n, at in await link.fetch(Q.totals):
        total = found.setdefault(pipeline, Total())
        if kind != "quarantined":
            total.last_at = max(total.last_at or at, at)
        match kind:
            case "finalized":
                total.finalized += n
            case "skipped":
                total.skipped[reason] = total.skipped.get(reason, 0) + n
            case "discarded":
                total.discarded += n
            case _:
                total.quarantined += n
    return found


async def queued(link: Link, live: dict[int, int]) -> dict[int, Queue]:
    """Live work of every pipeline. `live` says how much there is where it is too much to count."""
    found: dict[int, Queue] = {}
    for r in await link.fetch(Q.queues, LONG_QUEUE):
        id, ready, claimed, waiting = r["id"], r["ready"], r["claimed"], r["waiting"]
        if r["seen"] == LONG_QUEUE:
            waiting = await link.fetchval(Q.waiting, id)
            ready = max(live.get(id, 0) - claimed - waiting, 0)
        found[id] = Queue(ready, claimed, waiting, r["oldest"], r["now"])
    return found


async def now(db: Database) -> list[StreamNow]:
    """Each pipeline as it stands, by name; figures of one moment."""
    async with db.transaction() as link:
        await link.execute(Q.snapshot)
        found = await _delivered(link)
        ended = await totals(link)
        live = {id: s.new - _gone(ended.get(id)) for id, s in found.items()}
        for id, queue in (await queued(link, live)).items():
            _stand(found[id], ended.get(id, Total()), queue)
        for id, seconds, *counted in await link.fetch(Q.rates):
            s = found[id]
            rates = [n / max(seconds, 1.0) for n in counted]
            s.received_per_second, s.new_per_second, s.duplicate_per_second = rates[:3]
            s.finalized_per_second, s.failed_per_second = rates[3:]
        standing = await watermark.streams(link)
    _date(found, standing)
    return list(found.values())


def _gone(total: Total | None) -> int:
    return 0 if total is None else total.ended + total.quarantined


async def _delivered(link: Link) -> dict[int, StreamNow]:
    found: dict[int, StreamNow] = {}
    for id, name, source, received, new, duplicate, conflict in await link.fetch(Q.deliveries):
        s = found.setdefault(id, StreamNow(name))
        if source is not None:
            s.sources.append(SourceNow(source, received, new, duplicate, conflict))
        s.received += received
        s.new += new
        s.duplicate += duplicate
        s.conflict += conflict
    return found


def _stand(s: StreamNow, total: Total, queue: Queue) -> None:
    s.finalized, s.quarantined, s.discarded = total.finalized, total.quarantined, total.discarded
    s.skipped = sum(total.skipped.values())
    s.last_settled_at = total.last_at
    s.ready, s.claimed, s.waiting = queue.ready, queue.claimed, queue.waiting
    if queue.oldest is not None and queue.now is not None:
        s.oldest_seconds = max((queue.now - queue.oldest).total_seconds(), 0.0)


def _date(found: dict[int, StreamNow], standing: list[watermark.Standing]) -> None:
    """Say how far each source and each pipeline has come by its own account."""
    common = watermark.combined(standing)
    for w in standing:
        s = found[w.id]
        known = {one.source: one for one in s.sources}
        one = known.get(w.source, SourceNow(w.source))
        known[w.source] = SourceNow(
            one.source, one.received, one.new, one.duplicate, one.conflict,
            w.watermark, w.lag_seconds, w.idle, w.late,
        )  # fmt: skip
        s.sources = list(known.values())
        s.watermark = common[w.pipeline]
        if s.watermark is not None:
            s.lag_seconds = (w.now - s.watermark).total_seconds()


async def clock(db: Database | Link) -> Clock:
    """What time it is, and how far the roll-up is."""
    row = await db.fetchrow(Q.clock)
    assert row is not None
    return Clock(*row)


async def series(db: Database, minutes: int = 60, *, pipeline: str | None = None) -> Series:
    """The last `minutes`, one point a minute and pipeline; up to three days back."""
    return await _series(db, minutes, 1, pipeline)


async def hours(db: Database, hours: int, *, pipeline: str | None = None) -> Series:
    """The last `hours`, one point an hour and pipeline; as far back as there are any."""
    return await _series(db, hours, 60, pipeline)


async def _series(db: Database, many: int, width: int, only: str | None) -> Series:
    async with db.transaction() as link:
        await link.execute(Q.snapshot)
        at = await clock(link)
        now = at.now
        begun = now.replace(second=0, microsecond=0, minute=0 if width == 60 else now.minute)
        grid = _Grid(begun - timedelta(minutes=width * (many - 1)), timedelta(minutes=width), many)
        for r in await link.fetch(Q.pipelines):
            if only in (None, r["name"]):
                grid.begin(r["name"])
        await _fill(link, grid, width)
    return Series(grid.since, now, at.rolled_at, at.behind, 60 * width, grid.pipelines)


class _Grid:
    """A point for every minute, also where nothing happened."""

    def __init__(self, since: datetime, step: timedelta, many: int) -> None:
        self.since = since
        self.pipelines: dict[str, list[Point]] = {}
        self._step = step
        self._many = many

    def begin(self, pipeline: str) -> None:
        self.pipelines[pipeline] = [Point(self.since + n * self._step) for n in range(self._many)]

    def at(self, pipeline: str, when: datetime) -> Point:
        # What is not asked for, or came while we look, is put where nobody sees it.
        n = (when - self.since) // self._step
        if pipeline not in self.pipelines or n >= self._many:
            return Point(when)
        return self.pipelines[pipeline][n]


async def _fill(link: Link, grid: _Grid, width: int) -> None:
    for name, when, _, received, new, duplicate, conflict in await link.fetch(
        Q.delivered, width, grid.since
    ):
        p = grid.at(name, when)
        p.received += received
        p.new += new
        p.duplicate += duplicate
        p.conflict += conflict
    for name, when, *counted in await link.fetch(Q.ended, width, grid.since):
        p = grid.at(name, when)
        p.finalized, p.skipped, p.quarantined, p.waiting, p.fenced, p.other, p.doubled = counted
    for name, when, bucket, n in await link.fetch(Q.took, width, grid.since):
        grid.at(name, when).latency[bucket] = n
