"""Collecting: garbage goes a little at a time while others work, or all of it when asked.

What is garbage, and the order in which it goes, is in `ledger/garbage.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from headgate.ledger import garbage
from headgate.ledger.garbage import Deleted, Garbage
from headgate.model.ports import Store
from headgate.pg import Database
from headgate.telemetry.log import get_logger

from .tuning import Tuning

log = get_logger("headgate.collect")

# Retention is counted in days: looking through everything a few times a day is enough.
LOOK_SECONDS = 6 * 3600.0
# So much is remembered of one look. What is beyond that is found by the next one.
MOST_FOUND = 100_000
ROUND_SECONDS = 2.0
AT_ONCE = 500  # condemned by one transaction


Progress = Callable[[int, int], None]


class Collector:
    """Removes what nothing needs from the stores of one ledger. Any number may do so at once."""

    def __init__(self, db: Database, tuning: Tuning, store: Callable[[str], Store]) -> None:
        self._db = db
        self._tuning = tuning
        self._store = store
        self.found: list[Garbage] = []  # and not condemned yet, the oldest last

    async def look_if_due(self) -> None:
        """Look for kept objects that nothing needs, unless somebody did lately."""
        often = min(LOOK_SECONDS, self._tuning.retention_days * garbage.DAY_SECONDS / 4)
        if not self.found and await garbage.due(self._db, often):
            await self.look()

    async def look(self) -> None:
        """Find what nothing needs now."""
        found = await garbage.look(
            self._db, self._tuning.retention_days, self._tuning.grace_seconds, MOST_FOUND
        )
        self.found = found[::-1]

    async def round(self) -> Deleted:
        """Collect for some seconds at most. A store that is away is named and left for later."""
        gone = await self._collect(time.monotonic() + ROUND_SECONDS)
        for uri, error in gone.away.items():
            log.warning("store cannot be swept", store=uri, why=str(error), hint=error.hint)
        return gone

    async def everything(self, progress: Progress = lambda done, of: None) -> Deleted:
        """Collect all there is to collect now, however long that takes."""
        total = Deleted()
        while True:
            await self.look()
            full = len(self.found) == MOST_FOUND
            total.add(await self._collect(float("inf"), progress))
            if not full:
                return total

    async def _collect(self, until: float, progress: Progress = lambda done, of: None) -> Deleted:
        of = len(self.found)
        grace, retention = self._tuning.grace_seconds, self._tuning.retention_days
        total = Deleted()
        while True:
            some = [self.found.pop() for _ in range(min(AT_ONCE, len(self.found)))]
            left = await garbage.condemn(self._db, grace, retention, some, AT_ONCE)
            while await self._delete_some(total):
                progress(total.objects, max(of, total.objects))
                if time.monotonic() >= until:
                    return total
            if left < AT_ONCE and not self.found:
                return total

    async def _delete_some(self, total: Deleted) -> bool:
        """Delete a chunk; False when nothing is left that can be deleted."""
        gone = await garbage.delete(self._db, self._delete, total.away)
        total.add(gone)
        return bool(gone.objects or gone.away)

    def _delete(self, uri: str, digest: bytes) -> None:
        self._store(uri).delete(digest)
