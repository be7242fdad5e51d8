"""The spool of a file store: a private file that grows, and its digest that grows with it.

The open file is locked as long as its process lives. Whoever sweeps asks for the lock: a process id
in a name says nothing once containers restart under the same number, a lock cannot be inherited by
a stranger.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from headgate.errors import UsageError

from .durable import begin_sync, sync, unavailable

SPOOL_MODE = 0o600
_OURS = re.compile(r"\d+-[0-9a-f]{16}")

# From here on hashing runs beside reading and writing, and the disk is kept busy from the start.
# Measured on 1 GiB, as a share of `cp` and `sync`: hashing in turn 0.45, beside it 0.65.
LARGE_BYTES = 8 << 20
# Smaller pieces are hashed faster than they are handed to another thread.
PIECE_BYTES = 64 << 10


class FileSpool:
    """Bytes on their way into a `FileStore`. For one thread at a time; holds one open file."""

    path: Path
    size: int

    def __init__(self, folder: str, uri: str) -> None:
        self._fd = -1
        self.store_uri = uri
        self._hash = hashlib.sha256()
        self._beside: ThreadPoolExecutor | None = None
        self._hashing: Future[None] | None = None
        self._begun = 0  # so many bytes are on their way to the disk, or there
        self._file, self._fd = _create(folder)
        self.path = Path(self._file)
        self.size = 0

    def write(self, chunk: bytes | memoryview) -> None:
        """Append. When the disk refuses, the spool is discarded and its space is free again."""
        if self._fd < 0:
            raise UsageError("the spool was kept or discarded; take a new one from the store")
        self._digest_more(chunk)
        try:
            self._append(memoryview(chunk).cast("B"))
        except OSError as error:
            self.discard()
            raise unavailable(error, self.store_uri, "write") from error

    @property
    def digest(self) -> bytes:
        """SHA-256 of what was written so far."""
        self._await_hash()
        return self._hash.digest()

    @property
    def writable(self) -> bool:
        """Can it still be written to and kept?"""
        return self._fd >= 0

    def discard(self) -> None:
        """Forget it. Harmless when it was kept or discarded already."""
        if self._fd >= 0:
            with suppress(OSError):  # what cannot be removed now is left to a sweep
                os.unlink(self._file)
            self._close()

    def become(self, target: str, mode: int) -> None:
        """Put the finished, durable file at `target`; its folder is not synced yet.

        Until the rename nothing is visible there, after it everything is.
        """
        os.fchmod(self._fd, mode)
        sync(self._fd)
        os.rename(self._file, target)

    def release(self) -> None:
        """Let go of the file that `become` has put in its place."""
        self._close()

    def __del__(self) -> None:
        # A forgotten spool gives its lock back, and the next sweep takes the file. It is not
        # unlinked here: a forked child forgets its copy while the parent still writes.
        if self._fd >= 0:
            self._close()

    def _append(self, rest: memoryview) -> None:
        self.size += len(rest)
        while rest:
            rest = rest[os.write(self._fd, rest) :]
        if self.size - self._begun >= LARGE_BYTES:
            begin_sync(self._fd, self._begun, self.size - self._begun)
            self._begun = self.size

    def _digest_more(self, chunk: bytes | memoryview) -> None:
        self._await_hash()
        if self.size < LARGE_BYTES or len(chunk) < PIECE_BYTES:
            self._hash.update(chunk)
            return
        if self._beside is None:
            self._beside = ThreadPoolExecutor(1, "headgate-digest")
        # The caller may reuse its buffer as soon as `write` returns. bytes(bytes) is no copy.
        self._hashing = self._beside.submit(self._hash.update, bytes(chunk))

    def _await_hash(self) -> None:
        if self._hashing is not None:
            self._hashing.result()
            self._hashing = None

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        with suppress(OSError):  # fsync has spoken; close has nothing to add
            os.close(fd)
        if self._beside is not None:
            self._beside.shutdown(wait=False)
            self._beside = None


def _create(folder: str) -> tuple[str, int]:
    while True:
        file = f"{folder}/{os.getpid()}-{secrets.token_hex(8)}"
        fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, SPOOL_MODE)
        # A filesystem without locks still works; there a sweep goes by age alone.
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_nlink:
            return file, fd
        os.close(fd)  # swept between open and flock


def remove_abandoned(folder: str, older_than_seconds: float) -> int:
    """Remove spools that nobody wrote to for so long and no living process holds; how many."""
    before = time.time() - older_than_seconds
    removed = 0
    try:
        with os.scandir(folder) as entries:
            for entry in filter(lambda entry: _OURS.fullmatch(entry.name), entries):
                with suppress(FileNotFoundError):
                    if entry.stat(follow_symlinks=False).st_mtime <= before:
                        removed += _remove_if_abandoned(entry.path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    return removed


def _remove_if_abandoned(path: str) -> bool:
    """Remove a spool, or a folder of small files, that no process holds open any more."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        with suppress(OSError):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            shutil.rmtree(path)
        else:
            os.unlink(path)
        return True
    except FileNotFoundError:
        return False
    finally:
        os.close(fd)
