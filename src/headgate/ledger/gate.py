"""The gate: one worker at a time holds an entry, and a finished one never reopens.

Each claim raises the entry's fence by one. Every later write must show its worker and its fence, so
one that slept through its lease changes nothing. Read gate.sql first: the rules are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from headgate.errors import Fenced
from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.model.envelope import NUMBERED, Detector, Envelope
from headgate.pg import Database, Link, driver, queries
from headgate.pg.instant import instant

from .arrays import column

Q = queries.load(__file__)

NO_LEASE = "HG001"
LOST = "HG002"
CLAIM = "SELECT * FROM headgate.claim($1, $2, $3, $4, $5)"
STAY = (
    "SELECT headgate.stay($1, $2::bigint[], $3::bigint[], $4::int[], $5::smallint[],"
    " $6::smallint[], $7::bool[], $8::timestamptz[], $9::timestamptz[], $10::bigint[],"
    " $11::bigint[])"
)


_HEAD = 22  # where the columns of the head begin in what claim() answers


@dataclass(frozen=True, slots=True)
class Head:
    """The publication that is current for the entry's uri, as the claim saw it.

    `sequence` and `event_time` are those of `seen`: the last change that left it as it is. For what
    was noticed by looking, the time is when it was looked at. Only removals are told `artifacts`.
    """

    entry: int
    version: int
    removed: bool
    content: bytes
    effect: bytes
    sequence: str | None
    event_time: datetime
    seen: int
    artifacts: str | None = None


@dataclass(slots=True, eq=False)
class Claim:
    """An entry that is ours to work on, until its worker's lease ends.

    `event_at` and `received` are its times as Postgres sends them.
    """

    pipeline: int
    worker: int
    head: Head | None
    id: int
    fence: int
    attempts: int
    deaths: int
    alone: bool
    subject: int
    begun: datetime | None
    claimed: float
    waited: bool
    upstream: int | None
    key: bytes
    uri: str
    event_at: bytes
    received: bytes
    removed: bool
    sequence: str | None
    document: bytes
    data: bytes | None
    reverts: int | None
    replays: int | None
    part: int | None
    superseded: bool

    @property
    def event_time(self) -> datetime:
        return instant(self.event_at)

    @property
    def received_at(self) -> datetime:
        return instant(self.received)

    @property
    def stood_at(self) -> datetime:
        """When the object was as this change says (`stood_at` in arrays.sql)."""
        numbered = self.sequence is not None and self.sequence.startswith(NUMBERED)
        return self.received_at if numbered else self.event_time

    @property
    def claimed_at(self) -> datetime:
        """When it was claimed, by the database's clock."""
        return datetime.fromtimestamp(self.claimed, UTC)

    @property
    def first_at(self) -> datetime:
        """When it was claimed for the first time."""
        return self.begun or self.claimed_at

    def envelope(self) -> Envelope:
        """The envelope as it was received."""
        return Envelope.restore(
            self.document,
            uri=self.uri,
            event_time=self.event_time,
            received_at=self.received_at,
            sequence=self.sequence,
            key=self.key,
            data=self.data,
        )


@dataclass(frozen=True, slots=True)
class Held:
    """A row of live work that a worker holds."""

    pipeline: int
    id: int
    subject: int
    fence: int
    attempts: int
    deaths: int
    alone: bool
    due_at: datetime | None
    first_at: datetime | None
    upstream: int | None
    part: int | None
    detector: Detector


@dataclass(frozen=True, slots=True)
class Stay:
    """A row that is live work again."""

    id: int
    subject: int
    fence: int
    attempts: int
    deaths: int
    alone: bool
    due_at: datetime | None
    first_at: datetime | None
    upstream: int | None
    part: int | None

    @classmethod
    def of(
        cls, held: Held, attempts: int, deaths: int, alone: bool, due_at: datetime | None
    ) -> Stay:
        # Without a charged attempt the budget has not begun.
        first_at = held.first_at if attempts + deaths > 0 else None
        return cls(
            held.id,
            held.subject,
            held.fence,
            attempts,
            deaths,
            alone,
            due_at,
            first_at,
            None,
            held.part,
        )


async def claim(
    db: Database, pipeline: int, worker: int, most: int, *, floor: int, idle: bool
) -> list[Claim]:
    """Take up to `most` entries that are ready. Raises `Fenced` when the worker has no lease."""
    reached(Point.BEFORE_CLAIM)
    async with db.connection() as link:
        try:
            rows = await link.fetch(CLAIM, pipeline, worker, most, floor, idle)
        except driver.PostgresError as error:
            if driver.sqlstate(error) == NO_LEASE:
                raise Fenced(f"worker {worker} holds no lease any more") from error
            raise
    reached(Point.AFTER_CLAIM)
    return [
        # The order of columns is claim()'s in gate.sql: those of the entry, then those of its head.
        Claim(pipeline, worker, None if row[_HEAD] is None else Head(*row[_HEAD:]), *row[:_HEAD])
        for row in rows
    ]


def leaving(pipeline: int, worker: int, ids: Sequence[int], fences: Sequence[int]) -> str:
    """The fence check as a statement. It is of numbers alone, so it can travel with BEGIN."""
    named, held = (",".join(map(str, n)) for n in (ids, column(list(fences))))
    return f"SELECT headgate.leave({pipeline:d}::smallint, {worker:d}, '{{{named}}}', '{{{held}}}')"


def lost(error: Exception) -> set[int]:
    """The entries that the fence check found to be ours no longer, if that is what failed."""
    return set(map(int, driver.detail(error).split())) if driver.sqlstate(error) == LOST else set()


async def stay(link: Link, pipeline: int, rows: Sequence[Stay]) -> None:
    """Live work again."""
    if rows:
        await link.execute(
            STAY,
            pipeline,
            [r.id for r in rows],
            [r.subject for r in rows],
            [r.fence for r in rows],
            [r.attempts for r in rows],
            [r.deaths for r in rows],
            [r.alone for r in rows],
            [r.due_at for r in rows],
            [r.first_at for r in rows],
            [r.upstream for r in rows],
            [r.part for r in rows],
        )


async def held(link: Link, worker: int) -> list[Held]:
    """Everything `worker` holds, locked until the transaction ends."""
    return [Held(*row) for row in await link.fetch(Q.held, worker)]


async def alone_is_due(db: Database, pipeline: int) -> bool:
    """Is an entry waiting for a worker that has nothing else to do?"""
    return await db.fetchval(Q.alone_is_due, pipeline)


@dataclass(frozen=True, slots=True)
class Resting:
    """What one pipeline has left to do."""

    pipeline: str
    ready: int
    leased: int
    soon: int
    later: int
    next_due: datetime | None


async def resting(db: Database, within_seconds: float) -> list[Resting]:
    """What is left to do, and whether any of it is due within the given time."""
    return [Resting(*row) for row in await db.fetch(Q.resting, within_seconds)]
