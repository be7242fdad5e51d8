"""Answers as they are stored: status, headers, body. A repeat gets them again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

import orjson

from headgate.operations.codec import Codec

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

REPLAYED = (b"idempotent-replayed", b"true")
# Those of one connection, one moment or one browser mean nothing to who asks again.
NOT_KEPT = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-connection", b"te", b"trailer",
        b"transfer-encoding", b"upgrade", b"date", b"server", b"set-cookie",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer. Without a `body`, `why` says why it was not kept."""

    status: int
    headers: Headers
    body: bytes | None
    why: str = ""


def kept_headers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Those that are stored."""
    return [(bytes(n), bytes(v)) for n, v in headers if bytes(n).lower() not in NOT_KEPT]


def _dumps(kept: Kept) -> bytes:
    pairs = [[n.decode("latin-1"), v.decode("latin-1")] for n, v in kept.headers]
    head = {"status": kept.status, "headers": pairs, "why": kept.why}
    return orjson.dumps(head) + b"\n" + (kept.body or b"")


def _loads(data: bytes) -> Kept:
    first, _, body = data.partition(b"\n")
    head = orjson.loads(first)
    pairs = [(n.encode("latin-1"), v.encode("latin-1")) for n, v in head["headers"]]
    return Kept(head["status"], pairs, None if head["why"] else body, head["why"])


CODEC = Codec("http-answer", _dumps, _loads)


async def give(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """A whole answer."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
