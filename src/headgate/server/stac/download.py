"""Bytes of the store, whole or in part, in constant memory. They are named by their digest.

What a file says it is was said by whoever made it: a browser gets it as a download, in a sandbox.
"""

from __future__ import annotations

import asyncio
import os
import re
from typing import BinaryIO

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from headgate.errors import ObjectMissing, StoreUnavailable
from headgate.model.facts import BYTES, File
from headgate.model.ports import Store
from headgate.server.doors import RETRY_AFTER_SECONDS, Serving
from headgate.server.problem import Refusal
from headgate.telemetry.log import get_logger

from .answers import headers_of, is_known
from .browsers import is_head
from .reader import Reader

log = get_logger("headgate.serve")

CHUNK_BYTES = 1 << 18
# Each has a file open, and may be as slow as it likes.
AT_ONCE = 200
_TYPE = re.compile(
    r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(\s*;\s*[\w.+-]+=(\"[ !#-\[\]-~]*\"|[\w.+-]+))*", re.ASCII
)
_RANGE = re.compile(r"bytes=(\d*)-(\d*)", re.ASCII)


async def send(request: Request, reader: Reader, store: str, file: File) -> Response:
    """The bytes of a file, or the part of them that is asked for. Raises `Refusal`."""
    etag = f'"sha256:{file.digest}"'
    headers = headers_of(reader, etag) | {
        "Accept-Ranges": "bytes",
        "Content-Disposition": "attachment",
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    if is_known(request, etag):
        return Response(status_code=304, headers=headers)
    stream, size = await _open(reader.serving.store(store), file)
    try:
        first, last = _part(request, etag, size)
        whole = (first, last) == (0, size - 1)
        if not whole:
            headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        headers["Content-Length"] = str(last - first + 1)
        headers["Content-Type"] = file.media_type if _TYPE.fullmatch(file.media_type) else BYTES
        return _Download(reader.serving, stream, first, 200 if whole else 206, headers)
    except BaseException:
        await asyncio.to_thread(stream.close)
        raise


class _Download(Response):
    """Sends what its headers say, and closes the stream whatever becomes of that."""

    def __init__(
        self, serving: Serving, stream: BinaryIO, first: int, status: int, headers: dict[str, str]
    ) -> None:
        if serving.downloads >= AT_ONCE:
            raise Refusal("too_many_requests", retry_after=RETRY_AFTER_SECONDS)
        super().__init__(None, status, headers)
        serving.downloads += 1
        self._serving = serving
        self._stream = stream
        self._first = first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            start = {"type": "http.response.start", "status": self.status_code}
            await send({**start, "headers": self.raw_headers})
            if not is_head(scope):
                await self._send_bytes(send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._serving.downloads -= 1
            await asyncio.shield(asyncio.to_thread(self._stream.close))

    async def _send_bytes(self, send: Send) -> None:
        left = int(self.headers["content-length"])
        await asyncio.to_thread(self._stream.seek, self._first)
        while left:
            chunk = await asyncio.to_thread(self._stream.read, min(CHUNK_BYTES, left))
            if not chunk:  # shorter than it was: the answer must not look whole
                raise OSError("the file ended before its size")
            left -= len(chunk)
            await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _open(store: Store, file: File) -> tuple[BinaryIO, int]:
    def now() -> tuple[BinaryIO, int]:
        stream = store.open(bytes.fromhex(file.digest))
        return stream, stream.seek(0, os.SEEK_END)

    try:
        return await asyncio.to_thread(now)
    except ObjectMissing as error:
        raise Refusal("asset_gone") from error
    except StoreUnavailable as error:
        log.warning("a store is away", store=store.uri, why=str(error))
        raise Refusal("store_unavailable", retry_after=RETRY_AFTER_SECONDS) from error


def _part(request: Request, etag: str, size: int) -> tuple[int, int]:
    """The first and the last byte. Several parts at once, or nonsense, are answered with all."""
    said = _RANGE.fullmatch(request.headers.get("range", ""))
    if said is None or request.headers.get("if-range", etag) != etag or not any(said.groups()):
        return 0, size - 1
    first, last = (int(n[:18]) if n else None for n in said.groups())
    if first is None:
        first, last = max(0, size - (last or 0)), size - 1
    elif last is not None and last < first:
        return 0, size - 1
    if first >= size:
        raise Refusal("range_outside", headers={"Content-Range": f"bytes */{size}"})
    return first, size - 1 if last is None else min(last, size - 1)
