"""A server that could lose what it acknowledged, or cannot be written, is refused at the door."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from headgate import errors
from headgate.pg import Database, Server, embedded


@pytest.mark.parametrize("pooler", [False, True])
@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_does_not_sync_is_refused(server: Server, setting: str, pooler: bool) -> None:
    """Work that was reported as done must survive a power cut."""

    async def switch(sql: str, value: str) -> None:
        async with await Database.open(server.url, allow_unsafe=True) as db:
            await db.execute(sql)
            await db.execute("SELECT pg_reload_conf()")
            while await db.fetchval(f"SHOW {setting}") != value:  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    asyncio.run(switch(f"ALTER SYSTEM SET {setting} = off", "off"))
    try:
        with pytest.raises(errors.LedgerRefused, match=f"{setting}=off"):
            asyncio.run(Database.open(server.url, pooler=pooler))
    finally:
        asyncio.run(switch(f"ALTER SYSTEM RESET {setting}", "on"))


def test_a_database_that_commits_in_the_background_is_refused(url: str) -> None:
    """synchronous_commit=off, even for this database alone, is found."""

    async def scenario() -> None:
        async with await Database.open(url) as db:
            name = await db.fetchval("SELECT current_database()")
            await db.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        with pytest.raises(errors.LedgerRefused, match="synchronous_commit=off"):
            await Database.open(url)
        await (await Database.open(url, allow_unsafe=True)).close()

    asyncio.run(scenario())


def test_a_database_that_is_read_only_is_refused(url: str) -> None:
    """Better at the start than at the first write."""

    async def scenario() -> None:
        async with await Database.open(url) as db:
            name = await db.fetchval("SELECT current_database()")
            await db.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        with pytest.raises(errors.LedgerRefused, match="read-only"):
            await Database.open(url)

    asyncio.run(scenario())


def test_a_standby_is_refused(stopped_home: Path) -> None:
    """A replica's address in the settings is told apart from the primary's."""
    data = stopped_home / "postgres" / "data"
    signal_file = data / "standby.signal"
    signal_file.touch()
    os.chown(signal_file, data.stat().st_uid, data.stat().st_gid)
    try:
        with (
            embedded.start(stopped_home) as standby,
            pytest.raises(errors.LedgerRefused, match="standby"),
        ):
            asyncio.run(Database.open(standby.url, allow_unsafe=True))
    finally:
        signal_file.unlink()
