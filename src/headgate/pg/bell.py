"""The bell: whoever waits for work is told when some was admitted, instead of asking all the time.

A bell is a convenience. It may miss a ring while its connection is away, and behind a pooler it
never rings at all; whoever waits for it asks by himself now and then.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

from headgate.pg import driver
from headgate.pg.database import CONNECT_SECONDS, Database
from headgate.pg.link import localize

# In the schema of the ledger, as every other name: two ledgers in one database have two bells.
CHANNEL = "headgate.work"
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 10.0


class Bell:
    """Rings while `listen` runs. `hears` says whether a ring would be heard right now."""

    def __init__(self, db: Database, ring: Callable[[str], None]) -> None:
        self.hears = False
        self._db = db
        self._ring = ring

    async def listen(self) -> None:
        """Call `ring` with what each ring says, until cancelled. Outages are waited out."""
        pause = FIRST_PAUSE_SECONDS
        while not self._db.pooler:
            with suppress(driver.PostgresError, driver.InterfaceError, OSError, TimeoutError):
                await self._listen_once()
                pause = FIRST_PAUSE_SECONDS
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _listen_once(self) -> None:
        connection = await self._db.connect_anew()
        lost = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: lost.set())
            channel = localize(CHANNEL, self._db.schema)
            await connection.add_listener(channel, lambda _, __, ___, said: self._ring(said))
            self.hears = True
            self._ring("")  # for whatever was admitted before we listened
            await lost.wait()
        finally:
            self.hears = False
            with suppress(Exception):
                await connection.close(timeout=CONNECT_SECONDS)
