"""`headgate doctor`: can Headgate work here? Each check says what it found and what to do.

Nothing is changed: a home is not made, a schema is not migrated, a store keeps no trace.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, cast

from headgate.errors import HeadgateError
from headgate.ledger import FUNCTIONS, MIGRATIONS, anchor
from headgate.model.check import Check
from headgate.pg import Database, binaries, cluster, migrate, queries, where
from headgate.pg.fitness import OLDEST_MAJOR
from headgate.pg.link import Link
from headgate.stores import open_store

from .ledger_home import Ledger, connected

Q = queries.load(__file__)

LIBRARIES = ("asyncpg", "click", "orjson", "prometheus-client", "pydantic", "rich", "structlog")
SCARCE_BYTES, FULL_BYTES = 1 << 30, 100 << 20
SKEW_SECONDS, WILD_SKEW_SECONDS = 1.0, 60.0
SLOW_SYNC_SECONDS = 0.1


def check_machine(ledger: Ledger) -> Iterator[Check]:
    """What can be seen without a database."""
    yield Check("python", "ok", f"{sys.version.split()[0]} ({sys.executable})")
    yield from _libraries()
    if ledger.url is None:
        yield _binaries(ledger)
    yield _folder("home", ledger.home)


async def check_database(ledger: Ledger) -> AsyncGenerator[Check]:
    """The server, the ledger's schema in it, and the stores the ledger knows."""
    if ledger.url is None and not cluster.data_folder(ledger.home / "postgres").is_dir():
        yield Check("database", "ok", "none yet: headgate up makes an embedded one")
        return
    # Unsafe settings are a finding here, not a reason to stop looking.
    lenient = Ledger(ledger.url, ledger.home, ledger.schema, ledger.pooler, allow_unsafe=True)
    try:
        async with connected(lenient, connections=2, check=False) as db:
            async with db.connection() as link:
                async for check in _server(link, where(db.url), ledger):
                    yield check
                current, check = await _schema(link)
            yield check
            if current:
                async for check in _ledger(db):
                    yield check
    except HeadgateError as error:
        yield Check("database", "fail", str(error), error.hint)


def _libraries() -> Iterator[Check]:
    found: list[str] = []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            yield Check("libraries", "fail", f"{name} is missing", f"pip install {name}")
    yield Check("libraries", "ok", ", ".join(found))
    try:
        metadata.version("uvloop")
    except metadata.PackageNotFoundError:
        yield Check("libraries", "warn", "no uvloop: workers are slower", "pip install uvloop")


def _binaries(ledger: Ledger) -> Check:
    try:
        version = cluster.data_folder(ledger.home / "postgres") / "PG_VERSION"
        major = int(version.read_text().strip()) if version.is_file() else None
        found = binaries.choose(major)
    except (HeadgateError, OSError, ValueError) as error:
        return Check("embedded", "fail", str(error), getattr(error, "hint", ""))
    return Check("embedded", "ok", f"PostgreSQL {found.version} in {found.folder}")


def _folder(name: str, folder: Path) -> Check:
    """May we write there, and is there room? Asks the nearest folder that exists."""
    there = next(p for p in (folder, *folder.parents) if p.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        said = f"{there} is not a folder we may write to"
        return Check(name, "fail", said, "Choose another: --home, or HEADGATE_HOME.")
    return _room(name, folder, there)


def _room(name: str, shown: object, there: Path) -> Check:
    free = shutil.disk_usage(there).free
    said = f"{shown}: writable, {free / (1 << 30):,.1f} GiB free"
    if free < FULL_BYTES:
        return Check(name, "fail", said, "Free some space before anything stops.")
    if free < SCARCE_BYTES:
        return Check(name, "warn", said, "Free some space soon.")
    return Check(name, "ok", said)


async def _server(link: Link, place: str, ledger: Ledger) -> AsyncGenerator[Check]:
    before = datetime.now(UTC)
    row = await link.fetchrow(Q.server)
    after = datetime.now(UTC)
    assert row is not None, "a SELECT without FROM has one row"
    said = f"{place}, PostgreSQL {row['version']}"
    if row["major"] < OLDEST_MAJOR:
        yield Check("database", "fail", said, f"Headgate needs {OLDEST_MAJOR} or newer.")
    elif row["read_only"]:
        yield Check("database", "fail", f"{said}: read-only", "Use the primary's address.")
    else:
        yield Check("database", "ok", said)
    yield _durability({n: row[n] for n in ("fsync", "full_page_writes", "synchronous_commit")})
    yield _skew(row["now"], before, after)
    yield _pooler(link, row["pid"], ledger)


def _durability(settings: dict[str, str]) -> Check:
    off = [name for name, value in settings.items() if value == "off"]
    said = ", ".join(f"{name}={value}" for name, value in settings.items())
    if not off:
        return Check("durability", "ok", said)
    hint = f"Turn on {' and '.join(off)}: a crash would lose work that was reported as done."
    return Check("durability", "fail", said, hint)


def _skew(server: datetime, before: datetime, after: datetime) -> Check:
    if before <= server <= after:
        skew = 0.0
    else:
        skew = (server - (before if server < before else after)).total_seconds()
    said = f"the database's clock differs from ours by {skew:+.3f} s"
    hint = "Run a time daemon (chrony, ntpd) on both machines."
    if abs(skew) > WILD_SKEW_SECONDS:
        return Check("clock", "fail", said, hint)
    if abs(skew) > SKEW_SECONDS:
        return Check("clock", "warn", said, hint)
    return Check("clock", "ok", said)


def _pooler(link: Link, backend: int, ledger: Ledger) -> Check:
    # A pooler greets us with a process number of its own making.
    greeted = cast("Any", link.raw).get_server_pid()
    between = greeted != backend
    if between and not ledger.pooler:
        return Check(
            "pooler",
            "fail",
            "a pooler stands before the database",
            "Set HEADGATE_POOLER=true, or connect to the server itself, which is faster.",
        )
    if ledger.pooler and not between:
        return Check(
            "pooler", "warn", "none, and `pooler` is set", "Unset HEADGATE_POOLER: it is faster."
        )
    return Check("pooler", "ok", "as set" if between else "none")


async def _schema(link: Link) -> tuple[bool, Check]:
    plan = await migrate.plan(link, MIGRATIONS, FUNCTIONS)
    said = f'schema "{link.schema}"'
    match plan.state:
        case "current":
            return True, Check("schema", "ok", f"{said} is current, version {plan.current}")
        case "empty":
            hint = "headgate up makes it; or: headgate db migrate"
            return False, Check("schema", "warn", f"{said} holds no ledger yet", hint)
        case "older":
            text = f"{said} is at version {plan.current} and not what this Headgate needs"
            return False, Check("schema", "fail", text, "run: headgate db migrate")
        case "newer":
            text = f"{said} is at version {plan.current}, made by a newer Headgate"
            return False, Check("schema", "fail", text, "Upgrade Headgate here.")


def check_stores(uris: Iterable[str]) -> list[Check]:
    """Can the stores of these pipelines be used?"""
    return [_store(uri) for uri in sorted(set(uris))]


async def _ledger(db: Database) -> AsyncGenerator[Check]:
    row = await db.fetchrow(Q.workers)
    assert row is not None, "an aggregate has one row"
    said = f"{row['alive']} alive, {row['expired']} with an expired lease"
    hint = "A running `headgate up` frees their work within seconds; is one running?"
    yield Check("workers", "warn", said, hint) if row["expired"] else Check("workers", "ok", said)
    yield await _operations(db)
    yield await _indexes(db)
    for uri in await anchor.stores(db):
        yield await asyncio.to_thread(_store, uri)


async def _operations(db: Database) -> Check:
    row = await db.fetchrow(Q.operations)
    assert row is not None, "an aggregate has one row"
    said = f"{row['known']} known, {row['running']} running"
    if row["overdue"] or row["partial"]:
        said += f", {row['overdue']} with a lease that ran out, {row['partial']} partial"
        hint = "Call them again, or look: headgate operation list --status partial"
        return Check("operations", "warn", said, hint)
    return Check("operations", "ok", said)


async def _indexes(db: Database) -> Check:
    broken = [row["name"] for row in await db.fetch(Q.unsound, db.schema)]
    if broken:
        hint = "REINDEX an index that is not valid; every table of a ledger has a primary key."
        return Check("indexes", "fail", f"not sound: {', '.join(broken)}", hint)
    return Check("indexes", "ok", "every table has a primary key, every index is valid")


def _store(uri: str) -> Check:
    """Write a little, sync it, take it away again; ask a bucket for something it has not."""
    try:
        store = open_store(uri)
        if "://" in uri and not uri.startswith("file://"):
            store.has(bytes(32))
            return Check("store", "ok", f"{uri}: it answers")
        spool = store.spool()
        try:
            spool.write(b"headgate doctor")
            began = time.perf_counter()
            with spool.path.open("rb") as stream:
                os.fsync(stream.fileno())
            took = time.perf_counter() - began
            check = _room("store", uri, spool.path.parent)
        finally:
            spool.discard()
    except (HeadgateError, OSError) as error:
        hint = getattr(error, "hint", "") or "Make it writable, or bring it back."
        return Check("store", "fail", f"{uri}: {error}", hint)
    check = check._replace(text=f"{check.text}, fsync {took * 1000:.1f} ms")
    if check.state == "ok" and took > SLOW_SYNC_SECONDS:
        return check._replace(state="warn", hint="Its disk is slow to sync: commits will be too.")
    return check
