"""Rows that were made again, compared with those that readers see. Nothing is written.

Postgres itself reads the new rows as the table would, so that a number, a time or a JSON document
is compared by what it is and not by how it is written. A table's name and columns go into SQL here
as they do where rows are written: checked, then quoted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.model.rows import IDENTIFIER, Table
from headgate.pg import Database

# What one statement may carry: it is parsed in memory.
MOST_BYTES = 64 << 20

_COMPARE = """
WITH made AS MATERIALIZED (
    SELECT DISTINCT ON ({key}) r.*, jsonb_build_array({key}) AS _headgate_key,
           jsonb_build_array({columns}) AS _headgate_row
    FROM jsonb_populate_recordset(NULL::{table}, $1::jsonb) WITH ORDINALITY AS r
    ORDER BY {key}, r.ordinality DESC),
there AS MATERIALIZED (
    SELECT jsonb_build_array({key}) AS key, jsonb_build_array({columns}) AS row
    FROM {table} r WHERE r._headgate_entry = $2),
differing AS (
    SELECT CASE WHEN m._headgate_key IS NULL THEN 'gone' WHEN t.key IS NOT NULL THEN 'other'
                WHEN EXISTS (SELECT FROM {table} r WHERE {match}) THEN 'overwritten'
                ELSE 'new' END AS what,
           coalesce(m._headgate_key, t.key) AS key
    FROM made m FULL JOIN there t ON t.key = m._headgate_key
    WHERE m._headgate_row IS DISTINCT FROM t.row)
SELECT b.what, count(*) AS rows, (array_agg(b.key::text ORDER BY b.key))[1] AS first
FROM differing b GROUP BY b.what ORDER BY b.what
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """So many rows are `other`, `new` or `gone`; or `overwritten` by a newer event of another
    object, which is as it should be. `first` is the key of one of them.
    """

    what: str
    rows: int
    first: str


async def compare(
    db: Database, table: Table, entry: int, rows: str, added: Sequence[str]
) -> list[Difference]:
    """What differs between these rows, a JSON array, and those that a publication owns."""
    key = [_quote(name) for name in table.key]
    columns = [_quote(name) for name in [*(c.name for c in table.columns), *added]]
    sql = _COMPARE.format(
        table=".".join(_quote(part) for part in (table.schema, table.name) if part is not None),
        key=", ".join(f"r.{name}" for name in key),
        columns=", ".join(f"r.{name}" for name in columns),
        match=" AND ".join(f"r.{name} = m.{name}" for name in key),
    )
    found = await db.fetch(sql, rows, entry)
    return [Difference(r["what"], r["rows"], r["first"]) for r in found]


def _quote(identifier: str) -> str:
    if not IDENTIFIER.fullmatch(identifier):
        raise ValueError(f"not an identifier: {identifier!r}")
    return f'"{identifier}"'
