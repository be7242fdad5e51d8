"""The bare loop: what Postgres gives to whoever does the job by hand, and nothing else.

A transaction per batch: claim what is new, apply it, mark it done. No worker that could die, no
retry, no order, no history. It is the yardstick, not a rival.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import perf_counter, time

import asyncpg

from .job import BATCH, EFFECTS, Count, Event, batches, count, ids, payload_text, warm_up

INBOX = """
    CREATE TABLE inbox (
        id text PRIMARY KEY,
        etype text NOT NULL,
        payload jsonb NOT NULL,
        state smallint NOT NULL DEFAULT 0,
        received_at timestamptz NOT NULL DEFAULT now(),
        done_at timestamptz)
"""
CLAIM = """
    INSERT INTO inbox (id, etype, payload, state)
    SELECT DISTINCT ON (i) i, e, p::jsonb, 1
    FROM unnest($1::text[], $2::text[], $3::text[]) AS t(i, e, p)
    ON CONFLICT DO NOTHING RETURNING id, etype
"""
APPLY = """
    INSERT INTO effects (key, count, etype, t_enq)
    SELECT k, 1, e, $3::float8 FROM unnest($1::text[], $2::text[]) AS t(k, e)
    ON CONFLICT (key) DO UPDATE SET count = effects.count + 1
"""
FINISH = "UPDATE inbox SET state = 2, done_at = now() WHERE id = ANY ($1::text[])"

Row = tuple[str, str, str]
Link = asyncpg.Connection


async def _batch(link: Link, rows: Sequence[Row]) -> None:
    async with link.transaction():
        told = ([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])
        new = await link.fetch(CLAIM, *told)
        if new:
            claimed = [r["id"] for r in new]
            await link.execute(APPLY, claimed, [r["etype"] for r in new], time())
            await link.execute(FINISH, claimed)


def _rows(deliveries: Sequence[Event]) -> list[Row]:
    return [(e.id, e.type, payload_text(e)) for e in deliveries]


async def run(url: str, deliveries: Sequence[Event]) -> tuple[float, Count]:
    """Seconds for the whole job, and what became of it."""
    link = await asyncpg.connect(url)
    try:
        await link.execute(f"{INBOX}; {EFFECTS}")
        await _batch(link, _rows(warm_up()))
        work = [_rows(b) for b in batches(deliveries, BATCH)]
        began = perf_counter()
        for rows in work:
            await _batch(link, rows)
        seconds = perf_counter() - began
        found = await link.fetch("SELECT key, count FROM effects")
    finally:
        await link.close()
    told = ids([*warm_up(), *deliveries])
    return seconds, count(told, ((r["key"], r["count"]) for r in found))


async def light(url: str, deliveries: Sequence[Event], per_second: float) -> list[float]:
    """Seconds from the call to the committed effect, for each new event at a light load."""
    link = await asyncpg.connect(url)
    taken: list[float] = []
    seen: set[str] = set()
    try:
        await link.execute(f"{INBOX}; {EFFECTS}")
        start = perf_counter()
        for n, event in enumerate(deliveries):
            await asyncio.sleep(max(0.0, start + n / per_second - perf_counter()))
            began = perf_counter()
            await _batch(link, _rows([event]))
            if event.id not in seen:
                taken.append(perf_counter() - began)
                seen.add(event.id)
    finally:
        await link.close()
    return taken
