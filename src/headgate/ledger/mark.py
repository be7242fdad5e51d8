"""Marks: how far a followed source has been read. The mark moves with what it admitted, or not.

Several processes may follow the same source. One of them moves the mark; the others find that it
has moved, admit nothing, and go on from there.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.model.envelope import Envelope
from headgate.pg import Database, queries

from . import inbox
from .aside import Aside
from .inbox import Receipt, Registered

Q = queries.load(__file__)


async def at(db: Database, pipeline: int, source: str) -> str | None:
    """The checkpoint of a source; None when nothing was admitted from it yet."""
    return await db.fetchval(Q.at, pipeline, source)


async def advance(
    db: Database,
    to: Registered,
    source: str,
    expected: str | None,
    checkpoint: str,
    envelopes: Sequence[Envelope],
    aside: Sequence[Aside] = (),
) -> Receipt | None:
    """Admit what was told after `expected` and move the mark to `checkpoint`, in one transaction.

    None when the mark stands somewhere else by now; then nothing was admitted.
    """
    async with db.transaction() as link:
        if not await link.fetchval(Q.move, to.pipeline, source, expected, checkpoint):
            return None
        receipt = Receipt(0, 0)
        if envelopes or aside:
            receipt = await inbox.admit(link, to, source, envelopes, aside)
        reached(Point.BEFORE_RECEIVE)
    reached(Point.AFTER_RECEIVE)
    return receipt
