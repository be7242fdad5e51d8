"""A list of byte strings that moves to disk when it grows: rows of an object of any size."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import IO, overload

from .durable import unavailable

KEPT_IN_MEMORY = 8 << 20


class Spill(Sequence[bytes]):
    """Append and read by position. Beyond 8 MiB the bytes live in an unnamed temporary file."""

    def __init__(self, chunks: Iterable[bytes] = (), kept_in_memory: int = KEPT_IN_MEMORY) -> None:
        self._limit = kept_in_memory
        self._size = 0
        self._chunks: list[bytes] = []
        self._places: list[tuple[int, int]] = []
        self._file: IO[bytes] | None = None
        for chunk in chunks:
            self.append(chunk)

    def append(self, chunk: bytes) -> None:
        """Add one. Raises `StoreUnavailable` when the disk has no room for it."""
        self._size += len(chunk)
        if self._file is None and self._size <= self._limit:
            self._chunks.append(chunk)
            return
        with _disk():
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115  (closed with this object)
                for kept in self._chunks:
                    self._write(kept)
                self._chunks = []
            self._write(chunk)

    def _write(self, chunk: bytes) -> None:
        assert self._file is not None
        self._places.append((self._file.tell(), len(chunk)))
        self._file.write(chunk)

    def __len__(self) -> int:
        return len(self._chunks) or len(self._places)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(len(self)))]
        if self._file is None:
            return self._chunks[index]
        place, size = self._places[index]
        with _disk():
            end = self._file.tell()
            self._file.seek(place)  # writes what is still buffered, so it may find the disk full
            chunk = self._file.read(size)
            self._file.seek(end)
        return chunk


@contextmanager
def _disk() -> Generator[None]:
    try:
        yield
    except OSError as error:
        doing = "keep rows in a temporary file"
        raise unavailable(error, tempfile.gettempdir(), doing) from error
