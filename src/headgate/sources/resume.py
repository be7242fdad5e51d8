"""Reading a body to its end, though the connection breaks.

A body that was cut goes on where it stopped (`Range`), but only as the same version: the server
must have given a strong ETag, and must give it again (`If-Range`). Otherwise the two halves could
be of two versions, and the reading begins anew with the next attempt.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack

from headgate.errors import ObjectChanged, Unavailable
from headgate.model.secret import Secret
from headgate.net.decode import Decoder
from headgate.net.http import Answer, Client, Limits, shown

from .validator import strong_tag

PIECE_BYTES = 1 << 18
# In a row, without a byte of progress.
TRIES = 5
LONGEST_PAUSE_SECONDS = 10.0
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)", re.ASCII)


class Reading:
    """One body, on the event loop of its client. `chunk` is called until it returns nothing."""

    def __init__(
        self, client: Client, url: str, headers: Mapping[str, str | Secret], limits: Limits
    ) -> None:
        self._client = client
        self._url = url
        self._headers = headers
        self._limits = limits
        self._open = AsyncExitStack()
        self._pieces: AsyncGenerator[bytes] | None = None
        self._decoder: Decoder | None = None
        self._tag: str | None = None
        self._encoding: str | None = None
        self._at = 0  # of the body as it is sent, packed or not
        self._tries = 0

    async def chunk(self) -> bytes:
        """The next bytes, never more than twice `PIECE_BYTES`; none at the end."""
        gathered = bytearray()
        while len(gathered) < PIECE_BYTES:
            try:
                if self._pieces is None:
                    await self._ask()
                    continue
                piece = await anext(self._pieces, b"")
            except Unavailable as error:
                await self._after(error)
                continue
            if not piece:
                self._finish()
                break
            gathered += piece
        return bytes(gathered)

    async def close(self) -> None:
        """Let go of the connection, read to its end or not."""
        if self._pieces is not None:
            await self._pieces.aclose()
        await self._open.aclose()

    async def _ask(self) -> None:
        resumed = self._decoder is not None
        headers = dict(self._headers)
        if resumed and self._tag is not None:
            headers |= {"Range": f"bytes={self._at}-", "If-Range": self._tag}
        asking = self._client.ask(self._url, headers=headers, trusted=True, limits=self._limits)
        answer = await self._open.enter_async_context(asking)
        skip = self._check_same(answer) if resumed else 0
        if not resumed:
            answer.expect()
            self._tag = strong_tag(answer.headers.get("ETag", "").strip())
            self._encoding = answer.headers.get("Content-Encoding")
            self._decoder = answer.decoder()
        self._pieces = self._counted(answer, skip)

    def _check_same(self, answer: Answer) -> int:
        """How much of this answer we have already. Raises unless it is the same version."""
        if answer.status in (404, 410, 412, 416):
            raise ObjectChanged(f"{shown(self._url)} changed while it was read")
        answer.expect()
        tag = strong_tag(answer.headers.get("ETag", "").strip())
        if tag != self._tag or answer.headers.get("Content-Encoding") != self._encoding:
            raise ObjectChanged(f"{shown(self._url)} changed while it was read")
        if answer.status != 206:
            return self._at  # the same bytes again, from the beginning
        said = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if said is None or int(said[1]) != self._at:
            raise ObjectChanged(
                f"{shown(self._url)} answered with another range than was asked for"
            )
        return 0

    async def _counted(self, answer: Answer, skip: int) -> AsyncGenerator[bytes]:
        """The pieces, none of them large; `_at` follows what was sent."""
        assert self._decoder is not None
        start = self._at - skip
        async for data in answer.raw():
            fresh = data[max(skip - (answer.received - len(data)), 0) :]
            if not fresh:
                continue
            self._at = start + answer.received
            self._tries = 0
            answer.refuse_more_than(self._limits.body_bytes, self._at)
            for piece in self._decoder.feed(fresh):
                for cut in range(0, len(piece), PIECE_BYTES):
                    yield piece[cut : cut + PIECE_BYTES]

    async def _after(self, error: Unavailable) -> None:
        """The connection broke: go on if that is safe, otherwise let the attempt fail."""
        await self._open.aclose()
        self._open, self._pieces = AsyncExitStack(), None
        self._tries += 1
        if self._tag is None or self._tries > TRIES:
            raise error
        wait = error.delay_seconds if error.delay_seconds is not None else 0.1 * 2**self._tries
        if wait > LONGEST_PAUSE_SECONDS:
            raise error
        await asyncio.sleep(wait)

    def _finish(self) -> None:
        if self._decoder is not None:
            self._decoder.finish()
