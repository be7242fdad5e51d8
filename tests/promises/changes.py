"""Whoever follows changes sees each of them once, in their order, whoever writes meanwhile."""

from __future__ import annotations

import asyncio

from tests.world import World, change

from headgate.ledger.changes import Change, Cursor, changes

WRITERS, EACH = 4, 40


async def _follow(world: World, ended: asyncio.Event, limit: int, dies_after: int) -> list[Change]:
    """Read pages; after every few of them forget everything but the last cursor that was kept."""
    read: list[Change] = []
    kept: str | None = None
    pages = 0
    while True:
        over = ended.is_set()  # first: what was committed by then is seen by this page
        page = await changes(world.db, None if kept is None else Cursor.parse(kept), limit)
        pages += 1
        if pages % dies_after == 0:
            continue  # it died before it kept what it had read, and reads that again
        read += page.changes
        kept = str(page.cursor)
        if over and not page.more:
            return read
        await asyncio.sleep(0)


async def test_readers_miss_nothing_while_writers_commit(world: World):
    """Four writers commit at once and out of step; each reader sees every change exactly once.

    Some readers are killed again and again, and go on from the cursor they had kept.
    """
    pipelines = [world.pipeline(f"p{n}") for n in range(WRITERS)]
    for p in pipelines:
        await world.receive(p, *[change(f"{p.name}-{n}", b"1") for n in range(EACH)])
    ended = asyncio.Event()
    readers = [
        asyncio.create_task(_follow(world, ended, limit, dies_after))
        for limit, dies_after in ((1, 10**9), (7, 3), (500, 2))
    ]
    await world.work(*pipelines, workers=4, batch_max=3)
    ended.set()
    truth = (await changes(world.db, limit=1000)).changes
    assert len(truth) == WRITERS * EACH
    assert [c.cursor for c in truth] == sorted({c.cursor for c in truth})
    for read in await asyncio.gather(*readers):
        assert [c.cursor for c in read] == [c.cursor for c in truth]
