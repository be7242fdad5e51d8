"""What is read of a request before the app sees it: its key, its caller, its body."""

from __future__ import annotations

import hashlib
from typing import Any

from .kept import Message, Receive, Scope
from .refusal import Refusal

KEY = b"idempotency-key"
KEY_CHARACTERS = 255


class Disconnected(Exception):
    """The client went away before its request was whole."""


def key_of(scope: Scope) -> str | None:
    """The Idempotency-Key; a quoted one (a structured field) is the same as the bare one."""
    given = [value for name, value in scope["headers"] if name.lower() == KEY]
    if not given:
        return None
    if len(given) > 1:
        raise Refusal("idempotency_key_refused", "There are several Idempotency-Key headers")
    text = given[0].decode("latin-1").strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    if not 0 < len(text) <= KEY_CHARACTERS or not (text.isascii() and text.isprintable()):
        raise Refusal("idempotency_key_refused")
    return text


def by_authorization(scope: Scope) -> str:
    """Who calls: the digest of the Authorization header, or "anonymous"."""
    given = b"\0".join(
        value for name, value in scope["headers"] if name.lower() == b"authorization"
    )
    return hashlib.sha256(given).hexdigest() if given else "anonymous"


def fingerprint(scope: Scope, body: bytes) -> dict[str, Any]:
    """What must be the same when the key comes again."""
    return {
        "method": scope["method"],
        "path": scope["path"],
        "query": scope.get("query_string", b"").decode("latin-1"),
        "body": hashlib.sha256(body).hexdigest(),
    }


async def read_body(scope: Scope, receive: Receive, limit_bytes: int) -> bytes:
    """The whole body. Raises `Refusal` when it is larger than the limit, `Disconnected`."""
    announced = [value for name, value in scope["headers"] if name.lower() == b"content-length"]
    if announced and announced[0].isdigit() and int(announced[0]) > limit_bytes:
        raise _too_large(limit_bytes)
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > limit_bytes:
            raise _too_large(limit_bytes)
    return bytes(body)


def _too_large(limit_bytes: int) -> Refusal:
    return Refusal("body_too_large", f"Up to {limit_bytes} bytes are taken")


def again(body: bytes, receive: Receive) -> Receive:
    """The body that was read, once more, for the app; then what the server says."""
    read = False

    async def receive_again() -> Message:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again
