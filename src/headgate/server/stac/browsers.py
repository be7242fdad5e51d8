"""HEAD, OPTIONS, and pages of other origins, for everything under `/stac`.

A page that a browser shows may read what its origin is allowed to, and only read it: no cookies are
used here, and a token is sent by whoever has one. By default no origin is allowed: a server on this
machine answers whoever sits here, and so would it answer every page they look at.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ROOT = "/stac"
METHODS = "GET, HEAD"
_HEAD = "headgate.head"
_READABLE = "ETag, Content-Length, Content-Range, Accept-Ranges, Link"


def is_head(scope: Scope) -> bool:
    """Is only the head of the answer wanted?"""
    return bool(scope.get(_HEAD))


class Browsers:
    """Stands before the application; what is not under `/stac` passes untouched."""

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        self._app = app
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not f"{scope['path']}/".startswith(f"{ROOT}/"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        allowed = self._allowed(headers.get("origin"))
        if scope["method"] == "OPTIONS":
            await self._preflight(allowed, "access-control-request-method" in headers, send)
            return
        head = scope["method"] == "HEAD"
        if head:
            scope = {**scope, "method": "GET", _HEAD: True}

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start" and self._origins:
                told = MutableHeaders(scope=message)
                told.add_vary_header("Origin")
                if allowed is not None:
                    told["Access-Control-Allow-Origin"] = allowed
                    told["Access-Control-Expose-Headers"] = _READABLE
            elif head and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app(scope, receive, answer)

    def _allowed(self, origin: str | None) -> str | None:
        if origin is None:
            return None
        if "*" in self._origins:
            return "*"
        return origin if origin in self._origins else None

    async def _preflight(self, allowed: str | None, asked: bool, send: Send) -> None:
        headers = MutableHeaders({"Allow": f"{METHODS}, OPTIONS", "Content-Length": "0"})
        if self._origins:
            headers["Vary"] = "Origin"
        if allowed is not None and asked:
            headers["Access-Control-Allow-Origin"] = allowed
            headers["Access-Control-Allow-Methods"] = METHODS
            headers["Access-Control-Allow-Headers"] = "Authorization, If-None-Match, Range"
            headers["Access-Control-Max-Age"] = "600"
        await send({"type": "http.response.start", "status": 204, "headers": headers.raw})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
