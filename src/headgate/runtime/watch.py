"""Watch: ask each polled source what changed, and admit it.

What a source noticed counts only once the ledger has numbered it, in the transaction that admits
it. A watcher may die anywhere, and several may watch the same source: the change is admitted once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from time import perf_counter

from headgate.errors import Unavailable, UsageError
from headgate.ledger import inbox
from headgate.ledger.inbox import Registered
from headgate.model import trace
from headgate.model.ports import Noticed, Polled, Scan
from headgate.model.signal import SCAN_SECONDS, emit
from headgate.model.verdict import describe
from headgate.pg import Database
from headgate.telemetry.log import get_logger

from .intake import Quiet, asked_to_wait, count

ADMIT_AT_ONCE = 1000
OFTEN_SECONDS = 5.0
log = get_logger("headgate.watch")


class Watcher:
    """Watches one source of one pipeline."""

    def __init__(self, db: Database, to: Registered, source: Polled) -> None:
        self._db = db
        self._to = to
        self._source = source
        self.quiet = Quiet()
        self._refused: set[str] = set()

    async def run(self, told: Callable[[], None] = lambda: None) -> None:
        """Look every so often, for ever."""
        pause = self._source.every_seconds
        while True:
            try:
                await self.look()
                pause = self._source.every_seconds
            except UsageError:
                raise
            except Exception as error:
                # Whatever it is, nothing was taken for deleted, and other sources go on.
                self._complain(describe(error))
                pause = asked_to_wait(error) or min(max(pause, 0.1) * 2, 60.0)
            told()
            await asyncio.sleep(pause)

    async def look(self) -> int:
        """Compare once and admit what changed; how many entries are new."""
        name = self._source.name
        with trace.during(f"scan {name}", "client", {"headgate.source": name}) as span:
            began = perf_counter()
            known = await inbox.known(self._db, self._to.pipeline, name)
            scan = await asyncio.to_thread(self._source.scan, known, datetime.now(UTC))
            emit(SCAN_SECONDS, perf_counter() - began, source=name)
            if span is not None:
                span.wanted = bool(scan.changes)
            return await self._take_in(scan)

    async def _take_in(self, scan: Scan) -> int:
        self._refused &= {change.uri for change in scan.changes}
        again = [change for change in scan.changes if change.uri in self._refused]
        fresh = [change for change in scan.changes if change.uri not in self._refused]
        new = 0
        for at in range(0, len(fresh), ADMIT_AT_ONCE):
            new += await self._admit(fresh[at : at + ADMIT_AT_ONCE])
        # What was refused is tried again with each look, after the others and on its own.
        for change in again:
            new += await self._admit_alone(change)
        # Who waits until all is done does not wait hours for the next look.
        rarely = self._source.every_seconds > OFTEN_SECONDS
        self.quiet = Quiet(rarely or not fresh, scan.unsettled)
        return new

    async def _admit(self, changes: Sequence[Noticed]) -> int:
        try:
            return await self._poll(changes)
        except Unavailable:
            raise
        except Exception:
            # One change the ledger cannot take must not hold up those that came with it.
            return sum([await self._admit_alone(change) for change in changes])

    async def _admit_alone(self, change: Noticed) -> int:
        try:
            admitted = await self._poll([change])
        except Unavailable:
            raise
        except Exception as error:
            if change.uri not in self._refused:
                why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
                log.warning("change refused", source=self._source.name, uri=change.uri, why=why)
                self._refused.add(change.uri)
            return 0
        self._refused.discard(change.uri)
        return admitted

    async def _poll(self, changes: Sequence[Noticed]) -> int:
        now = datetime.now(UTC)
        receipt = await inbox.poll(
            self._db,
            self._to,
            self._source.name,
            changes,
            lambda change, generation: self._source.envelope(change, generation, now),
        )
        count(self._source.name, receipt)
        return receipt.admitted

    def _complain(self, why: str) -> None:
        if self.quiet.failing != why:
            log.warning("source cannot be read", source=self._source.name, why=why)
        self.quiet = Quiet(False, 0, why)
