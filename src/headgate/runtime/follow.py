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
from functools import partial

from headgate.errors import UsageError
from headgate.ledger import inbox, mark, watermark
from headgate.ledger.inbox import Registered
from headgate.model.envelope import Envelope, Refused
from headgate.model.ports import Advance, Followed, Waiting
from headgate.model.verdict import describe
from headgate.pg import Database
from headgate.telemetry.log import get_logger

from .intake import Quiet, asked_to_wait, count, is_the_records, sort, telling, unfit

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 60.0
log = get_logger("headgate.follow")


class Follower:
    """Follows one source of one pipeline."""

    def __init__(self, db: Database, to: Registered, source: Followed) -> None:
        self._db = db
        self._to = to
        if isinstance(source, Waiting) and source.by is not None:
            source = source.going_by(partial(watermark.stands, db))
        self._source = source
        self.quiet = Quiet()

    async def run(self, told: Callable[[], None] = lambda: None) -> None:
        """Follow for ever; after an outage, from the mark that was kept."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                await self._follow(told)
                pause = FIRST_PAUSE_SECONDS
            except UsageError:
                raise
            except Exception as error:
                # Whatever it is, the mark was not moved, and other sources have to be heard.
                self._complain(describe(error))
                told()
                await asyncio.sleep(asked_to_wait(error) or pause)
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
        with telling(f"follow {self._source.name}", "consumer", advance.told):
            return await self._take_in(expected, advance)

    async def _take_in(self, expected: str | None, advance: Advance) -> bool:
        source = self._source
        envelopes, aside = sort(advance.told, source.name, source.provider, datetime.now(UTC))
        to = (self._db, self._to, source.name, expected, advance.checkpoint)
        try:
            receipt = await mark.advance(*to, envelopes, aside)
        except Exception as error:
            if not is_the_records(error):
                raise
            for record in advance.told:
                await self._admit_alone(record)
            receipt = await mark.advance(*to, ())
        if receipt is None:
            return False
        count(source.name, receipt)
        return True

    async def _admit_alone(self, record: Envelope | Refused) -> None:
        """Ahead of the mark, which is harmless: told again, it is a duplicate."""
        source = self._source
        for again in (False, True):
            envelopes, aside = sort([record], source.name, source.provider, datetime.now(UTC))
            try:
                receipt = await inbox.receive(self._db, self._to, source.name, envelopes, aside)
                count(source.name, receipt)
                return
            except Exception as error:
                if again or not is_the_records(error):
                    raise
                record = unfit(record, error)

    def _complain(self, why: str) -> None:
        if self.quiet.failing != why:
            log.warning("source cannot be followed", source=self._source.name, why=why)
        self.quiet = Quiet(False, 0, why)
