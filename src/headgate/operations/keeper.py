"""The leases of this process, renewed from the background while their work goes on.

A process that is stopped or dead renews nothing, and one that hangs renews only up to its deadline.
Short work costs nothing here: the first look comes after a third of the shortest lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from dataclasses import dataclass

from headgate.errors import HeadgateError
from headgate.ledger import operation as ledger
from headgate.ledger.operation import Lease
from headgate.pg import Database


@dataclass(slots=True)
class Holding:
    """A lease that somebody works under."""

    lease: Lease
    seconds: float
    until: float  # by the monotonic clock: its deadline


class Keeper:
    """Renews what this process holds. Lives on the background loop."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._held: dict[bytes, Holding] = {}
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._pause = 0.0  # how long it sleeps at most before it looks again

    def add(self, lease: Lease, seconds: float, deadline_seconds: float) -> None:
        """Work begins under this lease."""
        self._held[lease.token] = Holding(lease, seconds, time.monotonic() + deadline_seconds)
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
        elif seconds / 3 < self._pause:
            self._wake.set()

    def drop(self, lease: Lease) -> None:
        """It ended."""
        self._held.pop(lease.token, None)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            self._pause = min((h.seconds / 3 for h in self._held.values()), default=math.inf)
            try:
                # Without anything to keep: quietly, until there is something again.
                limit = self._pause if self._held else None
                await asyncio.wait_for(self._wake.wait(), limit)
            except TimeoutError:
                await self._renew()

    async def _renew(self) -> None:
        now = time.monotonic()
        held = [h for h in self._held.values() if h.until > now]
        if not held:
            return
        # The ledger may be away; the leases then run out, unless it comes back in time.
        with contextlib.suppress(HeadgateError):
            await ledger.renew(self._db, [(h.lease, h.seconds) for h in held])
