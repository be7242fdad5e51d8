"""Stores: what they hold, and freeing what nothing needs."""

from __future__ import annotations

import asyncio

from tests.cli.conftest import Headgate

from headgate.pg import Database

REPLACED = """
    UPDATE headgate.object SET touched_at = touched_at - interval '400 days';
    UPDATE headgate.journal SET at = at - interval '400 days';
"""


def test_space_is_seen_and_freed(headgate: Headgate) -> None:
    """What was replaced long ago shows as reclaimable, goes when asked, and is not missed."""
    assert headgate("init").code == 0
    pipeline = headgate.folder / "rain.py"
    pipeline.write_text(pipeline.read_text().replace('"incoming/")', '"incoming/", settle=0)'))
    up = ("up", "rain.py", "--until-idle", "--workers", "1")
    assert headgate(*up).code == 0
    (file, *_) = sorted((headgate.folder / "incoming").glob("*.csv"))
    old = len(file.read_bytes())
    file.write_text(file.read_text() + "oslo-9,2026-01-05T23:59:00,9\n")
    assert headgate(*up).code == 0
    (store,) = headgate("store", "list", "--json").json["stores"]
    assert (store["reclaimable"], store["staged"]) == (0, 0)
    kept = store["kept"]
    assert headgate("store", "collect", "--json").json["objects"] == 0
    asyncio.run(_execute(headgate.env["HEADGATE_DATABASE_URL"], REPLACED))
    assert "reclaimable" in headgate("store", "list").out
    would = headgate("store", "collect", "--dry-run", "--json").json
    assert (would["objects"], would["bytes"], would["retention_days"]) == (1, old, 90)
    assert "1 object" in headgate("store", "collect", "--dry-run").out
    done = headgate("store", "collect")
    assert done.code == 0, done.err
    assert "1 object" in done.out
    (store,) = headgate("store", "list", "--json").json["stores"]
    assert (store["kept"], store["reclaimable"], store["collected"]) == (kept - 1, 0, 1)
    verified = headgate("verify", "--deep", "--json")
    assert verified.code == 0, verified.out
    assert verified.json["checked"]["collected"] == 1


def test_a_store_that_is_away_is_named(headgate: Headgate) -> None:
    """Nothing that can go is kept back by it, and the command says that it failed."""
    assert headgate("db", "migrate").code == 0
    asyncio.run(
        _execute(
            headgate.env["HEADGATE_DATABASE_URL"],
            "INSERT INTO headgate.store (uri) VALUES ('ftp://nowhere/lake');"
            "INSERT INTO headgate.object VALUES (1, sha256('a'), 1, 'condemned', 1, now())",
        )
    )
    said = headgate("store", "collect")
    assert said.code != 0
    assert "ftp://" in said.err


async def _execute(url: str, sql: str) -> None:
    async with await Database.open(url) as db:
        await db.execute(sql)
