"""Connections: the configured schema, one name for outages, no password in any message."""

from __future__ import annotations

import asyncio
import re
from urllib.parse import parse_qs, urlsplit

import pytest

from headgate import errors
from headgate.pg import Database, driver, redact, where
from headgate.pg.link import is_away, localize


def test_the_ledger_lives_in_the_configured_schema(url: str) -> None:
    """Two ledgers share a database, each in its schema, with the same SQL."""

    async def scenario() -> None:
        for schema in ("headgate", "other-Ledger"):
            async with await Database.open(url, schema=schema) as db:
                await db.execute(f'CREATE SCHEMA "{schema}"')
                await db.execute("CREATE TABLE headgate.entry (id int PRIMARY KEY, name text)")
                async with db.transaction() as link:
                    await link.copy("entry", ["id", "name"], [(1, schema), (2, "x")])
                    await link.executemany(
                        "INSERT INTO headgate.entry VALUES ($1, $2)", [(3, "y"), (4, "z")]
                    )
                assert await db.fetchval("SELECT count(*) FROM headgate.entry") == 4
                row = await db.fetchrow(f'SELECT name FROM "{schema}".entry WHERE id = 1')
                assert row is not None
                assert row["name"] == schema
                assert await db.fetchval("SELECT to_regclass('headgate.entry') IS NOT NULL")

    asyncio.run(scenario())


def test_only_the_schema_prefix_is_replaced() -> None:
    """Words that merely look like the prefix stay as they are."""
    sql = "SELECT headgate.f(a.headgate.b, myheadgate.c) FROM headgate.t"
    assert localize(sql, "x") == 'SELECT "x".f(a.headgate.b, myheadgate.c) FROM "x".t'
    assert localize(sql, "headgate") is sql


@pytest.mark.parametrize("schema", ['a"b', "a'b", "a$b", "", "pg_ledger", "x" * 64, "1st"])
def test_a_schema_name_that_could_break_out_of_sql_is_refused(schema: str) -> None:
    """HEADGATE_SCHEMA goes into SQL text, so it may hold nothing that ends a quote."""
    with pytest.raises(errors.ConfigError):
        asyncio.run(Database.open("postgresql://x/y", schema=schema))


def test_a_server_that_is_down_is_named_without_its_password() -> None:
    """The message says host and database; the password appears nowhere."""
    with pytest.raises(errors.LedgerUnavailable) as caught:
        asyncio.run(Database.open("postgresql://me:s3cret@127.0.0.1:1/sales"))
    assert '"sales" at 127.0.0.1:1' in str(caught.value)
    assert "s3cret" not in repr(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:s3cret@h/db", "postgresql://me:***@h/db"),
        ("postgresql://me:s3c@r/et@h/db", "postgresql://me:***@h/db"),
        (
            "postgresql://h/db?user=me&password=s3cret&x=1",
            "postgresql://h/db?user=me&password=***&x=1",
        ),
        ("postgresql://me@h/db", "postgresql://me@h/db"),
        ("", ""),
    ],
)
def test_a_redacted_address_shows_everything_but_the_password(url: str, shown: str) -> None:
    """An address can be logged."""
    assert redact(url) == shown
    assert "s3c" not in where(url)


def test_a_database_that_does_not_exist_is_refused_with_the_way_out(url: str) -> None:
    """A typo in the database's name is no outage to wait for."""
    with pytest.raises(errors.LedgerRefused, match='"nowhere"') as caught:
        asyncio.run(Database.open(re.sub("@/[a-z0-9_]+", "@/nowhere", url)))
    assert "createdb" in caught.value.hint


def test_an_address_that_is_no_address_is_a_setting_to_correct() -> None:
    """A bad url is reported as configuration, with its password masked."""
    with pytest.raises(errors.ConfigError) as caught:
        asyncio.run(Database.open("mysql://me:s3cret@h/db"))
    assert "s3cret" not in str(caught.value)


def test_an_ended_session_is_an_outage_and_a_failed_statement_is_not(url: str) -> None:
    """Callers wait for the one and handle the other."""

    async def scenario() -> None:
        async with await Database.open(url, max_size=2) as db:
            with pytest.raises(driver.PostgresError):
                await db.execute("SELECT 1/0")
            with pytest.raises(TimeoutError):
                async with db.connection() as link:
                    await link.execute("SELECT pg_sleep(60)", timeout=0.05)
            with pytest.raises(errors.LedgerUnavailable):
                await db.execute("SELECT pg_terminate_backend(pg_backend_pid())")
            assert await db.fetchval("SELECT 1") == 1, "the pool did not replace the connection"

    asyncio.run(scenario())


def test_a_socket_that_timed_out_is_an_outage() -> None:
    """The same Python exception means two things; only the network's one is an outage."""
    assert is_away(TimeoutError(110, "Connection timed out"))
    assert not is_away(TimeoutError())
    assert not is_away(driver.InterfaceError("another operation is in progress"))


def test_without_an_address_the_usual_variables_are_used(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PGHOST, PGDATABASE and PGUSER work as they do for psql."""
    parts = urlsplit(url)
    monkeypatch.setenv("PGHOST", parse_qs(parts.query)["host"][0])
    monkeypatch.setenv("PGDATABASE", parts.path.lstrip("/"))
    monkeypatch.setenv("PGUSER", "postgres")

    async def scenario() -> None:
        async with await Database.open("") as db:
            assert await db.fetchval("SELECT current_database()") == parts.path.lstrip("/")

    asyncio.run(scenario())
