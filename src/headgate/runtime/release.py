"""Release by schedule: what is held for being late runs when its pipeline said it should.

Only what was held by then: what comes a moment later waits for the next time. A sweeper that dies
in between leaves the rest to the next one, and several may release at once: an entry runs once.
"""

from __future__ import annotations

from headgate.errors import UsageError
from headgate.ledger import quarantine, watermark
from headgate.ledger.watermark import Holding
from headgate.model.cron import Cron
from headgate.model.verdict import describe
from headgate.pg import Database
from headgate.telemetry.log import get_logger

AT_ONCE = 1000
ACTOR = "schedule"
log = get_logger("headgate.release")


async def release_late(db: Database) -> None:
    """Release what is due to be released, of every pipeline that says when."""
    for one in await watermark.holding(db):
        try:
            await _release(db, one)
        except UsageError as error:  # its error budget is spent, say: the next round asks again
            log.warning("late events stay held", pipeline=one.name, why=describe(error))


async def _release(db: Database, one: Holding) -> None:
    if one.released is None:
        # A first start has missed nothing.
        await watermark.released(db, one.pipeline, one.now)
        return
    due, _ = Cron(one.release, "UTC").between(one.released, one.now, 1)
    if not due:
        return
    until, n = due[-1], 0
    while entries := await watermark.held_until(db, one.pipeline, until, AT_ONCE):
        because = f"late events of {one.name} are released at {one.release!r}"
        n += len(await quarantine.release(db, entries, because=because, actor=ACTOR))
    await watermark.released(db, one.pipeline, until)
    if n:
        log.info("late events released", pipeline=one.name, entries=n)
