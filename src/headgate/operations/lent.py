"""A transaction in which the caller's own SQL runs.

Whatever that leaves in the session is undone before somebody else gets the connection. Nobody
waits for that: the caller goes on when its transaction is committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from headgate.pg import Database, Link

_giving_back: set[asyncio.Future[None]] = set()


@asynccontextmanager
async def lent(
    db: Database, idle_seconds: float, first: Sequence[str] = ()
) -> AsyncGenerator[Link]:
    """BEGIN … COMMIT around the block, as `Database.transaction` does it."""
    connection = AsyncExitStack()
    link = await connection.enter_async_context(db.connection())
    link.lent = True
    try:
        async with db.within(link, idle_seconds, first):
            yield link
    finally:
        giving = asyncio.ensure_future(connection.aclose())
        _giving_back.add(giving)
        giving.add_done_callback(_giving_back.discard)
