"""The anchor: the head of the chain, kept in the stores too, so that a truncated ledger shows."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from headgate.pg import Database, queries

Q = queries.load(__file__)


@dataclass(frozen=True, slots=True)
class Head:
    """The last commit row of a ledger."""

    ledger: str
    pos: int
    chain: bytes

    def document(self) -> bytes:
        return orjson.dumps({"ledger": self.ledger, "pos": self.pos, "chain": self.chain.hex()})


def name(ledger: str) -> str:
    """Where a ledger's anchor lies in a store."""
    return f"ledger/{ledger}.anchor.json"


async def head(db: Database) -> Head | None:
    """The head of the chain, or None when nothing was committed yet."""
    row = await db.fetchrow(Q.head)
    return None if row is None else Head(str(row["ledger"]), row["pos"], row["chain"])


async def chain_at(db: Database, position: int) -> bytes | None:
    """The chain as it stood after a commit; None when there is no such commit."""
    return await db.fetchval(Q.chain_at, position)


async def stores(db: Database) -> list[str]:
    """The uris of all stores that pipelines of this ledger use."""
    return [r["uri"] for r in await db.fetch(Q.stores)]


async def identity(db: Database) -> str:
    """Which ledger this is."""
    return str(await db.fetchval(Q.identity))
