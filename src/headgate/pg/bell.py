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


async def listen(db: Database, ring: Callable[[str], None]) -> None:
    """Call `ring` with what each ring says, until cancelled. Outages are waited out."""
    if db.pooler:
        return
    pause = FIRST_PAUSE_SECONDS
    while True:
        with suppress(driver.PostgresError, driver.InterfaceError, OSError, TimeoutError):
            await _listen_once(db, ring)
            pause = FIRST_PAUSE_SECONDS
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


async def _listen_once(db: Database, ring: Callable[[str], None]) -> None:
    connection = await db.connect_anew()
    try:
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        channel = localize(CHANNEL, db.schema)
        await connection.add_listener(channel, lambda _, __, ___, said: ring(said))
        ring("")  # whatever was admitted before we listened
        await lost.wait()
    finally:
        with suppress(Exception):
            await connection.close(timeout=CONNECT_SECONDS)
