"""Tokens: who may ask. A token is `hg_`, an id, and 32 random bytes; the ledger has their hash."""

from __future__ import annotations

import getpass
import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headgate.errors import UsageError
from headgate.pg import Database, queries
from headgate.pg.driver import Record

Q = queries.load(__file__)

# What a token may be for.
SCOPES = {
    "metrics": "read /metrics and /readyz",
    "read": "read what became of a request, the description of the API, and all of the catalog",
}
_TOKEN = re.compile(r"hg_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")
_ID = "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose token it is and what it may do."""

    id: str
    name: str
    scopes: frozenset[str]


async def make(
    db: Database, name: str, scopes: Sequence[str], seconds: float
) -> tuple[str, datetime]:
    """A new token, which nobody can read again, and when it ends."""
    if unknown := sorted(set(scopes) - set(SCOPES)):
        raise UsageError(f"there is no scope {unknown[0]!r}", hint=f"use {', '.join(SCOPES)}")
    if not name.strip() or not scopes or seconds <= 0:
        raise UsageError("a token has a name, a scope and an end")
    id = "".join(secrets.choice(_ID) for _ in range(12))
    token = f"hg_{id}_{secrets.token_urlsafe(32)}"
    ends = await db.fetchval(
        Q.make, id, name.strip(), _hash(token), sorted(set(scopes)), getpass.getuser(), seconds
    )
    return token, ends


async def listed(db: Database) -> list[Record]:
    """All tokens, also those that ended."""
    return await db.fetch(Q.list)


async def revoke(db: Database, id: str) -> bool:
    """End a token now. False when there is none, or it was ended before."""
    return await db.fetchval(Q.revoke, id, getpass.getuser()) is not None


async def holder(db: Database, token: str) -> Holder | None:
    """Who holds this token, if it is good."""
    shaped = _TOKEN.fullmatch(token)
    row = await db.fetchrow(Q.valid, shaped[1]) if shaped else None
    if shaped is None or row is None or not hmac.compare_digest(row["hash"], _hash(token)):
        return None
    return Holder(shaped[1], row["name"], frozenset(row["scopes"]))


def _hash(token: str) -> bytes:
    # 32 random bytes cannot be guessed from a fast hash; a slow one would only slow us down.
    return hashlib.sha256(b"headgate:token:1\0" + token.encode()).digest()
