"""Reconcile: the ledger's side of holding a source's whole listing against it.

The listing goes into a temporary table, and the server compares: one statement over what was shown,
what is known, what is published and what is not done yet. What differs comes back a page at a time.
Read reconcile.sql first; what a difference means is in `model/reconcile.py`.
"""

from __future__ import annotations

import getpass
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass

from headgate.errors import LedgerRefused, UsageError
from headgate.model.envelope import Envelope
from headgate.model.identity import change_key
from headgate.model.ports import Noticed
from headgate.model.reconcile import Line, Side
from headgate.model.watermark import EventTime
from headgate.pg import Database, Link, Record, driver, queries

from . import inbox
from .inbox import Receipt, Registered

Q = queries.load(__file__)

_COLUMNS = (
    "uri", "source", "hint", "strength", "at", "size", "content_type", "clock", "settled",
)  # fmt: skip


async def find(
    db: Database,
    name: str,
    partition: Callable[[Envelope], str] | None = None,
    event_time: EventTime | None = None,
) -> Registered | None:
    """The pipeline as it was registered last; None when it has never run on this ledger."""
    row = await db.fetchrow(Q.pipeline, name)
    if row is None:
        return None
    return Registered(row[0], row["deployment"], row["store"], partition, event_time)


async def newest(db: Database) -> int:
    """The number of the newest entry: what is newer came while we looked."""
    return await db.fetchval(Q.since)


@dataclass(slots=True)
class Comparison:
    """One comparison. `agreed` is complete when `lines` is exhausted."""

    pipeline: int
    sources: Sequence[str]
    agreed: int = 0

    async def lines(self, db: Database, shown: Iterable[Side]) -> AsyncGenerator[list[Line]]:
        """Pages of what differs, by uri, as of one moment.

        The transaction is open for as long as this goes on: do not wait for anybody in between.
        """
        async with db.transaction() as link:
            await link.fetch(Q.memory)
            await self._copy(link, shown)
            otherwise = await link.fetchval(Q.told_otherwise, self.pipeline)
            self.agreed = await link.fetchval(Q.distinct)
            await link.fetch(Q.differences, self.pipeline, list(self.sources), otherwise)
            while rows := await link.fetch(Q.next):
                page = [_line(row) for row in rows]
                self.agreed -= sum(line.shown is not None for line in page)
                yield page

    async def _copy(self, link: Link, shown: Iterable[Side]) -> None:
        try:
            await link.execute(Q.shown)
        except driver.InsufficientPrivilege as error:
            raise LedgerRefused(
                f"the ledger's role may not make temporary tables: {error}",
                hint="Have a DBA run: GRANT TEMPORARY ON DATABASE … TO the role.",
            ) from error
        records = (tuple(getattr(one, name) for name in _COLUMNS) for one in shown)
        await link.raw.copy_records_to_table("shown", columns=_COLUMNS, records=records)
        await link.execute(Q.analyze)


async def admit(
    db: Database,
    to: Registered,
    source: str,
    changes: Sequence[Noticed],
    envelope: Callable[[Noticed, int], Envelope],
    *,
    because: str,
    actor: str = "",
) -> Receipt:
    """Admit what was found, as a watcher would, and write down who wanted it and why.

    A watcher that was quicker has the number; then nothing is admitted here.
    """
    if not because.strip():
        raise UsageError("a reason is needed", hint='add: --because "why"')

    async def act(link: Link, envelopes: Sequence[Envelope], receipt: Receipt) -> None:
        keys = [key for key in map(change_key, envelopes) if key.hex() not in receipt.known]
        await link.execute(Q.act, actor or getpass.getuser(), because, to.pipeline, keys)

    return await inbox.poll(db, to, source, changes, envelope, act)


def _line(row: Record) -> Line:
    uri = row["uri"]
    shown = None if row["source"] is None else Side(uri, *row[1:9])
    return Line(uri, shown, row["expected"] or 0, *row[10:])
