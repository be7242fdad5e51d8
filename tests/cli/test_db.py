"""`headgate db` and `headgate doctor`: the database is found, made and checked."""

from __future__ import annotations

import asyncio

from tests.cli.conftest import Headgate

from headgate.pg import Database


def _execute(url: str, sql: str) -> None:
    async def go() -> None:
        async with await Database.open(url) as db:
            await db.execute(sql)

    asyncio.run(go())


def test_migrate_makes_the_schema_and_then_has_nothing_to_do(headgate: Headgate) -> None:
    """An empty database gets the whole schema; the second run changes nothing."""
    first = headgate("db", "migrate")
    assert first.code == 0, first.err
    assert "0001_spine" in first.out
    again = headgate("db", "migrate", "--json")
    assert again.json["state"] == "current"
    assert again.json["applied"] == []


def test_the_printed_sql_does_the_same(headgate: Headgate) -> None:
    """A DBA runs what --sql printed, and Headgate is content."""
    script = headgate("db", "migrate", "--sql")
    assert script.code == 0
    (headgate.folder / "ledger.sql").write_text(script.out)
    ran = headgate("db", "psql", "-q", "-f", "ledger.sql")
    assert ran.code == 0, ran.err
    assert headgate("db", "migrate", "--json").json["state"] == "current"


def test_an_older_schema_is_refused_with_the_command_to_run(headgate: Headgate) -> None:
    """After an upgrade nothing runs on the old schema, and the message says what to type."""
    assert headgate("db", "migrate").code == 0
    url = headgate.env["HEADGATE_DATABASE_URL"]
    _execute(url, "UPDATE headgate.schema_functions SET digest = '\\x00'")
    for command in (["status"], ["verify"], ["quarantine", "list"]):
        said = headgate(*command)
        assert said.code == 2, said
        assert "headgate db migrate" in said.err
    checked = headgate("doctor")
    assert checked.code == 1
    assert "headgate db migrate" in checked.out
    assert headgate("db", "migrate").code == 0
    assert headgate("status").code == 0


def test_psql_is_opened_on_the_ledger(headgate: Headgate) -> None:
    """psql's own arguments are handed on, and its exit code comes back."""
    said = headgate("db", "psql", "-At", "-c", "SELECT current_database()")
    assert said.code == 0, said.err
    assert said.out.strip() in headgate.env["HEADGATE_DATABASE_URL"]
    assert headgate("db", "psql", "-c", "SELEC 1").code == 1


def test_the_url_hides_its_password_unless_asked(bare: Headgate) -> None:
    """What is printed by default may be seen by anyone."""
    url = "postgresql://me:s3cr3t-word@db.example/ledger"
    assert "s3cr3t-word" not in bare("db", "url", HEADGATE_DATABASE_URL=url).out
    assert bare("db", "url", "--reveal", HEADGATE_DATABASE_URL=url).out.strip() == url


def test_doctor_is_content_with_a_healthy_place(world: Headgate) -> None:
    """Every check is listed, the store among them, and nothing is left behind in it."""
    before = sorted(p for p in (world.folder / "lake").rglob("*"))
    said = world("doctor", "--json")
    assert said.code == 0, said.out
    assert said.json["ok"] is True
    names = {check["name"] for check in said.json["checks"]}
    assert names >= {
        "python", "libraries", "home", "database", "durability", "clock", "pooler", "schema",
        "workers", "store", "retention",
    }  # fmt: skip
    assert sorted(p for p in (world.folder / "lake").rglob("*")) == before


def test_doctor_names_what_is_wrong(bare: Headgate) -> None:
    """A database that is down and a setting that cannot be are failures with a hint."""
    away = bare("doctor", "--json", HEADGATE_DATABASE_URL="postgresql://x@127.0.0.1:1/x")
    assert away.code == 1
    (bad,) = [c for c in away.json["checks"] if c["state"] == "fail"]
    assert bad["name"] == "database"
    assert bad["hint"]
    wrong = bare("doctor", HEADGATE_LEASE_SECONDS="soon")
    assert wrong.code == 1
    assert "HEADGATE_LEASE_SECONDS" in wrong.out
    assert list(bare.folder.iterdir()) == []
