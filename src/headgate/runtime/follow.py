"""Follow: go on from where a stream or a clock was left, and admit what it tells.

The mark of the source moves in the transaction that admits what came before it. A follower may die
anywhere, and several may follow the same source: what was told is admitted once, and none of it is
passed over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime

from headgate.errors import LedgerUnavailable, Unavailable
from headgate.ledger import mark
from headgate.ledger.inbox import Registered
from headgate.model.ports import Advance, Followed
from headgate.model.signal import OUTAGE, emit
from headgate.pg import Database
from headgate.telemetry.log import get_logger

from .intake import Quiet, count, sort

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 60.0
log = get_logger("headgate.follow")


class Follower:
    """Follows one source of one pipeline."""

    def __init__(self, db: Database, to: Registered, source: Followed) -> None:
        self._db = db
        self._to = to
        self._source = source
        self.quiet = Quiet()

    async def run(self, told: Callable[[], None] = lambda: None) -> None:
        """Follow for ever; after an outage, from the mark that was kept."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                await self._follow(told)
                pause = FIRST_PAUSE_SECONDS
            except Unavailable as error:
                if isinstance(error, LedgerUnavailable):
                    emit(OUTAGE)
                self._complain(str(error))
                told()
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    async def _follow(self, told: Callable[[], None]) -> None:
        """Until the source ends, or until another process has moved the mark."""
        source = self._source
        checkpoint = await mark.at(self._db, self._to.pipeline, source.name)
        async with aclosing(source.follow(checkpoint)) as telling:
            async for advance in telling:
                self.quiet = Quiet(scanned=advance is None)
                if advance is not None:
                    if not await self._admit(checkpoint, advance):
                        return
                    checkpoint = advance.checkpoint
                told()

    async def _admit(self, expected: str | None, advance: Advance) -> bool:
        source = self._source
        envelopes, aside = sort(advance.told, source.name, source.provider, datetime.now(UTC))
        receipt = await mark.advance(
            self._db, self._to, source.name, expected, advance.checkpoint, envelopes, aside
        )
        if receipt is None:
            return False
        count(source.name, receipt)
        return True

    def _complain(self, why: str) -> None:
        if self.quiet.failing != why:
            log.warning("source cannot be followed", source=self._source.name, why=why)
        self.quiet = Quiet(False, 0, why)
