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
    """Bytes that an entry refers to, where the ledger says they are."""

    entry: int
    uri: str | None
    name: str
    digest: bytes
    size: int
    store: str


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
    gone = await _collected(db, references)
    return [r for r in references if not gone.get((r.entry, r.digest), (None, False))[1]]


async def _collected(
    db: Database, asked: Sequence[Reference]
) -> dict[tuple[int, bytes], tuple[datetime, bool]]:
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
