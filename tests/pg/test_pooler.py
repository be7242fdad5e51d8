"""Behind a transaction pooler nothing is left in a session, so every session will do."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.pg.processes import eventually

from headgate.pg import Database


def test_nothing_is_prepared_or_set_in_a_session(url: str) -> None:
    """No prepared statement and no start-up setting that another session would lack."""

    async def scenario() -> None:
        async with await Database.open(url, pooler=True, max_size=1) as db:
            for n in range(3):
                assert await db.fetchval("SELECT $1::int", n) == n
            assert await db.fetchval("SELECT count(*) FROM pg_prepared_statements") == 0
            assert await db.fetchval("SHOW application_name") == ""
            async with db.transaction() as link:
                await link.execute("CREATE TABLE public.effect (n int)")
                await link.raw.copy_records_to_table("effect", records=[(1,), (2,)])
            assert await db.fetchval("SELECT count(*) FROM public.effect") == 2

    asyncio.run(scenario())


@pytest.mark.skipif(not shutil.which("pgbouncer"), reason="NOT TESTED: no pgbouncer here")
def test_many_tasks_share_two_sessions_of_a_real_pooler(url: str) -> None:
    """PgBouncer in transaction mode: statements and transactions of many tasks do not mix."""
    parts = urlsplit(url)
    (target,) = parse_qs(parts.query)["host"]
    folder = Path(tempfile.mkdtemp(prefix="hgb-", dir="/tmp"))
    (folder / "users").write_text('"postgres" ""\n')
    (folder / "ini").write_text(
        f"[databases]\n* = host={target} port=5432\n"
        "[pgbouncer]\nlisten_addr =\nlisten_port = 6432\n"
        f"unix_socket_dir = {folder}\nauth_type = trust\nauth_file = {folder}/users\n"
        "pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 50\n"
    )
    root = os.geteuid() == 0
    user = pwd.getpwuid(os.stat(target).st_uid)
    if root:
        shutil.chown(folder, user.pw_uid)
    bouncer = subprocess.Popen(
        [str(shutil.which("pgbouncer")), "-q", str(folder / "ini")],
        user=user.pw_uid if root else None,
    )

    async def scenario() -> None:
        pooled = f"postgresql://postgres@{parts.path}?host={folder}&port=6432"
        async with await Database.open(pooled, pooler=True, max_size=20) as db:
            await db.execute("CREATE TABLE public.effect (n int)")

            async def work(n: int) -> None:
                for _ in range(10):
                    assert await db.fetchval("SELECT $1::int", n) == n
                    async with db.transaction() as link:
                        link.xid = await link.fetchval("SELECT pg_current_xact_id()::text::bigint")
                        await link.execute("INSERT INTO public.effect VALUES ($1)", n)

            await asyncio.gather(*(work(n) for n in range(20)))
            assert await db.fetchval("SELECT count(*) FROM public.effect") == 200

    try:
        eventually((folder / ".s.PGSQL.6432").exists)
        asyncio.run(scenario())
    finally:
        bouncer.terminate()
        bouncer.wait()
        shutil.rmtree(folder)
