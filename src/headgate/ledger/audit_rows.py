"""Declared rows: each belongs to a publication that is current.

A table's name goes into SQL here as it does where rows are written: checked, then quoted.
"""

from __future__ import annotations

from headgate.model.rows import IDENTIFIER
from headgate.pg import Link, queries

from .finding import Findings, Progress

Q = queries.load(__file__)

_STRAY = """
SELECT t._headgate_entry AS entry, count(*) AS rows, p.uri, p.successor
FROM {table} t LEFT JOIN headgate.publication p ON p.entry = t._headgate_entry
WHERE t._headgate_entry IS NOT NULL
  AND (p.entry IS NULL OR p.successor IS NOT NULL OR (p.removed AND NOT EXISTS (
        SELECT FROM headgate.journal j WHERE j.entry = p.entry AND j.outcome = 'finalized'
          AND convert_from(j.doc, 'UTF8')::json ->> 'retired' = 'true')))
GROUP BY 1, 3, 4 ORDER BY 1 LIMIT 1001
"""


async def check(link: Link, findings: Findings, progress: Progress) -> None:
    """Look at every table that a pipeline declares rows of now."""
    tables = await link.fetch(Q.declared)
    for done, row in enumerate(tables, 1):
        if row["current"]:
            await _table(link, findings, row["name"])
        else:
            findings.note(f"table {row['name']}: no pipeline declares it any more; not checked")
        progress("rows", done, len(tables))


async def _table(link: Link, findings: Findings, name: str) -> None:
    parts = name.split(".")
    if not all(IDENTIFIER.fullmatch(part) for part in parts):
        findings.note(f"table {name!r}: not a name that Headgate would declare; not checked")
        return
    table = ".".join(f'"{part}"' for part in parts)
    state = await link.fetchrow(Q.readable, table)
    if state is None:
        findings.note(f"table {name}: it is declared and not there; its rows were not checked")
    elif not state["ours"]:
        findings.note(f"table {name}: it has no column _headgate_entry; its rows were not checked")
    elif not state["allowed"]:
        findings.note(f"table {name}: this user may not read it; its rows were not checked")
    else:
        for entry, rows, uri, successor in await link.fetch(_STRAY.format(table=table)):
            if uri is None:
                text = f"{rows} rows of {name} name entry {entry}, which published nothing"
                findings.found("rows_unowned", text, entry=entry)
                continue
            why = f"superseded by entry {successor}" if successor is not None else "removed"
            text = f"{rows} rows of {name} are left of publication {entry}, which is {why}"
            findings.found("rows_left_behind", text, entry=entry, uri=uri)
        findings.count("tables of rows", 1)
