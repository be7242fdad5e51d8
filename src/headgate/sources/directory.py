"""A folder as a source: its files that appear, change or vanish.

A file is picked up once it has been left alone for `settle`. Its mtime, size and inode are a hint
that it may have changed; what it is, is decided by the digest of its bytes. A file is taken for
removed only after a complete listing, and only when it is not at its place: neither a disk that is
away nor a pattern that was changed deletes anything.
"""

from __future__ import annotations

import errno
import logging
import mimetypes
import os
import shlex
import stat
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from headgate.errors import ObjectChanged, ObjectMissing, PipelineError, Unavailable, UsageError
from headgate.model.duration import seconds
from headgate.model.envelope import Envelope
from headgate.model.ports import Known, Noticed, Scan, Shown

from .numbered import numbered
from .pattern import compile_pattern, depth_of
from .reading import open_inside, parts_of, trouble
from .walk import Walk, ignored, unavailable, uri_of

CHUNK_BYTES = 1 << 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COMPRESSED = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}
_log = logging.getLogger(__name__)


class Directory:
    """The files of a folder that match `pattern` (`*` within a folder, `**/` in any below)."""

    name: str
    every_seconds: float

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        pattern: str = "**/*",
        settle: str | float = "1s",
        every: str | float = "1s",
        name: str | None = None,
    ) -> None:
        self.path = os.path.abspath(os.path.expanduser(path))
        self.uri = uri_of(self.path)
        self.name = name or self.uri
        self.settle_seconds = seconds(settle, "settle")
        self.every_seconds = seconds(every, "every")
        if self.every_seconds == 0:
            raise PipelineError(f"{self.name}: every is 0", hint='Say how often, as in every="1s".')
        self._prefix = self.uri.rstrip("/") + "/"
        self._matches = None if pattern == "**/*" else compile_pattern(pattern).fullmatch
        self._depth = depth_of(pattern)
        # What one scan leaves for the next: files dated in the future, and each folder's disk.
        self._watched: dict[str, tuple[str, datetime]] = {}
        self._devices: dict[str, int] = {}
        self._told: set[str] = set()

    def check(self) -> None:
        """Raise `UsageError` when the folder is not there, is no folder, or may not be listed."""
        try:
            os.scandir(self.path).close()
        except FileNotFoundError as error:
            hint = f"Make it: mkdir -p {shlex.quote(self.path)}"
            raise UsageError(f"the folder {self.path} is not there", hint=hint) from error
        except NotADirectoryError as error:
            hint = "Name the folder that holds the files, and choose among them with pattern=…"
            raise UsageError(f"{self.path} is not a folder", hint=hint) from error
        except OSError as error:
            hint = f"Grant read and search access: chmod u+rx {shlex.quote(self.path)}"
            said = f"the folder {self.path} cannot be listed: {error.strerror}"
            raise UsageError(said, hint=hint) from error

    def scan(self, known: Mapping[str, Known], now: datetime) -> Scan:
        """Compare what is there with what is known. Raises `Unavailable` rather than guess."""
        walk = Walk(self.path, self._depth, self._tell)
        now_ns = (now - _EPOCH) // timedelta(microseconds=1) * 1000
        settle_ns = int(self.settle_seconds * 1e9)
        seen: set[str] = set()
        watched: dict[str, tuple[str, datetime]] = {}
        changes: list[Noticed] = []
        unsettled = 0
        for uri, relative, name, status in walk.files():
            if self._matches is not None and self._matches(relative) is None:
                continue
            seen.add(uri)
            hint = hint_of(status)
            before = known.get(uri)
            if before is not None and before.hint == hint and not before.removed:
                continue
            age_ns = now_ns - max(status.st_mtime_ns, status.st_ctime_ns)
            if age_ns < 0 and settle_ns:
                settled = self._unchanged(uri, hint, now, watched)
            else:
                settled = age_ns >= settle_ns or not settle_ns
            if settled:
                changes.append(_created(uri, name, hint, status, before, now))
            else:
                unsettled += 1
        changes.sort(key=lambda change: (change.event_time, change.uri))
        changes += self._removed(walk, known, seen, now)
        self._watched = watched
        self._devices = {folder: device for folder, (device, _) in walk.folders.items()}
        return Scan(changes, unsettled)

    def everything(self, now: datetime) -> Iterator[Shown]:
        """All files that match. Raises `Unavailable` rather than leave some out."""
        walk = Walk(self.path, self._depth, self._tell)
        settle_ns = int(self.settle_seconds * 1e9)
        now_ns = (now - _EPOCH) // timedelta(microseconds=1) * 1000
        for uri, relative, name, status in walk.files():
            if self._matches is None or self._matches(relative) is not None:
                age_ns = now_ns - max(status.st_mtime_ns, status.st_ctime_ns)
                change = _created(uri, name, hint_of(status), status, None, now)
                yield Shown(change, not 0 <= age_ns < settle_ns)
        walk.verify()

    def covers(self, uri: str) -> bool:
        """Would a file of this uri be picked up?"""
        parts = parts_of(uri, self._prefix)
        if parts is None or ignored(parts[-1]) or any(part[0] == "." for part in parts):
            return False
        return self._matches is None or self._matches("/".join(parts)) is not None

    def envelope(self, change: Noticed, generation: int, received_at: datetime) -> Envelope:
        """The change as an envelope, once the ledger has numbered it."""
        return numbered(change, generation, received_at, source="file", provider="file")

    def owns(self, uri: str) -> bool:
        """Does the uri name something inside the folder?"""
        return parts_of(uri, self._prefix) is not None

    def fetch(self, envelope: Envelope) -> Iterator[bytes]:
        """The file's bytes as they are now, in chunks.

        `ObjectChanged` comes after the last chunk, or at once when the file is being rewritten.
        """
        parts = parts_of(envelope.uri, self._prefix)
        if parts is None:
            raise ObjectMissing(f"{envelope.uri} is not in {self.path}")
        fd = open_inside(self.path, parts, envelope.uri)
        try:
            before = os.fstat(fd)
            self._refuse_half_written(envelope, before)
            total = 0
            # One byte more than there should be finds the end of a small file in one read.
            while chunk := os.read(fd, min(CHUNK_BYTES, max(before.st_size - total, 0) + 1)):
                total += len(chunk)
                yield chunk
            if total != before.st_size or hint_of(os.fstat(fd)) != hint_of(before):
                raise ObjectChanged(f"{envelope.uri} changed while it was read")
        except OSError as error:
            raise trouble(error, envelope.uri) from error
        finally:
            os.close(fd)

    def _refuse_half_written(self, envelope: Envelope, status: os.stat_result) -> None:
        # Another version than the scan saw: then it has to settle like any other.
        if hint_of(status) != envelope.version_hint:
            age = time.time() - max(status.st_mtime, status.st_ctime)
            if 0 <= age < self.settle_seconds:
                raise ObjectChanged(f"{envelope.uri} is being written")

    def _unchanged(
        self, uri: str, hint: str, now: datetime, watched: dict[str, tuple[str, datetime]]
    ) -> bool:
        """For a file dated in the future: was it the same one `settle` ago?"""
        first = self._watched.get(uri)
        if first is None or first[0] != hint:
            first = (hint, now)
        watched[uri] = first
        return (now - first[1]).total_seconds() >= self.settle_seconds

    def _guard_against_unmounts(self, walk: Walk, gone: list[Noticed]) -> None:
        """An unmounted disk leaves its mount point behind: a folder, empty, on another device."""
        for folder in walk.empty:
            device, prefix = walk.folders[folder][0], uri_of(folder).rstrip("/") + "/"
            if self._devices.get(folder, device) != device and any(
                change.uri.startswith(prefix) for change in gone
            ):
                raise Unavailable(
                    f"folder {folder} is empty and on another disk than before: is it unmounted?",
                    upstream=self.uri,
                    hint="Mount it again. If it was emptied on purpose, restart the watcher.",
                )

    def _removed(
        self, walk: Walk, known: Mapping[str, Known], seen: set[str], now: datetime
    ) -> list[Noticed]:
        gone = [
            Noticed(uri, "removed", before.hint, "weak", now, before.generation)
            for uri, before in known.items()
            if not before.removed and uri not in seen and self._is_gone(uri)
        ]
        if gone:
            walk.verify()
            self._guard_against_unmounts(walk, gone)
        return sorted(gone, key=lambda change: change.uri)

    def _is_gone(self, uri: str) -> bool:
        """Not listed may only mean that the pattern is another one now: look at its place."""
        parts = parts_of(uri, self._prefix)
        if parts is None:
            return False
        path = os.path.join(self.path, *parts)
        try:
            return not stat.S_ISREG(os.stat(path).st_mode)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return True
            raise unavailable(error, path, self.uri) from error

    def _tell(self, path: str, why: str) -> None:
        if path not in self._told and len(self._told) < 10_000:
            self._told.add(path)
            _log.warning("%s is not picked up: %s", uri_of(path), why)


def hint_of(status: os.stat_result) -> str:
    """What hints at a file's version. Weak: bytes may differ under the same hint."""
    return f"{status.st_mtime_ns}-{status.st_size}-{status.st_ino}"


def _created(
    uri: str, name: str, hint: str, status: os.stat_result, before: Known | None, now: datetime
) -> Noticed:
    try:
        event_time = _EPOCH + timedelta(microseconds=status.st_mtime_ns // 1000)
    except OverflowError:  # a date that only a filesystem can express
        event_time = now
    expected = before.generation if before is not None else 0
    kind = content_type(name)
    return Noticed(uri, "created", hint, "weak", event_time, expected, status.st_size, kind)


def content_type(name: str) -> str | None:
    """What a file of this name is, as far as its endings tell."""
    return _content_type(".".join(["x", *name.rsplit(".", 2)[1:]]))


@lru_cache(1024)
def _content_type(name: str) -> str | None:
    # Not the machine's own table: the same file has the same type everywhere.
    guessed, encoding = mimetypes.MimeTypes().guess_type(name)
    if encoding is None:
        return guessed
    return _COMPRESSED.get(encoding)
