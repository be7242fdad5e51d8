"""Nearby: a worker of this very process that has nothing to do.

A lone change is admitted and claimed for it in one transaction, and handed over: nobody rings a
bell, nobody asks. It is a short cut in time and in nothing else. The claim is one as any other: it
has a fence, it is charged, and it is given back when whoever held it is gone.

Its admission does not wait for the disk. The commit that ends the attempt does, and the log is in
order: where that one comes soon, it is the receipt. Where it takes longer, the disk is waited for.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from headgate.errors import LedgerUnavailable
from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.model.envelope import Envelope
from headgate.model.whole import whole
from headgate.pg import Database, Link
from headgate.pg.instant import as_sent

from .gate import Claim, Head

RECEIVE_CLAIMED = (
    "SELECT * FROM headgate.receive_claimed($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
)
# As `FLUSH` in inbox.py, on whatever connection there is: the row says that this is not a server
# that crashed meanwhile, or a standby that took over, and came up without it.
FLUSH_ENTRY = (
    "SELECT pg_logical_emit_message(true, 'headgate', '')"
    " FROM headgate.entry WHERE id = $1 AND key = $2"
)
SOON_SECONDS = 0.005


class Idle(Protocol):
    """Whoever may have nothing to do, for one pipeline."""

    def reserve(self) -> int | None:
        """The worker that would claim; it is asked by nobody else until `free`. None: it works."""
        ...

    def free(self) -> None: ...

    def take(self, claim: Claim) -> asyncio.Future[bool]:
        """Work on this. True when the end of the attempt is committed, False when it was lost."""
        ...

    def doubt(self) -> None:
        """It may hold what it does not know of: the answer to a claim was lost."""
        ...


# By the database they work with: whoever shares one shares its event loop as well.
_IDLE: WeakKeyDictionary[Database, dict[int, Idle]] = WeakKeyDictionary()


def offer(db: Database, pipeline: int, idle: Idle) -> None:
    """From now on, this one is asked."""
    _IDLE.setdefault(db, {})[pipeline] = idle


def withdraw(db: Database, pipeline: int, idle: Idle) -> None:
    """It is asked no more."""
    offers = _IDLE.get(db, {})
    if offers.get(pipeline) is idle:
        del offers[pipeline]


def find(db: Database, pipeline: int) -> Idle | None:
    """Who works for a pipeline in this process; it may be busy."""
    return _IDLE.get(db, {}).get(pipeline)


@dataclass(frozen=True, slots=True)
class Told:
    """A change as its admission writes it."""

    pipeline: int
    source: str
    key: bytes
    fingerprint: int
    envelope: Envelope
    document: bytes

    def claimed(self, worker: int, entry: int, subject: int, at: float, head: Head | None) -> Claim:
        """The claim of an entry that was never tried."""
        e = self.envelope
        return Claim(
            self.pipeline, worker, head, entry,
            fence=1, attempts=1, deaths=0, alone=False, subject=subject, begun=None, claimed=at,
            waited=False, upstream=None, key=self.key, uri=e.uri, event_at=as_sent(e.event_time),
            received=as_sent(e.received_at), removed=e.kind == "removed", sequence=e.sequence,
            document=self.document, data=e.data, reverts=None, replays=None, part=None,
            superseded=False,
        )  # fmt: skip


async def hand_over(db: Database, told: Told, idle: Idle) -> bool:
    """Admit a change and claim it for who is idle: durable when it returns.

    False, and nothing is written, when it is busy by now, or the change was told before.
    """
    worker = idle.reserve()
    if worker is None:
        return False
    # Who gives up meanwhile stays for the answer: a claim that is still on its way to its commit
    # cannot be found, and given back, by anybody.
    handed = await whole(_hand_over(db, told, worker, idle))
    if handed is None:
        return False
    entry, ended = handed
    if ended is not None:
        await asyncio.sleep(0)  # its work goes first
        await asyncio.wait([ended], timeout=SOON_SECONDS)
    if ended is None or not (ended.done() and ended.result()):
        await _flush(db, entry, told)
    return True


async def _hand_over(
    db: Database, told: Told, worker: int, idle: Idle
) -> tuple[int, asyncio.Future[bool] | None] | None:
    try:
        async with db.connection() as link:
            reached(Point.BEFORE_RECEIVE)
            row = await _admit(link, told, worker, idle)
            if row is None:
                return None
            entry, subject, at, *head = row
            if at is None:
                return entry, None
            before = None if head[0] is None else Head(*head)
            return entry, idle.take(told.claimed(worker, entry, subject, at, before))
    finally:
        idle.free()


async def _admit(link: Link, told: Told, worker: int, idle: Idle) -> tuple[Any, ...] | None:
    e = told.envelope
    try:
        row = await link.fetchrow(
            RECEIVE_CLAIMED,
            told.pipeline,
            told.source,
            worker,
            told.key,
            e.uri,
            e.event_time,
            e.received_at,
            told.fingerprint,
            e.kind == "removed",
            e.sequence,
            e.subject,
            told.document,
            e.data,
        )
    except BaseException:
        idle.doubt()
        raise
    reached(Point.AFTER_CLAIM)
    return None if row is None else tuple(row)


async def _flush(db: Database, entry: int, told: Told) -> None:
    if await db.fetchval(FLUSH_ENTRY, entry, told.key) is None:
        raise LedgerUnavailable(
            f"the ledger crashed before {told.envelope.uri} was on its disk: it was not admitted",
            upstream="postgres",
        )
