"""Finding the ledger: a server that is named, or one of our own; its schema checked before use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from headgate.errors import LedgerRefused
from headgate.ledger import FUNCTIONS, MIGRATIONS
from headgate.pg import Database, driver, embedded, migrate


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where the ledger lives. `url` is None for the embedded server under `home`."""

    url: str | None
    home: Path
    schema: str = "headgate"
    pooler: bool = False
    allow_unsafe: bool = False


@asynccontextmanager
async def address(ledger: Ledger) -> AsyncGenerator[str]:
    """The URL of a server that is up for as long as this lasts."""
    if ledger.url is not None:
        yield ledger.url
        return
    server = await asyncio.to_thread(embedded.start, ledger.home)
    try:
        yield server.url
    finally:
        await asyncio.to_thread(server.close)


@asynccontextmanager
async def connected(
    ledger: Ledger, *, connections: int = 8, initialise: bool = True, check: bool = True
) -> AsyncGenerator[Database]:
    """A pool on a ledger whose schema is ours.

    An empty database is initialised; an older or newer one is refused with the way out.
    """
    async with address(ledger) as url:
        db = await Database.open(
            url,
            schema=ledger.schema,
            max_size=connections,
            pooler=ledger.pooler,
            allow_unsafe=ledger.allow_unsafe,
        )
        async with db:
            if check:
                async with db.connection() as link:
                    state = await migrate.check(link, MIGRATIONS, FUNCTIONS)
                if state == "empty" and initialise:
                    await _initialise(db)
                elif state != "current":
                    async with db.connection() as link:
                        await migrate.require(link, MIGRATIONS, FUNCTIONS)
            yield db


async def _initialise(db: Database) -> None:
    try:
        await migrate.migrate(db, MIGRATIONS, FUNCTIONS)
    except driver.InsufficientPrivilege as error:
        raise LedgerRefused(
            f"the database has no ledger yet, and this role may not make one: {error}",
            hint="Have a DBA run what `headgate db migrate --sql` prints.",
        ) from error
