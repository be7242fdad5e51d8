"""The app's answer, held back until its record is committed.

Who gets an answer may rely on it: a repeat gets the same. So the last piece of it is sent after the
commit, and what the app does after that (background tasks) comes after the commit too. An answer
without a length, or one that is too large, is passed through piece by piece; only its last piece
waits, and a record without the body is committed.

An answer that is not to be stored (a 503) takes everything back: `op.tx` is rolled back, the key is
free, and a repeat runs again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

from headgate.errors import HeadgateError
from headgate.library.operation import Operation

from .kept import Headers, Kept, Message, Send, kept_headers

STORED = b"idempotency-stored"


class Released(HeadgateError):
    """Why an operation was taken back though its app raised nothing. Only the journal sees it."""

    reason = "answer_released"


class Answer:
    """What the app sends, on its way to the client. `failure` is why it could not be recorded."""

    def __init__(
        self,
        send: Send,
        op: Operation,
        open_operation: AsyncExitStack,
        *,
        stores: Callable[[int], bool],
        limit_bytes: int,
    ) -> None:
        self.failure: Exception | None = None
        self.begun = False  # something was sent, so nothing else can be said any more
        self.whole = False
        self._send = send
        self._op = op
        self._open_operation = open_operation
        self._stores = stores
        self._limit_bytes = limit_bytes
        self._start: Message = {}
        self._body = bytearray()
        self._why = ""

    async def send(self, message: Message) -> None:
        """ASGI's `send`, for the app."""
        if self.failure is not None:
            raise self.failure
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body" and not self.whole:
            await self._piece(message)
        else:
            await self._send(message)

    async def _piece(self, message: Message) -> None:
        last = not message.get("more_body", False)
        if not self.begun:
            self._body += message.get("body", b"")
            self._why = self._why_passed(last)
            if self._why and not last:
                await self._begin()
                await self._send({**message, "body": bytes(self._body)})
                return
        elif not last:
            await self._send(message)
            return
        if last:
            await self._end(message)

    def _why_passed(self, last: bool) -> str:
        """Why the body is not kept, if it is not."""
        if len(self._body) > self._limit_bytes:
            return "too-large"
        if last:
            return ""
        length = dict(self._headers()).get(b"content-length", b"")
        if not length.isdigit():
            return "streaming"
        return "too-large" if int(length) > self._limit_bytes else ""

    async def _end(self, message: Message) -> None:
        status = self._start["status"]
        try:
            if self._stores(status):
                body = None if self._why else bytes(self._body)
                headers = kept_headers(self._headers())
                self._op.result = Kept(status, headers, body, self._why)
                # Who goes away now, goes without the commit: that comes to its end by itself.
                await asyncio.shield(self._open_operation.aclose())
            else:
                await self.release(f"answered with {status}")
        except Exception as error:
            self.failure = error
            raise
        self.whole = True
        if self.begun:
            await self._send(message)
        else:
            await self._begin()
            await self._send({**message, "body": bytes(self._body)})
        self._body.clear()

    async def release(self, why: str) -> None:
        """Nothing of this request is kept; the next one with its key runs again."""
        error = Released(why)
        await self._open_operation.__aexit__(Released, error, None)

    async def _begin(self) -> None:
        why = self._why if self._stores(self._start["status"]) else "status"
        said = f"no; {why}" if why else "yes"
        self.begun = True
        await self._send({**self._start, "headers": [*self._headers(), (STORED, said.encode())]})

    def _headers(self) -> Headers:
        return [(bytes(n).lower(), bytes(v)) for n, v in self._start.get("headers", ())]
