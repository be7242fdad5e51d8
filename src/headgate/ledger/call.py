"""Named steps outside Postgres, memoised (C4.5).

A finished call is never made again; an unfinished one is made again with the same key. Whether the
other side honours the key is the other side's promise, not ours.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.pg import Database, queries

Q = queries.load(__file__)


@dataclass(frozen=True, slots=True)
class Call:
    """A named step of one entry. `result` is set when it was done before."""

    name: str
    key: str
    done: bool
    result: bytes | None


def key_of(change_key: bytes, name: str) -> str:
    """The idempotency key of a step: the same on every attempt."""
    return hashlib.sha256(b"headgate:call:1\0" + change_key + name.encode()).hexdigest()


async def begin(db: Database, entry: int, change_key: bytes, name: str) -> Call:
    """Durable before the call is made."""
    key = bytes.fromhex(key_of(change_key, name))
    row = await db.fetchrow(Q.begin, entry, name, key)
    assert row is not None
    reached(Point.BEFORE_CALL)
    return Call(name, row["key"].hex(), row["done"] is not None, row["result"])


async def done(db: Database, entry: int, name: str, result: bytes) -> None:
    """The call was made and this is what it answered."""
    await db.execute(Q.done, entry, name, result)
    reached(Point.AFTER_CALL)


async def undone(db: Database, entry: int, name: str) -> None:
    """The call was undone; another attempt would make it again."""
    await db.execute(Q.undone, entry, name)


async def to_undo(db: Database, entry: int) -> list[Call]:
    """Calls that were made for this entry, the last one first."""
    rows = await db.fetch(Q.to_undo, entry)
    return [Call(r["name"], r["key"].hex(), True, r["result"]) for r in rows]
