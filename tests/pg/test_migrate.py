"""The schema: brought up to date once, by whoever comes first, or by a DBA with a script."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from tests.pg.conftest import new_database

from headgate import errors
from headgate.pg import Database, Plan, Server, binaries, driver, migrate

FIRST = """
-- The entries.
CREATE TYPE headgate.status AS ENUM ('received', 'claimed');
CREATE TABLE headgate.entry (id bigint PRIMARY KEY, status headgate.status NOT NULL);
"""
SECOND = """
ALTER TABLE headgate.entry ADD COLUMN note text;
CREATE INDEX entry_note ON headgate.entry (note);
CREATE VIEW headgate.wal AS SELECT id FROM headgate.entry -- no semicolon
"""
FUNCTIONS = """
-- name: unrelated
SELECT 1;
-- function: entries
-- How many there are.
CREATE OR REPLACE FUNCTION headgate.entries() RETURNS bigint LANGUAGE sql AS $$
    SELECT count(*) FROM headgate.entry;
$$
"""


class Code:
    """A version of the ledger's files on disk."""

    def __init__(self, folder: Path, *migrations: str, functions: str = FUNCTIONS) -> None:
        self.folder = folder / "migrations"
        self.folder.mkdir(parents=True)
        for number, sql in enumerate(migrations, 1):
            (self.folder / f"{number:04d}_step{number}.sql").write_text(sql)
        self.functions = folder / "gate.sql"
        self.functions.write_text(functions)

    async def migrate(self, db: Database) -> Plan:
        return await migrate.migrate(db, self.folder, [self.functions])

    async def state(self, db: Database) -> str:
        async with db.connection() as link:
            return await migrate.check(link, self.folder, [self.functions])

    async def require(self, db: Database) -> None:
        async with db.connection() as link:
            await migrate.require(link, self.folder, [self.functions])

    async def plan(self, db: Database) -> Plan:
        async with db.connection() as link:
            return await migrate.plan(link, self.folder, [self.functions])


def pg(program: str, url: str, *args: str, stdin: str | None = None) -> str:
    folder = binaries.choose(None).folder
    ran = subprocess.run(
        [folder / program, *args, url], input=stdin, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def dump(url: str) -> list[str]:
    """The schema as SQL, without the key that pg_dump makes up for each run."""
    text = pg("pg_dump", url, "--schema-only")
    return [line for line in text.splitlines() if "restrict" not in line]


def test_migrating_twice_changes_nothing_more(url: str, tmp_path: Path) -> None:
    """An empty database becomes current, an older one too, and then nothing is left to do."""

    async def scenario() -> None:
        old, new = Code(tmp_path / "old", FIRST), Code(tmp_path / "new", FIRST, SECOND)
        async with await Database.open(url) as db:
            assert await old.state(db) == "empty"
            with pytest.raises(errors.LedgerRefused, match="is empty"):
                await old.require(db)
            assert (await old.migrate(db)).pending == ["0001_step1"]
            assert await old.state(db) == "current"

            assert await new.state(db) == "older"
            with pytest.raises(errors.LedgerRefused, match="version 1") as caught:
                await new.require(db)
            assert "headgate db migrate" in caught.value.hint
            done = await new.migrate(db)
            assert (done.current, done.wanted, done.pending) == (1, 2, ["0002_step2"])

            again = await new.migrate(db)
            assert (again.state, again.pending, again.sql) == ("current", [], "")
            await new.require(db)
            assert await db.fetchval("SELECT headgate.entries()") == 0

            assert await old.state(db) == "newer"
            with pytest.raises(errors.LedgerRefused, match="newer Headgate: upgrade"):
                await old.require(db)
            with pytest.raises(errors.LedgerRefused, match="newer Headgate: upgrade"):
                await old.migrate(db)

    asyncio.run(scenario())


def test_changed_functions_are_installed_again(url: str, tmp_path: Path) -> None:
    """A new version of the code brings its functions, without a new migration."""

    async def scenario() -> None:
        old = Code(tmp_path / "old", FIRST)
        new = Code(tmp_path / "new", FIRST, functions=FUNCTIONS.replace("count(*)", "count(*) + 7"))
        async with await Database.open(url) as db:
            await old.migrate(db)
            assert await new.state(db) == "older"
            await new.migrate(db)
            assert await db.fetchval("SELECT headgate.entries()") == 7
            assert await new.state(db) == "current"

    asyncio.run(scenario())


def test_two_migrators_at_once_do_the_work_once(url: str, tmp_path: Path) -> None:
    """A whole fleet that starts together migrates once, and nobody fails."""

    async def scenario() -> None:
        code = Code(tmp_path, "SELECT pg_sleep(0.05);" + FIRST, SECOND)
        async with await Database.open(url) as db:
            done = await asyncio.gather(*(code.migrate(db) for _ in range(6)))
            assert sorted(len(plan.pending) for plan in done) == [0, 0, 0, 0, 0, 2]
            assert await db.fetchval("SELECT count(*) FROM headgate.schema_version") == 2

    asyncio.run(scenario())


@pytest.mark.parametrize("schema", ["headgate", "other-ledger"])
def test_the_printed_script_makes_the_same_schema(
    server: Server, tmp_path: Path, schema: str
) -> None:
    """What a DBA pipes into psql is what `migrate` would have done, from empty and from older."""
    by_hand, by_code = new_database(server), new_database(server)
    versions = [Code(tmp_path / "1", FIRST), Code(tmp_path / "2", FIRST, SECOND)]

    async def scenario() -> None:
        for code in versions:
            async with await Database.open(by_hand, schema=schema) as db:
                script = (await code.plan(db)).sql
                pg("psql", by_hand, "-X", "-q", stdin=script)
                assert await code.state(db) == "current"
            async with await Database.open(by_code, schema=schema) as db:
                await code.migrate(db)
            assert dump(by_hand) == dump(by_code)

    asyncio.run(scenario())
    assert f"CREATE SCHEMA {schema}" in "\n".join(dump(by_hand)).replace('"', "")


def test_a_failing_migration_leaves_the_old_schema(url: str, tmp_path: Path) -> None:
    """Half a migration is no schema: all of it or nothing, and the culprit is named."""

    async def scenario() -> None:
        old = Code(tmp_path / "old", FIRST)
        bad = Code(tmp_path / "bad", FIRST, SECOND, "SELECT 1/0;")
        async with await Database.open(url) as db:
            await old.migrate(db)
            with pytest.raises(driver.PostgresError) as caught:
                await bad.migrate(db)
            assert "0003_step3.sql" in caught.value.__notes__[0]
            assert await old.state(db) == "current"

    asyncio.run(scenario())


def test_a_worker_without_rights_is_told_which(url: str, tmp_path: Path) -> None:
    """Workers need no DDL rights, only to read; without even that, the grant is named."""

    async def scenario() -> None:
        code = Code(tmp_path, FIRST)
        async with await Database.open(url) as db:
            await code.migrate(db)
            role = f"worker_{await db.fetchval('SELECT current_database()')}"
            await db.execute(f"CREATE ROLE {role} LOGIN")
            worker_url = url.replace("postgres@", f"{role}@")
            async with await Database.open(worker_url) as worker:
                with pytest.raises(errors.LedgerRefused, match="may not read"):
                    await code.require(worker)
            await db.execute(f"GRANT USAGE ON SCHEMA headgate TO {role}")
            await db.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA headgate TO {role}")
            async with await Database.open(worker_url) as worker:
                await code.require(worker)

    asyncio.run(scenario())


def test_migrations_are_numbered_without_gaps(url: str, tmp_path: Path) -> None:
    """A lost or misnamed file is found before anything is applied."""

    async def scenario() -> None:
        code = Code(tmp_path, FIRST)
        (code.folder / "0003_late.sql").write_text("SELECT 1;")
        async with await Database.open(url) as db:
            with pytest.raises(ValueError, match="expected 0002_"):
                await code.migrate(db)

    asyncio.run(scenario())


def test_a_migration_can_be_part_of_a_transaction_and_undone_with_it(
    url: str, tmp_path: Path
) -> None:
    """On a connection of one's own it commits by itself; in a transaction it waits for its end."""

    async def scenario() -> None:
        code = Code(tmp_path, FIRST)
        async with await Database.open(url) as db, db.connection() as link:
            await link.execute("BEGIN")
            await migrate.migrate(link, code.folder, [code.functions])
            await link.execute("ROLLBACK")
            assert await code.state(db) == "empty"
            await migrate.migrate(link, code.folder, [code.functions])
            assert await code.state(db) == "current"

    asyncio.run(scenario())
