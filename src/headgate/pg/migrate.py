"""The ledger's schema: numbered migrations, forward only, and the functions of today's code.

`NNNN_name.sql` files are applied once each, in order. Functions are replaced as a set whenever
their digest differs from the one that was installed. All of it happens in one transaction under
an advisory lock, so of two migrators one works and the other finds the work done.

`plan` says the same as a script for those who let nothing but a DBA change a schema.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headgate import errors
from headgate.pg import driver, queries
from headgate.pg.database import Database
from headgate.pg.link import Link, localize, quoted

State = Literal["empty", "current", "older", "newer"]

_FILE = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")

_BOOKKEEPING = """\
CREATE TABLE headgate.schema_version (
    version    int PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE headgate.schema_functions (
    only_row     boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    digest       bytea NOT NULL,
    installed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
"""

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('headgate.schema_version', 0));\n"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is between the database and this code. `sql` is empty when nothing is."""

    current: int
    wanted: int
    pending: list[str]
    sql: str
    state: State


@dataclass(frozen=True, slots=True)
class _Installed:
    schema: bool
    version: int | None  # None: no ledger here
    digest: bytes | None


async def plan(link: Link, migrations_dir: Path, function_files: Sequence[Path]) -> Plan:
    """What `migrate` would do, as a script for psql that leaves exactly the same schema."""
    todo, _ = await _compare(link, migrations_dir, function_files)
    return todo


async def check(link: Link, migrations_dir: Path, function_files: Sequence[Path]) -> State:
    """How the database stands to this code."""
    return (await plan(link, migrations_dir, function_files)).state


async def require(link: Link, migrations_dir: Path, function_files: Sequence[Path]) -> None:
    """`LedgerRefused`, with the way out, unless the schema is the one this code was made for."""
    todo = await plan(link, migrations_dir, function_files)
    if todo.state == "newer":
        raise _newer(todo, link.schema)
    if todo.state != "current":
        found = "is empty" if todo.state == "empty" else f"is at version {todo.current}"
        raise errors.LedgerRefused(
            f'the ledger in schema "{link.schema}" {found};'
            f" this Headgate needs version {todo.wanted} with its own functions",
            hint="run: headgate db migrate (or --sql to print it for a DBA)",
        )


async def migrate(
    target: Database | Link, migrations_dir: Path, function_files: Sequence[Path]
) -> Plan:
    """Bring the schema up to date in one transaction, and return what was done.

    Running it again, or in two places at once, changes nothing more.
    """
    if isinstance(target, Database):
        async with target.transaction() as link:
            return await _apply(link, migrations_dir, function_files)
    if target.raw.is_in_transaction():
        return await _apply(target, migrations_dir, function_files)
    await target.execute("BEGIN")
    try:
        done = await _apply(target, migrations_dir, function_files)
        await target.execute("COMMIT")
    except BaseException:
        if not target.closed:
            await target.execute("ROLLBACK")
        raise
    return done


async def _apply(link: Link, migrations_dir: Path, function_files: Sequence[Path]) -> Plan:
    await link.execute(_LOCK)
    todo, statements = await _compare(link, migrations_dir, function_files)
    if todo.state == "newer":
        raise _newer(todo, link.schema)
    if statements:
        link.xid = await link.fetchval("SELECT pg_current_xact_id()::text::bigint")
    for what, sql in statements:
        try:
            await link.raw.execute(sql)
        except driver.PostgresError as error:
            error.add_note(f"while applying {what} to schema {link.schema}; nothing was changed")
            raise
    return todo


async def _compare(
    link: Link, migrations_dir: Path, function_files: Sequence[Path]
) -> tuple[Plan, list[tuple[str, str]]]:
    files = _migrations(migrations_dir)
    functions = [
        (f"function {name} of {path.name}", text)
        for path in function_files
        for name, text in queries.read(path).functions.items()
    ]
    digest = hashlib.sha256("\0".join(text for _, text in functions).encode()).digest()
    found = await _installed(link)
    current, wanted = found.version or 0, len(files)
    if current > wanted:
        return Plan(current, wanted, [], "", "newer"), []

    pending = files[current:]
    steps: list[tuple[str, str]] = []
    if not found.schema:
        steps.append(("the schema", f"CREATE SCHEMA {quoted(link.schema)};\n"))
    if found.version is None:
        steps.append(("the bookkeeping", _BOOKKEEPING))
    for version, path in enumerate(pending, current + 1):
        steps.append((path.name, path.read_text(encoding="utf-8")))
        steps.append((path.name, _record_version(version, path.stem)))
    if found.digest != digest:
        steps += functions
        steps.append(("the functions' digest", _record_digest(digest)))

    statements = [(what, localize(_closed(sql), link.schema)) for what, sql in steps]
    state: State = "empty" if found.version is None else "older" if statements else "current"
    names = [path.stem for path in pending]
    script = _script(statements, link.schema)
    return Plan(current, wanted, names, script, state), statements


def _script(statements: list[tuple[str, str]], schema: str) -> str:
    if not statements:
        return ""
    parts = ["\\set ON_ERROR_STOP on\nBEGIN;\n", localize(_LOCK, schema)]
    previous = ""
    for what, sql in statements:
        parts.append(sql if what == previous else f"\n-- {what}\n{sql}")
        previous = what
    return "".join([*parts, "\nCOMMIT;\n"])


async def _installed(link: Link) -> _Installed:
    try:
        schema = await link.fetchval("SELECT to_regnamespace($1) IS NOT NULL", quoted(link.schema))
        table = await link.fetchval("SELECT to_regclass('headgate.schema_version') IS NOT NULL")
        if not table:
            return _Installed(bool(schema), None, None)
        version = await link.fetchval(
            "SELECT coalesce(max(version), 0) FROM headgate.schema_version"
        )
        digest = await link.fetchval("SELECT digest FROM headgate.schema_functions")
    except driver.InsufficientPrivilege as error:
        raise errors.LedgerRefused(
            f'this user may not read the ledger in schema "{link.schema}": {error}',
            hint=f'As its owner: GRANT USAGE ON SCHEMA "{link.schema}" TO the user, and SELECT'
            " on its tables.",
        ) from error
    return _Installed(bool(schema), int(version), digest)


def _migrations(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if path.suffix == ".sql")
    for number, path in enumerate(files, 1):
        name = _FILE.fullmatch(path.name)
        if name is None or int(name[1]) != number:
            raise ValueError(
                f"{folder.name}/{path.name}: migrations are called NNNN_name.sql and numbered"
                f" without gaps; expected {number:04d}_"
            )
    return files


def _closed(sql: str) -> str:
    """The statement, ended: blocks may leave out their last semicolon."""
    sql = sql.strip()
    last = sql.rpartition("\n")[2]
    # A comment at the end would swallow a semicolon put behind it.
    return sql + ("\n" if sql.endswith(";") and "--" not in last else "\n;\n")


def _record_version(version: int, name: str) -> str:
    return f"INSERT INTO headgate.schema_version (version, name) VALUES ({version}, '{name}');"


def _record_digest(digest: bytes) -> str:
    return (
        f"INSERT INTO headgate.schema_functions (digest) VALUES ('\\x{digest.hex()}')\n"
        "ON CONFLICT (only_row) DO UPDATE\n"
        "SET digest = excluded.digest, installed_at = clock_timestamp();"
    )


def _newer(todo: Plan, schema: str) -> errors.LedgerRefused:
    return errors.LedgerRefused(
        f'the ledger in schema "{schema}" is at version {todo.current}, this code knows'
        f" {todo.wanted}: this database belongs to a newer Headgate: upgrade",
        hint="Upgrade Headgate here; nothing was changed.",
    )
