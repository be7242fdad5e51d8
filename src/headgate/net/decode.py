"""Taking the compression off a body that strangers sent: in pieces, with a limit on what comes out.

A few kilobytes may hold gigabytes. What is unpacked is counted against an absolute limit and, after
the first megabytes, against what came in: honest data does not shrink to a two-hundredth.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from headgate.errors import Permanent, SchemaError, Unavailable

PIECE_BYTES = 1 << 18
# Small bodies may be as dense as they like: a page of zeros is no attack.
FREE_BYTES = 16 << 20
_GZIP = 16 + zlib.MAX_WBITS


class Decoder:
    """One body's way out of its `Content-Encoding`."""

    def __init__(self, encoding: str, what: str, *, most_bytes: int, most_ratio: int) -> None:
        named = [name.strip().lower() for name in encoding.split(",") if name.strip()]
        coded = [name for name in named if name != "identity"]
        if len(coded) > 1 or (coded and coded[0] not in ("gzip", "x-gzip", "deflate")):
            raise SchemaError(
                f"{what} came packed as {encoding!r}, which was not asked for",
                reason="content_encoding",
                hint="Ask the server for it unpacked, or packed once with gzip.",
            )
        self._what = what
        self._most_bytes = most_bytes
        self._most_ratio = most_ratio
        self._gzip = bool(coded) and coded[0] != "deflate"
        self._inflate = zlib.decompressobj(_GZIP if self._gzip else zlib.MAX_WBITS)
        self.plain = not coded
        self._in = self._out = self._member_in = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What these bytes unpack to, in pieces."""
        if self.plain:
            if data:
                yield data
            return
        self._in += len(data)
        while data:
            data = self._start(data)
            piece = self._unpack(data)
            self._member_in += len(data)
            data = self._inflate.unconsumed_tail or self._inflate.unused_data
            self._out += len(piece)
            self._refuse_bombs()
            if piece:
                yield piece

    def finish(self) -> None:
        """The body is over. Raises when it ended in the middle."""
        if not self.plain and not self._inflate.eof and self._in:
            raise Unavailable(f"{self._what} ended in the middle of its packed body")

    def _start(self, data: bytes) -> bytes:
        if self._inflate.eof:
            # gzip allows several members after each other; anything else at the end is not ours.
            if not self._gzip:
                raise self._damaged("has bytes after its end")
            self._inflate = zlib.decompressobj(_GZIP)
        elif not self._gzip and not self._member_in and data[0] & 0x0F != zlib.DEFLATED:
            # "deflate" should be zlib's format; some servers send it bare.
            self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        return data

    def _unpack(self, data: bytes) -> bytes:
        try:
            return self._inflate.decompress(data, PIECE_BYTES)
        except zlib.error as error:
            raise self._damaged(f"cannot be unpacked: {error}") from error

    def _refuse_bombs(self) -> None:
        if self._out > self._most_bytes:
            raise self._bomb(f"unpacks to more than {self._most_bytes:,} bytes")
        if self._out > FREE_BYTES and self._out > self._in * self._most_ratio:
            raise self._bomb(f"unpacks to more than {self._most_ratio} times its size")

    def _bomb(self, why: str) -> Permanent:
        hint = "If that is right, ask the server for it unpacked: no Accept-Encoding header."
        return Permanent(f"{self._what} {why}", reason="decompression_limit", hint=hint)

    def _damaged(self, why: str) -> SchemaError:
        return SchemaError(f"{self._what} {why}", reason="content_encoding")
