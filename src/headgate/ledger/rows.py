"""Declared rows: upserted set-wise, owned by the object that produced them, never out of order.

SQL is assembled here: from identifiers that were checked when they were declared, each of them
quoted. Every row carries the entry that produced it and that entry's event time, so that

- a new version of an object first takes back the rows of the version before it,
- a row that a newer event wrote is not overwritten by an older one,
- of two rows with one key in a batch, the later event's stays,
- a row that was in the table before Headgate (no entry, no time) counts as older than any event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TypeVar

from headgate.errors import LedgerRefused
from headgate.model.ports import Chunks
from headgate.model.rows import IDENTIFIER, Table
from headgate.pg import Database, Link, driver
from headgate.pg.instant import instant

from .arrays import column

UNIQUE = """
    SELECT EXISTS (
        SELECT FROM pg_index i
        WHERE i.indrelid = to_regclass($1) AND i.indisunique
          AND i.indpred IS NULL AND i.indexprs IS NULL
          AND $2::text[] = (
            SELECT array_agg(a.attname::text ORDER BY a.attname::text COLLATE "C")
            FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)))
"""
# What one statement may carry: it is parsed in memory.
MOST_BYTES = 4 << 20
T = TypeVar("T")
OWN = (("_headgate_entry", "bigint"), ("_headgate_at", "timestamptz"))


def _quote(identifier: str) -> str:
    if not IDENTIFIER.fullmatch(identifier):
        raise ValueError(f"not an identifier: {identifier!r}")
    return f'"{identifier}"'


def _name(table: Table) -> str:
    return ".".join(_quote(p) for p in (table.schema, table.name) if p is not None)


@dataclass(slots=True, eq=False)
class Produced:
    """Rows of one table that one entry stands for, as JSON arrays of so many rows each."""

    entry: int
    at: bytes  # its event time, as Postgres sends it
    sizes: Sequence[int]
    chunks: Chunks | tuple[bytes, ...]
    predecessor: int | None
    adopts: bool = False  # the predecessor's rows stay, in its own name …
    adopted: int = 0  # … so many of them

    @property
    def is_one_row(self) -> bool:
        return len(self.sizes) == 1 and self.sizes[0] == 1


class RowsTable:
    """The statements of one declared table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.label = table.label
        self._adopt = f"UPDATE {_name(table)} SET _headgate_entry = $2 WHERE _headgate_entry = $1"
        self._take_back = f"DELETE FROM {_name(table)} WHERE _headgate_entry = ANY ($1::bigint[])"
        self._locks = f"(1751606891, hashtext('{table.label}'))"
        self._plain = self._upsert(frozenset())
        self._sharing = self._upsert(frozenset(), share=True)
        self._lone = self._upsert(frozenset(), share=True, lone=True)

    def _upsert(self, added: frozenset[str], *, share: bool = False, lone: bool = False) -> str:
        name, key = _name(self.table), ", ".join(_quote(k) for k in self.table.key)
        columns = [_quote(n) for n in [*(c.name for c in self.table.columns), *sorted(added)]]
        listed, ours = ", ".join(columns), ", ".join("r." + c for c in columns)
        updates = ", ".join(f"{c} = excluded.{c}" for c in [*columns, *(_quote(c) for c, _ in OWN)])
        # Asked once, before the first row.
        agreed = f"(SELECT pg_advisory_xact_lock_shared{self._locks}) IS NOT NULL"
        return f"""
            INSERT INTO {name} AS t ({listed}, _headgate_entry, _headgate_at)
            {(self._one if lone else self._several)(ours, agreed if share else "true")}
            ON CONFLICT ({key}) DO UPDATE SET {updates}
            WHERE t._headgate_at IS NULL OR (t._headgate_at, t._headgate_entry)
                <= (excluded._headgate_at, excluded._headgate_entry)
        """

    def _several(self, columns: str, agreed: str) -> str:
        # Sorted by key: two committers then lock rows in the same order. Nothing here tells the
        # planner how many rows there are: where it sees that, it plans each statement anew, which
        # takes as long as to run it for one row, and the plan is always the same.
        mine = ", ".join("r." + _quote(k) for k in self.table.key)
        return f"""
            SELECT DISTINCT ON ({mine}) {columns}, e.entry, e.at
            FROM jsonb_populate_recordset(NULL::{_name(self.table)}, $3::jsonb)
                 WITH ORDINALITY AS r,
                 LATERAL (SELECT
                    ($1::bigint[])[r.ordinality::int] AS entry,
                    ($2::timestamptz[])[least(r.ordinality::int, cardinality($2))] AS at) AS e
            WHERE {agreed}
            ORDER BY {mine}, e.at DESC, e.entry DESC, r.ordinality DESC
        """

    def _one(self, columns: str, agreed: str) -> str:
        # The same for one row, which has nothing to be sorted with.
        return f"""
            SELECT {columns}, $1::bigint, $2::timestamptz
            FROM jsonb_populate_record(NULL::{_name(self.table)}, $3::jsonb) AS r
            WHERE {agreed}
        """

    async def prepare(self, db: Database) -> None:
        """Create the table when it is not there; refuse one that cannot hold our rows."""
        async with db.transaction() as link:
            await link.execute(
                "SELECT pg_advisory_xact_lock(1751606889, hashtext($1))", self.table.label
            )
            there = await link.fetchval("SELECT to_regclass($1) IS NOT NULL", _name(self.table))
            if there:
                await self._inspect(link)
            else:
                await self._create(link)

    async def _create(self, link: Link) -> None:
        name = _name(self.table)
        columns = ", ".join(
            f"{_quote(c.name)} {c.type}{'' if c.nullable else ' NOT NULL'}"
            for c in self.table.columns
        )
        own = ", ".join(f"{c} {t} NOT NULL" for c, t in OWN)
        key = ", ".join(_quote(k) for k in self.table.key)
        try:
            await link.execute(f"CREATE TABLE {name} ({columns}, {own}, PRIMARY KEY ({key}))")
            await link.execute(f"CREATE INDEX ON {name} (_headgate_entry)")
        except (driver.InsufficientPrivilege, driver.NoSuchSchema) as error:
            schema = ""
            if isinstance(error, driver.NoSuchSchema) and self.table.schema is not None:
                schema = f"CREATE SCHEMA {_quote(self.table.schema)}; "
            raise LedgerRefused(
                f"cannot create table {self.table.label}: {error}",
                hint=f"have a DBA run: {schema}"
                f"CREATE TABLE {name} ({columns}, {own}, PRIMARY KEY ({key}));"
                f" CREATE INDEX ON {name} (_headgate_entry);",
            ) from error

    async def _inspect(self, link: Link) -> None:
        name = _name(self.table)
        rows = await link.fetch(
            "SELECT attname, format_type(atttypid, NULL) AS type FROM pg_attribute"
            " WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped",
            name,
        )
        there = {r["attname"] for r in rows}
        missing = [(c.name, c.type) for c in self.table.columns if c.name not in there]
        ours = [(c, t) for c, t in OWN if c not in there]
        if missing and self.table.new_columns == "add":
            for column, kind in missing:
                await link.execute(f"ALTER TABLE {name} ADD COLUMN {_quote(column)} {kind}")
            missing = []
        if missing or ours:
            lacking = ", ".join(c for c, _ in [*missing, *ours])
            wanted = ", ".join(f"ADD COLUMN {_quote(c)} {t}" for c, t in [*missing, *ours])
            index = f" CREATE INDEX ON {name} (_headgate_entry);" if ours else ""
            raise LedgerRefused(
                f"table {self.table.label} has no column {lacking}",
                hint=f"run: ALTER TABLE {name} {wanted};{index}",
            )
        unique = await link.fetchval(UNIQUE, name, sorted(self.table.key))
        if not unique:
            key = ", ".join(_quote(k) for k in self.table.key)
            raise LedgerRefused(
                f"table {self.table.label} has no unique index on ({key})",
                hint=f"run: ALTER TABLE {name} ADD UNIQUE ({key});",
            )

    @staticmethod
    def is_one_statement(produced: Sequence[Produced]) -> bool:
        """Will all of this be written at once, and nothing be taken back before?"""
        return (
            all(p.predecessor is None and len(p.chunks) <= 1 for p in produced)
            and sum(len(p.chunks[0]) for p in produced if p.chunks) <= MOST_BYTES
        )

    async def lock(self, link: Link, produced: Sequence[Produced]) -> None:
        """Agree with other committers on who locks which rows first.

        One statement locks its rows in the order of their keys, so any number of them may run at
        once. Who takes rows back first, or needs several statements, has no such order: two of
        them would deadlock, again and again.
        """
        shared = "_shared" if self.is_one_statement(produced) else ""
        await link.execute(f"SELECT pg_advisory_xact_lock{shared}{self._locks}")

    async def write(
        self,
        link: Link,
        produced: Sequence[Produced],
        added: frozenset[str] = frozenset(),
        *,
        share: bool = False,
    ) -> None:
        """Replace what the objects' previous versions produced by what these ones do.

        `share` takes the shared lock on the way, which saves asking for it before.
        `added` are columns that this data has and the schema has not (`new_columns="add"`); they
        become text. They are not remembered: the transaction may be rolled back.
        """
        for name in sorted(added):
            await link.execute(
                f"ALTER TABLE {_name(self.table)} ADD COLUMN IF NOT EXISTS {_quote(name)} text"
            )
        plain = self._sharing if share else self._plain
        upsert = self._upsert(added, share=share) if added else plain
        if share and not added and len(produced) == 1 and produced[0].is_one_row:
            p = produced[0]
            await link.execute(self._lone, p.entry, instant(p.at), p.chunks[0][1:-1].decode())
            return
        for p in produced:
            if p.adopts:
                tag = await link.execute(self._adopt, p.predecessor, p.entry)
                p.adopted = int(tag.rpartition(" ")[2])
        before = [p.predecessor for p in produced if p.predecessor is not None and not p.adopts]
        if before:
            await link.execute(self._take_back, before)
        for k in range(max((len(p.chunks) for p in produced), default=0)):
            for group in _statements([p for p in produced if len(p.chunks) > k], k):
                # One array for all of them: a call for each entry costs more than its row.
                sizes = [p.sizes[k] for p in group]
                rows = b",".join([p.chunks[k][1:-1] for p in group])
                await link.execute(
                    upsert,
                    _each([p.entry for p in group], sizes),
                    list(map(instant, column(_each([p.at for p in group], sizes)))),
                    f"[{rows.decode()}]",
                )


def _each(values: list[T], sizes: Sequence[int]) -> list[T]:
    """A value of each entry, for each of its rows."""
    return list(chain.from_iterable(map(repeat, values, sizes)))


def _statements(produced: Sequence[Produced], k: int) -> Iterator[Sequence[Produced]]:
    # The k-th chunk of each entry, in statements of a reasonable size.
    start = size = 0
    for n, p in enumerate(produced):
        size += len(p.chunks[k])
        if size > MOST_BYTES and n > start:
            yield produced[start:n]
            start, size = n, len(p.chunks[k])
    if start < len(produced):
        yield produced[start:]
