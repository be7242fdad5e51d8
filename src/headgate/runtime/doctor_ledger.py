"""`headgate doctor ledger`: are the ledger's tables in good health? Made for CI (S2 § 11).

What the rows say is audited by `headgate verify`. Here it is about what holds them: every table
has a key and can be replicated, every index that the migrations made is there and can be used, dead
rows are tidied away, numbers do not run out, and who would take over from this server.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator
from itertools import chain

from headgate.ledger import MIGRATIONS
from headgate.model.check import Check
from headgate.pg import Record, queries
from headgate.pg.link import Link

Q = queries.load(__file__)

# A few dead rows are normal: autovacuum comes when a fifth of a table is dead.
DEAD_ROWS, DEAD_SHARE = 50_000, 0.5
UNKNOWN_ROWS = 10_000
OLD_XIDS, ANCIENT_XIDS = 1_000_000_000, 1_800_000_000
OLD_SECONDS = 3600.0
SCARCE_NUMBERS, FEW_NUMBERS = 0.5, 0.9
LAG_BYTES = 64 << 20

_TABLE = re.compile(r"^CREATE TABLE headgate\.(\w+) \((.*?)\)(?: WITH \(.*?\))?;", re.M | re.S)
_INDEX = re.compile(r"^CREATE (?:UNIQUE )?INDEX (\w+)\s+ON headgate\.(\w+)", re.M)
_DROPPED = re.compile(r"^DROP INDEX ([^;]+);", re.M)
_UNIQUE = re.compile(r"^    (?:(\w+) [^(\n]*\bUNIQUE\b|UNIQUE \(([\w, ]+)\))", re.M)
_VACUUM = "VACUUM ANALYZE {}; if it stays so: is autovacuum on, and what holds it up?"


async def check_health(link: Link) -> AsyncGenerator[Check]:
    """What holds the ledger, looked at from all sides. Nothing is changed."""
    tables = await link.fetch(Q.tables, link.schema)
    for check in chain(
        _tables(tables),
        _indexes(await link.fetch(Q.indexes, link.schema)),
        _tidy(tables, link.schema),
        _age(tables),
        _numbers(await link.fetch(Q.numbers, link.schema)),
        _oldest(await link.fetchrow(Q.oldest)),
        _slots(await link.fetch(Q.slots)),
    ):
        yield check
    said = await link.fetchrow(Q.replication)
    assert said is not None, "a SELECT without FROM has one row"
    for check in _standbys(await link.fetch(Q.standbys), said):
        yield check


def _tables(rows: list[Record]) -> Iterator[Check]:
    bad = False
    for row in rows:
        if not row["keyed"] or row["unreplicated"]:
            bad = True
            why = "has no primary key" if not row["keyed"] else "has REPLICA IDENTITY NOTHING"
            hint = "A standby by logical replication would miss its changes. Restore the key."
            yield Check("tables", "fail", f"{row['name']} {why}", hint)
        if row["unlogged"]:
            bad = True
            text = f"{row['name']} is UNLOGGED: a crash empties it, and no standby has it"
            yield Check("tables", "fail", text, f"ALTER TABLE headgate.{row['name']} SET LOGGED")
    if not bad:
        yield Check("tables", "ok", f"{len(rows)} tables, each with a primary key, all replicable")


def wanted_indexes() -> tuple[dict[str, str], set[tuple[str, tuple[str, ...]]]]:
    """What the migrations make: indexes by name with their table, and columns that are unique."""
    named: dict[str, str] = {}
    unique: set[tuple[str, tuple[str, ...]]] = set()
    for file in sorted(MIGRATIONS.glob("*.sql")):
        sql = file.read_text(encoding="utf-8")
        for dropped in _DROPPED.findall(sql):
            for name in dropped.split(","):
                named.pop(name.strip().removeprefix("headgate."), None)
        named |= dict(_INDEX.findall(sql))
        for table, body in _TABLE.findall(sql):
            for column, columns in _UNIQUE.findall(body):
                unique.add((table, tuple((column or columns).split(", "))))
    return named, unique


def _indexes(rows: list[Record]) -> Iterator[Check]:
    there = {row["name"]: row for row in rows}
    named, unique = wanted_indexes()
    bad = False
    for name, table in named.items():
        if name not in there:
            bad = True
            hint = f"Its statement is in {MIGRATIONS.name}/: run it as the owner, CONCURRENTLY."
            yield Check("indexes", "fail", f"{table} has lost its index {name}", hint)
    kept = {(r["table"], tuple(r["columns"])) for r in rows if r["uniquely"] and r["usable"]}
    for table, columns in sorted(unique - kept):
        bad = True
        hint = "Stop the workers, find out who removed it, and restore it before they go on."
        text = f"nothing keeps {table} ({', '.join(columns)}) unique any more"
        yield Check("indexes", "fail", text, hint)
    for row in rows:
        if not row["usable"]:
            bad = True
            hint = f"REINDEX INDEX CONCURRENTLY headgate.{row['name']}"
            yield Check("indexes", "fail", f"{row['name']} of {row['table']} is invalid", hint)
    if not bad:
        yield Check("indexes", "ok", f"{len(rows)} indexes, none missing, all valid")


def _tidy(rows: list[Record], schema: str) -> Iterator[Check]:
    bad = False
    for row in rows:
        name, live, dead = f"{schema}.{row['name']}", row["live"], row["dead"]
        if dead > DEAD_ROWS and dead > DEAD_SHARE * (live + dead):
            bad = True
            text = f"{name}: {dead:,} dead rows beside {live:,} live ones"
            yield Check("vacuum", "warn", text, _VACUUM.format(name))
        if row["changed"] > UNKNOWN_ROWS and row["analysed_at"] is None:
            bad = True
            text = f"{name}: {row['changed']:,} rows changed, and it was never analysed"
            yield Check("vacuum", "warn", text, _VACUUM.format(name))
    if not bad:
        dead = sum(row["dead"] for row in rows)
        yield Check("vacuum", "ok", f"{dead:,} dead rows wait to be tidied away")


def _age(rows: list[Record]) -> Iterator[Check]:
    oldest = max(rows, key=lambda row: row["age"])
    said = f"the oldest rows are {oldest['age']:,} transactions old ({oldest['name']})"
    hint = f"VACUUM FREEZE headgate.{oldest['name']}; then see what keeps autovacuum from it."
    if oldest["age"] > ANCIENT_XIDS:
        yield Check("wraparound", "fail", said, hint)
    elif oldest["age"] > OLD_XIDS:
        yield Check("wraparound", "warn", said, hint)
    else:
        yield Check("wraparound", "ok", said)


def _numbers(rows: list[Record]) -> Iterator[Check]:
    if not rows:
        return
    top = rows[0]
    said = f"{top['name']} has used {top['used']:.1%} of its numbers"
    hint = "Plan a migration of its column to bigint before it runs out."
    if top["used"] > FEW_NUMBERS:
        yield Check("numbers", "fail", said, hint)
    elif top["used"] > SCARCE_NUMBERS:
        yield Check("numbers", "warn", said, hint)
    else:
        yield Check("numbers", "ok", said)


def _oldest(row: Record | None) -> Iterator[Check]:
    if row is None or row["seconds"] < OLD_SECONDS:
        yield Check("transactions", "ok", "none is older than an hour")
        return
    hours = row["seconds"] / 3600
    text = f"process {row['pid']} ({row['who']}) has a transaction open for {hours:.1f} h"
    hint = f"Dead rows pile up behind it. End it: SELECT pg_terminate_backend({row['pid']})"
    yield Check("transactions", "warn", text, hint)


def _slots(rows: list[Record]) -> Iterator[Check]:
    for row in rows:
        kept = f"{(row['bytes'] or 0) / (1 << 30):.1f} GiB of log"
        text = f"replication slot {row['name']} is used by nobody and keeps {kept}"
        state = "fail" if row["wal"] == "lost" else "warn"
        hint = f"Bring its standby back, or: SELECT pg_drop_replication_slot('{row['name']}')"
        yield Check("slots", state, text, hint)


def _standbys(rows: list[Record], said: Record) -> Iterator[Check]:
    """Who would take over, and what that could lose."""
    if not rows:
        text = "none: if this server is lost, what came after the last backup is"
        yield Check("standby", "warn", text, "See: use-your-own-postgres, Failover.")
        return
    if rows[0]["state"] is None and not said["may_look"]:
        hint = "GRANT pg_monitor TO this user; then it shows how closely they follow."
        yield Check("standby", "warn", f"{len(rows)} follow, and we may not see how", hint)
        return
    synchronous = [r for r in rows if r["sync_state"] in ("sync", "quorum")]
    told = "; ".join(_follows(row) for row in rows)
    if not synchronous:
        text = f"{told}: a failover may lose the last commits, that were acknowledged"
        yield Check("standby", "warn", text, "Set synchronous_standby_names to one of them.")
    elif said["commit"] in ("off", "local"):
        text = f"{told}: synchronous_commit={said['commit']} does not wait for it"
        yield Check("standby", "warn", text, "Set synchronous_commit to on.")
    else:
        yield Check("standby", "ok", f"{told}: a failover to it loses nothing acknowledged")
    for row in rows:
        if (row["lag_bytes"] or 0) > LAG_BYTES:
            behind = f"{row['lag_bytes'] / (1 << 20):,.0f} MiB"
            yield Check("standby", "warn", f"{row['name']} is {behind} behind", "Is it well?")


def _follows(row: Record) -> str:
    lag = "" if row["lag_seconds"] is None else f", {row['lag_seconds']:.1f} s behind"
    return f"{row['name']} ({row['state']}, {row['sync_state']}{lag})"
