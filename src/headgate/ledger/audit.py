"""The audit: are the ledger's promises kept by what is in its tables?

It reads one snapshot in one read-only transaction, a page at a time, so it may run beside workers
and needs the same memory for a thousand entries as for a million.

    audit_chain      the order of the journal: no gaps, nothing altered
    audit_entry      each entry's life: one state, a path of the machine, fences that only rise
    audit_tables     what foreign keys would have kept, leases, counters
    audit_watermark  what is late was passed by a watermark
    audit_flow       figures that were added up are those of journal and tally
    audit_rows       declared rows belong to what is published now
    audit_items      items of the catalog are those of what is published now
    audit_operation  operations: their journals are whole, and their rows agree with them

What needs the bytes is in `audit_objects`, and is put together with a store by the runtime.
"""

from __future__ import annotations

from dataclasses import replace

from headgate.pg import Database, Link, queries

from . import (
    audit_chain,
    audit_entry,
    audit_flow,
    audit_items,
    audit_operation,
    audit_rows,
    audit_tables,
    audit_watermark,
)
from .finding import Findings, Progress, no_progress

Q = queries.load(__file__)


async def audit(db: Database, *, deep: bool = False, progress: Progress = no_progress) -> Findings:
    """Hold the ledger against its promises. `deep` also recomputes every key and inline digest."""
    findings = Findings()
    async with db.transaction() as link:
        await link.execute(Q.snapshot)
        sizes = await link.fetchrow(Q.sizes)
        assert sizes is not None
        await link.fetch(Q.by_index)
        await audit_chain.check(link, findings, sizes["commits"], progress)
        await audit_entry.check(link, findings, sizes["entries"], deep, progress)
        await audit_items.check(link, findings, progress)
        await audit_operation.check(link, findings, sizes["operations"], progress)
        await link.fetch(Q.by_table)
        await audit_chain.check_uncommitted(link, findings)
        await audit_tables.check(link, findings, progress)
        await audit_watermark.check(link, findings, progress)
        await audit_flow.check(link, findings, progress)
        await audit_rows.check(link, findings, progress)
        await audit_operation.check_tables(link, findings)
        await _name_uris(link, findings)
    return findings


async def _name_uris(link: Link, findings: Findings) -> None:
    nameless = {v.entry for v in findings.violations if v.entry is not None and v.uri is None}
    if nameless:
        uris = {r["id"]: r["uri"] for r in await link.fetch(Q.uris, sorted(nameless))}
        findings.violations = [
            v if v.entry is None or v.uri is not None else replace(v, uri=uris.get(v.entry))
            for v in findings.violations
        ]
