"""Results that are too large for their row: by digest, in the store that the operation names."""

from __future__ import annotations

import asyncio
import hashlib

from headgate.errors import EffectRefused, ObjectMissing
from headgate.ledger.deferred import Deferred
from headgate.ledger.operation import Kept
from headgate.pg import Database


async def keep(
    db: Database, store: str | None, data: bytes, name: str, limit: int
) -> tuple[str, Deferred]:
    """Make the bytes durable under their digest, before the row that names it: in which store.

    They are only staged until the statement that comes with it is sent, in the transaction that
    records the operation. Without it they are collected after the grace period.
    """
    if store is None:
        raise EffectRefused(
            f"operation {name!r}: its result has {len(data)} bytes, more than the {limit} of a row",
            reason="result_too_large",
            hint='Return less, or say where large results go: store="lake/" or a bucket.',
        )

    from headgate.ledger.object import stage_result
    from headgate.stores import open_store

    opened = await asyncio.to_thread(open_store, store)
    digest = hashlib.sha256(data).digest()
    keeping, known = await stage_result(db, opened.uri, digest, len(data))

    def write() -> None:
        if known and opened.has(digest):
            return
        spool = opened.spool()
        try:
            spool.write(data)
            opened.keep(spool)
        finally:
            spool.discard()

    await asyncio.to_thread(write)
    return opened.uri, keeping


async def fetch(kept: Kept) -> bytes:
    """The bytes of a stored result, from its row, or from its store if they are what was kept."""
    if kept.data is not None:
        return kept.data
    assert kept.store is not None

    def read() -> bytes:
        from headgate.stores import open_store

        with open_store(kept.store or "").open(kept.digest) as stream:
            return stream.read()

    data = await asyncio.to_thread(read)
    if hashlib.sha256(data).digest() != kept.digest:
        raise ObjectMissing(
            f"the result sha256:{kept.digest.hex()} in {kept.store} is not what was kept",
            reason="result_damaged",
        )
    return data
