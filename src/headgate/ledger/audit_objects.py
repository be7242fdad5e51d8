"""What the ledger says is in a store: who refers to which bytes, a page at a time.

Publications are never withdrawn and kept objects never condemned, so pages need no common snapshot.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

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
            for entry, uri, name, digest, state, size, store in rows:
                if name is None:
                    continue
                what = f"its {whose} {name}"
                if digest is None or state is None:
                    shown = "no digest" if digest is None else digest.hex()
                    text = f"{what} ({shown}) is not known to be in any store"
                    findings.found("object_unknown", text, entry=entry, uri=uri)
                    continue
                if state != "kept":
                    text = f"{what} ({digest.hex()}) is {state} in {store}, not kept"
                    findings.found("object_not_kept", text, entry=entry, uri=uri)
                page.append(Reference(entry, uri, what, digest, size, store))
            findings.count("objects", len(page))
            yield page


async def _page(db: Database, query: str, after: int) -> list[Record]:
    async with db.transaction() as link:
        await link.fetch(Q.by_index)
        return await link.fetch(query, after, PAGE)


async def chain_at(db: Database, pos: int) -> bytes | None:
    """The chain as it is after commit `pos`; None when there is no such commit."""
    return await db.fetchval(Q.chain_at, pos)
