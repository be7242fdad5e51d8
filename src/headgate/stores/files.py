"""A store in a folder. What it shows under a digest is whole and on the disk, or not there.

    <root>/staging/sha256/ab/abcd…   objects, read-only
    <root>/staging/tmp/PID-RANDOM    spools
    <root>/ledger/anchor.json        named files, as `project` writes them

An object is written to its spool, synced, renamed to its digest, and its folder is synced. The name
appears after the bytes are safe, so a crash or a full disk leaves an orphaned spool at worst.
Any number of threads and processes may use one folder at once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote_from_bytes

from headgate.errors import ObjectMissing, UsageError
from headgate.model.ports import Spool

from .batch import remove_all, write_all
from .durable import FOLDER_MODE, make_folders, sync_folder, unavailable
from .names import DIGEST, OBJECTS, checked_name, counted, object_name
from .spool import FileSpool, remove_abandoned

__all__ = ["FileSpool", "FileStore"]

OBJECT_MODE = 0o440
_GONE = (FileNotFoundError, NotADirectoryError)


class FileStore:
    """A `Store` in a local (or mounted) folder. The folder is made when the first bytes come."""

    uri: str

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.path.abspath(os.path.expanduser(root))
        self.uri = "file://" + quote_from_bytes(os.fsencode(self.root))
        self._objects = os.path.join(self.root, OBJECTS)
        self._spools = os.path.join(self.root, "staging", "tmp")
        # Folders this process has seen on the disk. Another process may have died between
        # making one and syncing its parent, so "it is there" is not enough.
        self._durable: set[str] = set()

    def spool(self) -> FileSpool:
        """A place to write to."""
        try:
            try:
                return FileSpool(self._spools, self.uri)
            except FileNotFoundError:
                make_folders(self._spools)
                return FileSpool(self._spools, self.uri)
        except OSError as error:
            raise unavailable(error, self.uri, "make a spool") from error

    def keep(self, spool: Spool) -> None:
        """Make the spool's bytes durable under their digest.

        When that fails the spool is gone: after a failed fsync the kernel forgets what it could
        not write, and a second try on the same file would succeed without the bytes.
        """
        if not isinstance(spool, FileSpool) or spool.store_uri != self.uri:
            raise UsageError(f"store {self.uri} keeps only spools of its own")
        digest = spool.digest
        target = self._locate(digest)
        try:
            if self._holds(target, spool.size):
                self._place(target, None)
            elif spool.writable:
                self._place(target, spool)
            else:
                raise UsageError("the spool was discarded; take a new one from the store")
        except OSError as error:
            raise unavailable(error, self.uri, f"keep {digest.hex()}") from error
        finally:
            spool.discard()

    def has(self, digest: bytes) -> bool:
        """Is there an object with this digest?"""
        try:
            os.stat(self._locate(digest))
        except _GONE:
            return False
        except OSError as error:
            raise unavailable(error, self.uri, f"look for {digest.hex()}") from error
        return True

    def open(self, digest: bytes) -> BinaryIO:
        """A stream of the bytes. Raises `ObjectMissing`."""
        try:
            return open(self._locate(digest), "rb")
        except _GONE as error:
            raise self._missing(digest) from error
        except OSError as error:
            raise unavailable(error, self.uri, f"open {digest.hex()}") from error

    def path(self, digest: bytes) -> Path:
        """The file itself; it is read-only. Raises `ObjectMissing`."""
        if not self.has(digest):
            raise self._missing(digest)
        return Path(self._locate(digest))

    def delete(self, digest: bytes) -> None:
        """Remove the bytes for good: a crash does not bring them back."""
        target = self._locate(digest)
        try:
            os.unlink(target)
            sync_folder(os.path.dirname(target))
        except _GONE:
            return
        except OSError as error:
            raise unavailable(error, self.uri, f"delete {digest.hex()}") from error

    def digests(self) -> Iterator[bytes]:
        """Every digest that is kept, a folder at a time. Foreign files are passed over."""
        try:
            for prefix in _names(self._objects):
                for name in _names(os.path.join(self._objects, prefix)):
                    if DIGEST.fullmatch(name) and name.startswith(prefix):
                        yield bytes.fromhex(name)
        except OSError as error:
            raise unavailable(error, self.uri, "list its objects") from error

    def check(self, digest: bytes) -> bool:
        """Do the kept bytes still have this digest? Reads all of them; False when they are gone."""
        try:
            with open(self._locate(digest), "rb", buffering=0) as stream:
                return hashlib.file_digest(stream, "sha256").digest() == digest
        except _GONE:
            return False
        except OSError as error:
            raise unavailable(error, self.uri, f"read {digest.hex()}") from error

    def project(self, files: Mapping[str, bytes]) -> None:
        """Replace small named files, each atomically; all of them are durable when it returns."""
        for name in files:
            checked_name(name, self.uri)
        if not files:
            return
        try:
            self._make_durable(self._spools)
            write_all(self.root, self._spools, files, self._durable)
        except OSError as error:
            raise unavailable(error, self.uri, f"write {counted(files)}") from error

    def names(self, folder: str) -> Iterator[str]:
        """Every named file below a folder."""
        top = self._named(folder)
        try:
            for path, _, files in os.walk(top, onerror=_raise_unless_gone):
                within = os.path.relpath(path, self.root)
                for name in files:
                    yield f"{within}/{name}"
        except OSError as error:
            raise unavailable(error, self.uri, f"list {folder}") from error

    def remove(self, names: Iterable[str]) -> None:
        """Remove named files for good. Harmless when they are gone."""
        named = [self._named(name) for name in names]
        try:
            remove_all(self.root, named)
        except OSError as error:
            raise unavailable(error, self.uri, f"remove {counted(named)}") from error

    def read(self, name: str) -> bytes | None:
        """The small named file, or None."""
        try:
            with open(self._named(name), "rb") as stream:
                return stream.read()
        except _GONE:
            return None
        except OSError as error:
            raise unavailable(error, self.uri, f"read {name}") from error

    def sweep(self, older_than_seconds: float) -> int:
        """Remove spools that nobody wrote to for so long and no living process holds; how many."""
        try:
            return remove_abandoned(self._spools, older_than_seconds)
        except OSError as error:
            raise unavailable(error, self.uri, "sweep its spools") from error

    def _locate(self, digest: bytes) -> str:
        return f"{self.root}/{object_name(digest)}"

    def _named(self, name: str) -> str:
        return os.path.join(self.root, checked_name(name, self.uri))

    def _holds(self, target: str, size: int) -> bool:
        # Nothing but damage from outside gives an object another size: then it is replaced.
        try:
            return os.stat(target).st_size == size
        except _GONE:
            return False

    def _place(self, target: str, spool: FileSpool | None) -> None:
        """Put the spool at `target` (None: it is there already) and sync every name above it."""
        folder = os.path.dirname(target)
        self._make_durable(folder)
        if spool is not None:
            try:
                spool.become(target, OBJECT_MODE)
            except FileNotFoundError:  # someone tidied the folder away
                self._durable.clear()
                self._make_durable(folder)
                spool.become(target, OBJECT_MODE)
            spool.release()
        # Also for an object that was there: who put it may have died before this line.
        sync_folder(folder)

    def _make_durable(self, folder: str) -> None:
        if folder in self._durable:
            return
        parent = os.path.dirname(folder)
        if folder == self.root:
            make_folders(folder)
            with suppress(PermissionError):  # what lies above the root may be closed to us
                sync_folder(parent)
        else:
            self._make_durable(parent)
            with suppress(FileExistsError):
                os.mkdir(folder, FOLDER_MODE)
            sync_folder(parent)
        self._durable.add(folder)

    def _missing(self, digest: bytes) -> ObjectMissing:
        return ObjectMissing(f"store {self.uri} has no object {digest.hex()}")


def _names(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                yield entry.name
    except _GONE:
        return


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, _GONE):
        raise error
