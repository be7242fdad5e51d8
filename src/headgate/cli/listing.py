"""The listing that a manifest on disk stands for, read here or by a process beside this one.

Two large manifests are read at once: the process beside sends its sorted records as they are asked
for, so only one of the two listings is ever held here.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, BinaryIO, cast

from headgate.errors import UsageError
from headgate.model.listing import Listing, NotAListing, Row, at, canonical
from headgate.model.manifest import read

_BLOCK = 4096
# Below this a second process costs more than it saves.
_LARGE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Named:
    """A listing: its hash, how many objects, and their records, which can be walked once."""

    hash: str
    objects: int
    records: Iterable[bytes]


def named(path: str) -> Named:
    """Read it in this process. Raises `UsageError`."""
    try:
        found = _listing(path)
    except (NotAListing, OSError) as error:
        raise _refused(path, _why(error)) from error
    return Named(found.hash, len(found), found.records)


def rows_at(path: str, places: Sequence[int]) -> Iterator[Row]:
    """The rows at these places, once more. Raises `UsageError`."""
    if places:
        try:
            with _opened(path) as stream:
                yield from at(read(stream, places).rows, places)
        except (NotAListing, OSError) as error:
            raise _refused(path, _why(error)) from error


def _listing(path: str) -> Listing:
    with _opened(path) as stream:
        manifest = read(stream)
        return canonical(manifest.rows, manifest.unit)


@contextmanager
def _opened(path: str) -> Generator[BinaryIO]:
    with open(path, "rb") as stream:
        before = _identity(stream)
        yield stream
        if _identity(stream) != before:
            raise NotAListing("it changed while it was read")


def _why(error: NotAListing | OSError) -> str:
    if isinstance(error, OSError):
        return f"it cannot be read: {error.strerror}"
    return f"it is no complete manifest: {error}"


def _refused(path: str, why: str) -> UsageError:
    return UsageError(f"{path}: {why}", hint="What a manifest is: docs/reference/manifest.md")


def _identity(stream: BinaryIO) -> tuple[int, int, int]:
    status = os.fstat(stream.fileno())
    return status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def beside(path: str) -> Generator[Iterator[Named]]:
    """Begin to read it in another process where that is quicker; the listing is there on demand."""
    if not os.path.isfile(path) or os.path.getsize(path) < _LARGE_BYTES:
        yield (named(path) for _ in range(1))
        return
    command = [sys.executable, "-P", "-m", "headgate.cli.listing", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield _received(process.stdout, path)
        finally:
            process.kill()


def _received(pipe: IO[bytes], path: str) -> Iterator[Named]:
    # What is loaded here was written by our own process, never by the manifest's author.
    try:
        said, objects = cast("tuple[str, int]", pickle.load(pipe))
        if objects < 0:
            raise _refused(path, said)
        yield Named(said, objects, _blocks(pipe, objects))
    except (EOFError, pickle.UnpicklingError) as error:
        raise RuntimeError(f"the process that read {path} died") from error


def _blocks(pipe: IO[bytes], objects: int) -> Iterator[bytes]:
    while objects > 0:
        block = cast("list[bytes]", pickle.load(pipe))
        objects -= len(block)
        yield from block


def _send(path: str, pipe: BinaryIO) -> None:
    try:
        found = _listing(path)
    except (NotAListing, OSError) as error:
        pickle.dump((_why(error), -1), pipe)
        return
    pickle.dump((found.hash, len(found)), pipe)
    for n in range(0, len(found), _BLOCK):
        pickle.dump(found.records[n : n + _BLOCK], pipe)


if __name__ == "__main__":
    import gc

    gc.disable()
    _send(sys.argv[1], sys.stdout.buffer)
