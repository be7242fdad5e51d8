"""Pages over a long ledger: they read what they show, and little more."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.console.visit import visitor
from tests.server.doors import app_of
from tests.world import change

import headgate as hg
from headgate.ledger import flow
from headgate.pg import Database
from headgate.runtime import station
from headgate.server.console import now

ENTRIES = 30_000
ROWS_A_PAGE = 12_000
LARGE = ("entry", "journal", "publication", "item", "action")

FILL = """
WITH told AS MATERIALIZED (
    SELECT n, $2::smallint AS pipeline, 'test://' || n AS uri, now() - n * interval '1 second' AS at
    FROM generate_series(1, $1::int) AS n),
entries AS (
    INSERT INTO headgate.entry
        (id, pipeline, key, uri, event_time, received_at, fingerprint, removed, envelope)
        OVERRIDING SYSTEM VALUE
    SELECT n, pipeline, sha256(n::text::bytea), uri, at, at, n, false, $3::bytea FROM told),
published AS (
    INSERT INTO headgate.publication
        (entry, pipeline, version, deployment, content, effect, uri)
    SELECT n, pipeline, 1, 1, sha256(n::text::bytea), sha256(n::text::bytea), uri FROM told),
lines AS (
    INSERT INTO headgate.journal
        (batch, n, entry, fence, outcome, attempt, at, steps, doc, hash)
    SELECT (n - 1) / 100 + 1, (n - 1) % 100 + 1, n, 1, 'finalized', 1, at, 'claimed:0', '{}', ''
    FROM told),
items AS (
    INSERT INTO headgate.item (entry, pipeline, collection, item, starts, ends, bbox)
    SELECT n, pipeline, 'long', 'i' || n, at, at, box(point(n % 180, 1), point(n % 180 + 1, 2))
    FROM told),
actions AS (
    INSERT INTO headgate.action (actor, verb, entry, because)
    SELECT 'ann', 'release', n, 'why ' || n FROM told)
INSERT INTO headgate.commit (pos, batch, n, at, chain, pipeline)
SELECT (n - 1) / 100 + 1, (n - 1) / 100 + 1, count(*), max(at), sha256(''), min(pipeline)
FROM told GROUP BY 1
"""
READ = """
SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_user_tables
WHERE schemaname = 'headgate' AND relname = ANY ($1::text[])
"""
PATHS = [
    "/", "/pipelines", "/pipelines/long", "/datasets", "/datasets/long",
    "/datasets/long/i77", "/activity", "/activity?pipeline=quiet", "/activity?actor=nobody",
]  # fmt: skip


async def fill(db: Database, folder: Path) -> None:
    """Entries by SQL, as the path would have left them."""
    at = await station.register(db, hg.Pipeline("long", store=str(folder), dataset="long"))
    await station.register(db, hg.Pipeline("quiet", store=str(folder)))
    await db.execute(FILL, ENTRIES, at.pipeline, change("one", b"1").document())
    await flow.roll_up(db)
    await db.execute("ANALYZE")


async def test_a_page_reads_what_it_shows_and_little_more(
    ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the ledger is: no page walks through its entries, changes or decisions."""
    monkeypatch.setattr(now, "FRESH_SECONDS", -1.0)
    async with await Database.open(ledger, max_size=1) as db:
        await fill(db, tmp_path)
        someone = await visitor(await app_of(db), db)
        for path in PATHS:
            await someone.page(path)  # what is kept by a connection is there by now
            before = await _rows(db)
            await someone.page(path)
            read = await _rows(db) - before
            assert read < ROWS_A_PAGE, f"{path} reads {read} rows of {ENTRIES}"


async def _rows(db: Database) -> int:
    await db.fetchval("SELECT pg_stat_force_next_flush()")
    await db.fetchval("SELECT 1")
    return await db.fetchval(READ, list(LARGE))
