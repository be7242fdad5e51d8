"""What the ledger says is in a store: who refers to which bytes, a page at a time.

Publications are never withdrawn, so pages need no common snapshot. Objects may be collected while
we look: what is missing is asked about once more.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime

from headgate.pg import Database, Record, queries

from .finding import Findings

Q = queries.load(__file__)

PAGE = 2000


@dataclass(frozen=True, slots=True)
class Reference:
    """Bytes that an entry or an operation refers to, where the ledger says they are."""

    entry: int | None
    uri: str | None
    name: str
    digest: bytes
    size: int
    store: str
    operation: int | None = None


async def references(db: Database, findings: Findings) -> AsyncGenerator[list[Reference]]:
    """Pages of what must be in the stores. What the ledger alone shows to be wrong is reported."""
    for query, whose in ((Q.published, "published"), (Q.quarantined, "quarantined")):
        after = 0
        while rows := await _page(db, query, after):
            after = rows[-1]["entry"]
            page: list[Reference] = []
            lacking: list[tuple[Reference, str | None]] = []
            for entry, uri, name, digest, state, size, store in rows:
                if name is None:
                    continue
                r = Reference(entry, uri, f"its {whose} {name}", digest, size, store)
                if digest is None:
                    text = f"{r.name} (no digest) is not known to be in any store"
                    findings.found("object_unknown", text, entry=entry, uri=uri)
                elif state != "kept":
                    lacking.append((r, state))
                else:
                    page.append(r)
            await _lacking(db, findings, lacking)
            findings.count("objects", len(page))
            yield page


async def results(db: Database, findings: Findings) -> AsyncGenerator[list[Reference]]:
    """The same for results of operations that are in a store."""
    after = 0
    while rows := await _page(db, Q.results, after):
        after = rows[-1]["id"]
        page: list[Reference] = []
        for id_, task, key, digest, state, size, store, collected in rows:
            name = f"the result of operation {id_} ({task}, {key.hex()[:12]})"
            at = f"{name} ({digest.hex()})"
            if state == "kept":
                page.append(Reference(None, None, name, digest, size, store, id_))
            elif state is not None:
                findings.found("object_not_kept", f"{at} is {state} in {store}, not kept")
            elif collected is not None:
                text = f"{at} was collected on {collected:%Y-%m-%d}, and is needed"
                findings.found("object_collected", text)
            else:
                findings.found("object_unknown", f"{at} is not known to be in {store}")
        findings.count("objects", len(page))
        yield page


async def _lacking(
    db: Database, findings: Findings, lacking: Sequence[tuple[Reference, str | None]]
) -> None:
    """Report what the ledger says is not there, unless it was collected and could be spared."""
    gone = await _collected(db, [r for r, _ in lacking])
    for r, state in lacking:
        at, spared = gone.get((r.entry, r.digest), (None, False))
        if spared:
            findings.count("collected", 1)
        elif state is not None:
            text = f"{r.name} ({r.digest.hex()}) is {state} in {r.store}, not kept"
            findings.found("object_not_kept", text, entry=r.entry, uri=r.uri)
        elif at is not None:
            text = f"{r.name} ({r.digest.hex()}) was collected on {at:%Y-%m-%d}, and is needed"
            findings.found("object_collected", text, entry=r.entry, uri=r.uri)
        else:
            text = f"{r.name} ({r.digest.hex()}) is not known to be in any store"
            findings.found("object_unknown", text, entry=r.entry, uri=r.uri)


async def missing(db: Database, references: Sequence[Reference]) -> list[Reference]:
    """Of what was not found in the stores: that which was not collected while we looked."""
    published = [r for r in references if r.operation is None]
    gone = await _collected(db, published)
    theirs = [r for r in references if r.operation is not None]
    still = await _still(db, theirs)
    return [
        *(r for r in published if not gone.get((r.entry, r.digest), (None, False))[1]),
        *(r for r in theirs if r.operation in still),
    ]


async def _still(db: Database, asked: Sequence[Reference]) -> set[int]:
    if not asked:
        return set()
    rows = await db.fetch(Q.still, [r.operation for r in asked], [r.digest for r in asked])
    return {r["id"] for r in rows}


async def _collected(
    db: Database, asked: Sequence[Reference]
) -> dict[tuple[int | None, bytes], tuple[datetime, bool]]:
    if not asked:
        return {}
    rows = await db.fetch(Q.collected, [r.entry for r in asked], [r.digest for r in asked])
    return {(r["entry"], r["digest"]): (r["at"], r["spared"]) for r in rows}


async def _page(db: Database, query: str, after: int) -> list[Record]:
    async with db.transaction() as link:
        await link.fetch(Q.by_index)
        return await link.fetch(query, after, PAGE)


async def chain_at(db: Database, pos: int) -> bytes | None:
    """The chain as it is after commit `pos`; None when there is no such commit."""
    return await db.fetchval(Q.chain_at, pos)
