"""A file over the network: read on from where one is, or from elsewhere after a seek."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from io import RawIOBase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class ReadOn(RawIOBase):
    """`from_here(position)` gives the bytes from there on; it is called when they are wanted."""

    def __init__(self, from_here: Callable[[int], Iterator[bytes]], size: int) -> None:
        self._from_here = from_here
        self._size = size
        self._at = 0
        self._chunks: Iterator[bytes] | None = None
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if origin + offset < 0:
            raise ValueError("a stream has nothing before its beginning")
        if origin + offset != self._at:
            self._at = origin + offset
            self._chunks, self._rest = None, memoryview(b"")
        return self._at

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        into = memoryview(buffer).cast("B")
        while not self._rest and self._at < self._size:
            if self._chunks is None:
                self._chunks = self._from_here(self._at)
            # It was announced to be longer: the end of the bytes is then no end of the object.
            if (chunk := next(self._chunks, None)) is None:
                raise OSError(f"the stream ends at {self._at} of {self._size} bytes")
            self._rest = memoryview(chunk)
        size = min(len(into), len(self._rest))
        into[:size], self._rest = self._rest[:size], self._rest[size:]
        self._at += size
        return size
