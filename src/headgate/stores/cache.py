"""The local side of a store that lies elsewhere: spools, and copies of objects.

    <folder>/<store>/tmp/PID-RANDOM    spools
    <folder>/<store>/sha256/ab/abcd…   copies, read-only
    <folder>/<store>/lock              held while copies are looked for or removed

A copy appears by rename, after its bytes were found to have its digest and are on the disk, so what
is there can be trusted. Any number of processes share a folder. It is kept below a size by removing
what was used longest ago; what was used in the last minutes stays even then, because somebody may
be about to open it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Lock

from .durable import make_folders, unavailable
from .names import DIGEST
from .spool import FileSpool, remove_abandoned

COPY_MODE = 0o440
IN_USE_SECONDS = 900.0
UNUSED_SECONDS = 7 * 86_400.0
# How much this process may add, as a share of the limit, before it looks whether that was too much.
UNSEEN_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Local:
    """Where this machine keeps copies of what stores in a cloud hold, and how much of it."""

    folder: str = "~/.cache/headgate"
    limit_bytes: int = 10 << 30


class Cache:
    """Spools and copies for one store."""

    def __init__(self, uri: str, local: Local) -> None:
        self._uri = uri
        self._limit = local.limit_bytes
        root = os.path.abspath(os.path.expanduser(local.folder))
        self._root = os.path.join(root, sha256(uri.encode()).hexdigest()[:16])
        self._spools = os.path.join(self._root, "tmp")
        self._copies = os.path.join(self._root, "sha256")
        self._unseen = 0
        self._counting = Lock()

    def spool(self) -> FileSpool:
        """A place to write to."""
        try:
            try:
                return FileSpool(self._spools, self._uri)
            except FileNotFoundError:
                make_folders(self._spools)
                # The bytes of others are nobody's business on a machine with several users.
                os.chmod(self._root, 0o700)
                return FileSpool(self._spools, self._uri)
        except OSError as error:
            raise unavailable(error, self._uri, "make a spool on this machine") from error

    def find(self, digest: bytes) -> Path | None:
        """The copy, if there is one. It now counts as used."""
        file = self._file(digest)
        try:
            with self._locked(fcntl.LOCK_SH):
                os.utime(file)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unavailable(error, self._uri, "look into its copies") from error
        return Path(file)

    def take(self, spool: FileSpool) -> Path:
        """Make a spool the copy under its digest."""
        file = self._file(spool.digest)
        try:
            make_folders(os.path.dirname(file))
            spool.become(file, COPY_MODE)
            spool.release()
        except OSError as error:
            raise unavailable(error, self._uri, "keep a copy on this machine") from error
        with self._counting:
            self._unseen += spool.size
            due = self._unseen > self._limit * UNSEEN_SHARE
            if due:
                self._unseen = 0
        if due:
            self.shrink()
        return Path(file)

    def forget(self, digest: bytes) -> None:
        """Remove the copy."""
        with suppress(FileNotFoundError):
            os.unlink(self._file(digest))

    def sweep(self, older_than_seconds: float) -> int:
        """Remove spools of the dead and copies beyond the limit; how many spools."""
        try:
            removed = remove_abandoned(self._spools, older_than_seconds)
        except OSError as error:
            raise unavailable(error, self._uri, "sweep its spools") from error
        self.shrink()
        return removed

    def shrink(self) -> None:
        """Remove what nobody used for a week, and the longest unused beyond the limit."""
        now = time.time()
        copies = sorted(self._all())
        total = sum(size for _, size, _ in copies)
        for used, size, file in copies:
            unused = now - used
            if unused < IN_USE_SECONDS or (total <= self._limit and unused < UNUSED_SECONDS):
                return
            with suppress(OSError), self._locked(fcntl.LOCK_EX):
                # Somebody may have come for it while we looked at the others.
                if os.stat(file).st_mtime <= used:
                    os.unlink(file)
                    total -= size

    def _all(self) -> Iterator[tuple[float, int, str]]:
        for folder, _, names in os.walk(self._copies):
            for name in filter(DIGEST.fullmatch, names):
                file = os.path.join(folder, name)
                with suppress(OSError):
                    status = os.stat(file)
                    yield status.st_mtime, status.st_size, file

    def _file(self, digest: bytes) -> str:
        name = digest.hex()
        return f"{self._copies}/{name[:2]}/{name}"

    @contextmanager
    def _locked(self, how: int) -> Generator[None]:
        fd = os.open(f"{self._root}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            with suppress(OSError):  # a filesystem without locks: the minutes in use are enough
                fcntl.flock(fd, how)
            yield
        finally:
            os.close(fd)
