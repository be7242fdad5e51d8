"""Tokens: who may ask. A token is `hg_`, an id, and 32 random bytes; the ledger has their hash.

There are three kinds. An `api` token is carried by programs. A `session` is held by the cookie of a
browser, and ends with the token that opened it. A `ticket` opens a session, once, within minutes:
it is in the link that `headgate console` prints.
"""

from __future__ import annotations

import getpass
import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from headgate.errors import UsageError
from headgate.model.role import ROLES, Principal, Role
from headgate.pg import Database, Link, queries
from headgate.pg.driver import Record

Q = queries.load(__file__)

Kind = Literal["api", "session", "ticket"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SESSION_SECONDS = 12 * 3600.0
TICKET_SECONDS = 120.0
PREFIX = "hg_"
NAME_CHARACTERS = 100
_TOKEN = re.compile(r"hg_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")
_ID = "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class Made:
    """A new token: its text, which nobody can read again, and when it ends."""

    id: str
    token: str
    expires_at: datetime


async def make(
    db: Database | Link,
    name: str,
    role: str,
    seconds: float,
    *,
    kind: Kind = "api",
    pipelines: Collection[str] | None = None,
    parent: str | None = None,
    actor: str = "",
    because: str = "",
) -> Made:
    """Make a token. Raises `UsageError` for what cannot be one. A reason that is given is kept."""
    if role not in ROLES:
        raise UsageError(f"there is no role {role!r}", hint=f"use {', '.join(ROLES)}")
    if not name.strip() or seconds <= 0 or (pipelines is not None and not pipelines):
        raise UsageError("a token has a name, a role and an end", hint="say who or what it is for")
    if not name.isprintable() or len(name) > NAME_CHARACTERS:
        raise UsageError(
            "the name of a token is one line that can be printed",
            hint=f"use at most {NAME_CHARACTERS} characters",
        )
    id = "".join(secrets.choice(_ID) for _ in range(12))
    token = f"{PREFIX}{id}_{secrets.token_urlsafe(32)}"
    limited = None if pipelines is None else sorted(set(pipelines))
    who = actor or getpass.getuser()
    ends = await db.fetchval(
        Q.make, id, kind, name.strip(), _hash(token), role, limited, parent, who, seconds
    )
    if because:
        await db.execute(Q.act, who, f"make token {name.strip()} ({role})", because)
    return Made(id, token, ends)


async def listed(db: Database, kinds: Sequence[Kind] = ("api",)) -> list[Record]:
    """Tokens of these kinds, also those that ended."""
    return await db.fetch(Q.list, list(kinds))


async def find(db: Database | Link, id: str) -> Record | None:
    """The token of this id, good or not."""
    return await db.fetchrow(Q.find, id)


async def revoke(
    db: Database | Link, id: str, *, actor: str = "", because: str = ""
) -> Record | None:
    """End a token and the sessions it opened now. None when there is none, or it was ended."""
    who = actor or getpass.getuser()
    ended = await db.fetchrow(Q.revoke, id, who)
    if ended is not None and because:
        await db.execute(Q.act, who, f"end token {ended['name']}", because)
    return ended


async def holder(
    db: Database | Link, token: str, kinds: Collection[Kind] = ("api",)
) -> Principal | None:
    """Who holds this token, if it is good and of one of these kinds."""
    shaped = _TOKEN.fullmatch(token)
    row = await db.fetchrow(Q.valid, shaped[1]) if shaped else None
    if shaped is None or row is None or not hmac.compare_digest(row["hash"], _hash(token)):
        return None
    if row["kind"] not in kinds:
        return None
    role: Role = row["role"]
    limited = None if row["pipelines"] is None else frozenset(row["pipelines"])
    how = "session" if row["kind"] == "session" else "token"
    return Principal(row["name"], role, limited, how, shaped[1], row["expires_at"])


async def sign_in(db: Database, token: str) -> tuple[Made, Principal] | None:
    """Open a session with a ticket, which is used up by that, or with an API token."""
    async with db.transaction() as link:
        by = await holder(link, token, ("ticket", "api"))
        if by is None:
            return None
        # A ticket is used up here: of two who bring it at once, the second finds none.
        ticket = await link.fetchval(Q.use, by.id) is not None
        if not ticket and await holder(link, token) is None:
            return None
        await link.execute(Q.forget)
        made = await make(
            link,
            by.name,
            by.role,
            SESSION_SECONDS,
            kind="session",
            pipelines=by.pipelines,
            parent=None if ticket else by.id,
            actor=by.name,
        )
        await link.execute(Q.act, by.name, f"sign in as {by.role}", "opened a session")
    return made, by


def _hash(token: str) -> bytes:
    # 32 random bytes cannot be guessed from a fast hash; a slow one would only slow us down.
    return hashlib.sha256(b"headgate:token:1\0" + token.encode()).digest()
