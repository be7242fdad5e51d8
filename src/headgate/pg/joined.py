"""A transaction inside another: several things that are made to commit by themselves, as one.

Whoever is handed a `Joined` uses it like the ledger. Its transactions are parts of the one that is
open already: leaving one normally means that it is done, and nothing is committed before the outer
one is. What fails is undone alone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from .database import IDLE_SECONDS, Database
from .link import Link


class Joined(Database):
    """The ledger, seen from inside an open transaction."""

    def __init__(self, db: Database, link: Link) -> None:
        super().__init__(db._pool, db.url, db.schema, pooler=db.pooler, options=db._options)
        self._link = link

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Link]:
        yield self._link

    @asynccontextmanager
    async def transaction(
        self, *, idle_seconds: float = IDLE_SECONDS, first: Sequence[str] = ()
    ) -> AsyncGenerator[Link]:
        link = self._link
        await link.execute("; ".join(("SAVEPOINT inner_one", *first)))
        try:
            yield link
        except Exception:
            if not link.closed:
                await link.execute("ROLLBACK TO SAVEPOINT inner_one")
            raise
        await link.execute("RELEASE SAVEPOINT inner_one")
