"""Requests: a call from outside counts once, and is durable before it is answered.

The id of a call is used up in the transaction that admits what it brought. Whoever dies between
that commit and the answer leaves a row behind, and the sender's next try is told how the first one
ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import orjson

from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.model.envelope import Envelope
from headgate.model.identity import change_key
from headgate.pg import Database, Link, queries

from . import inbox

Q = queries.load(__file__)

PREVIEW_SECONDS = 1800.0  # as long as a webhook is retried
Uncitable = Literal["preview_unknown", "preview_of_other", "preview_used", "preview_stale"]


@dataclass(frozen=True, slots=True)
class Request:
    """A call that was believed, as it will be stored. Digests only; the proof is not among them."""

    id: str
    scheme: str
    key_id: str
    payload: bytes
    envelope: bytes
    proof: bytes
    signed: bytes | None = None
    actor: str | None = None
    because: str | None = None


@dataclass(frozen=True, slots=True)
class First:
    """The first use of an id: how it was answered, and what has become of it since."""

    id: str
    at: datetime
    verdict: str
    answer: Mapping[str, Any]
    same_payload: bool
    entry: int | None
    status: str | None
    reason: str | None
    version: int | None


@dataclass(frozen=True, slots=True)
class Head:
    """What readers see at a uri. `data` is None where the bytes are in the store."""

    entry: int
    version: int
    content: bytes
    data: bytes | None


class NotCitable(Exception):
    """The preview a call cites cannot stand for it."""

    def __init__(self, why: Uncitable) -> None:
        super().__init__(why)
        self.why: Uncitable = why


async def admit(
    db: Database,
    to: inbox.Registered,
    request: Request,
    source: str,
    envelope: Envelope,
    answer: Mapping[str, Any],
    *,
    cites: bytes | None = None,
) -> tuple[First | None, inbox.Receipt | None]:
    """Use up the id and admit the envelope, in one transaction; or the first use of that id.

    Raises `NotCitable` when `cites` names no preview of these bytes that is still true.
    """
    key = change_key(envelope)
    async with db.transaction() as link:
        first = await _enter(link, to.pipeline, request, "admitted", answer, key=key, cites=cites)
        receipt = None
        if first is None:
            if cites is not None:
                await _cite(link, to.pipeline, request, cites)
            receipt = await inbox.admit(link, to, source, [envelope])
        reached(Point.BEFORE_RECEIVE)
    reached(Point.AFTER_RECEIVE)
    return first, receipt


async def preview(
    db: Database,
    to: inbox.Registered,
    request: Request,
    uri: str,
    head: int | None,
    digest: bytes,
    answer: Mapping[str, Any],
) -> First | None:
    """Remember what a dry run showed, so that it can be cited; or the first use of the id."""
    async with db.transaction() as link:
        first = await _enter(link, to.pipeline, request, "previewed", answer, cites=digest)
        if first is None:
            await link.execute(Q.remember, to.pipeline, digest, request.payload, uri, head)
        return first


async def find(
    db: Database, pipeline: int, id: str, payload: bytes = b"", signed: bytes | None = None
) -> First | None:
    """The first use of this id, if there was one."""
    async with db.connection() as link:
        return await _first(link, pipeline, id, payload, signed)


async def head(db: Database, pipeline: int, uri: str) -> Head | None:
    """What readers see at this uri now."""
    row = await db.fetchrow(Q.head, pipeline, uri)
    return None if row is None else Head(row["entry"], row["version"], row["content"], row["data"])


async def _enter(
    link: Link,
    pipeline: int,
    request: Request,
    verdict: str,
    answer: Mapping[str, Any],
    *,
    key: bytes | None = None,
    cites: bytes | None = None,
) -> First | None:
    r = request
    link.xid = await link.fetchval(
        Q.enter,
        pipeline,
        r.id,
        r.scheme,
        r.key_id,
        verdict,
        r.payload,
        r.envelope,
        r.proof,
        r.signed,
        r.actor,
        r.because,
        key,
        cites,
        orjson.dumps(answer).decode(),
    )
    if link.xid is not None:
        return None
    first = await _first(link, pipeline, r.id, r.payload, r.signed)
    assert first is not None, "the id was used, so there is a row"
    if first.same_payload:
        await link.execute(Q.again, pipeline, first.id)
    else:
        await link.execute(Q.differs, pipeline, first.id, r.payload)
    return first


async def _first(
    link: Link, pipeline: int, id: str, payload: bytes, signed: bytes | None
) -> First | None:
    row = await link.fetchrow(Q.first, pipeline, id, signed)
    if row is None:
        return None
    return First(
        row["id"],
        row["at"],
        row["verdict"],
        orjson.loads(row["answer"]),
        row["payload"] == payload,
        row["entry"],
        row["status"],
        row["reason"],
        row["version"],
    )


async def _cite(link: Link, pipeline: int, request: Request, digest: bytes) -> None:
    row = await link.fetchrow(Q.cited, pipeline, digest, PREVIEW_SECONDS)
    if row is None:
        raise NotCitable("preview_unknown")
    if row["payload"] != request.payload:
        raise NotCitable("preview_of_other")
    if row["used_by"] is not None:
        raise NotCitable("preview_used")
    if row["old"] or row["stale"]:
        raise NotCitable("preview_stale")
    await link.execute(Q.cite, pipeline, digest, request.id)
