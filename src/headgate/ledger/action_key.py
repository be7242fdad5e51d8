"""Keys of actions: whoever heard no answer asks again under the same key, and gets the first one.

The key, the answer and the action are one commit. A crash before it leaves none of them; after it,
all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from headgate.pg import Database, Link, queries

Q = queries.load(__file__)

KEEP_DAYS = 7


@dataclass(frozen=True, slots=True)
class Earlier:
    """What a key was used for before."""

    same: bool
    answer: Mapping[str, Any]


async def claim(link: Link, who: str, key: str, payload: bytes) -> Earlier | None:
    """Use a key, inside the transaction of the action. What it was used for, if it was."""
    if await link.fetchval(Q.claim, who, key, payload):
        return None
    row = await link.fetchrow(Q.earlier, who, key)
    assert row is not None, "keys go after days, not while somebody waits"
    return Earlier(row["payload"] == payload, orjson.loads(row["answer"]))


async def keep(link: Link, who: str, key: str, answer: Mapping[str, Any]) -> None:
    """Keep the answer with the key."""
    await link.execute(Q.keep, who, key, orjson.dumps(answer).decode())


async def forget(db: Database) -> None:
    """Keys that nobody will ask about again."""
    await db.execute(Q.forget, KEEP_DAYS)
