"""One look at a folder tree: every file that could be an object, or an error, never a part of it.

A listing that fails anywhere fails as a whole, because what a partial listing lacks would look
deleted. Folders are remembered by device and inode, so that a disk that goes away in the middle is
noticed too.

Symlinks: a link to a file is followed when the file lies inside the root; a link to a folder never
is, which rules out loops. The root itself may be a link.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote_from_bytes

from headgate.errors import Unavailable

# The ledger finds objects by their uri, and a row of a Postgres index holds some 2,700 bytes. A
# path may have 4096 bytes, each of them three characters of a uri.
MAX_URI = 2000

_UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", "~")

Identity = tuple[int, int]
Tell = Callable[[str, str], None]


def uri_of(path: str) -> str:
    """The path as a `file://` uri, byte for byte: names that are not UTF-8 survive."""
    return "file://" + quote_from_bytes(os.fsencode(path))


def ignored(name: str) -> bool:
    """Is this a hidden name, or one that tools give to what they are still writing?"""
    return name[0] == "." or name.endswith(_UNFINISHED)


def unavailable(error: OSError, path: str, uri: str) -> Unavailable:
    """A folder that could not be read, for the whole scan."""
    said = os.strerror(error.errno) if error.errno else str(error)
    return Unavailable(
        f"folder {path} cannot be read: {said}; nothing is taken for deleted",
        upstream=uri,
        hint="Mount it again or grant read and search access; the next scan goes on by itself.",
    )


@dataclass(slots=True)
class Walk:
    """One pass over the tree under `root`. `folders` is complete when `files` is exhausted."""

    root: str
    depth: int | None
    tell: Tell
    folders: dict[str, Identity] = field(default_factory=dict[str, Identity])
    empty: set[str] = field(default_factory=set[str])

    def files(self) -> Iterator[tuple[str, str, str, os.stat_result]]:
        """Uri, path relative to the root, name and status of each file; order is the disk's."""
        stack = [("", 0)]
        while stack:
            relative, depth = stack.pop()
            folder = os.path.join(self.root, relative).rstrip("/") or "/"
            prefix = uri_of(folder).rstrip("/") + "/"
            try:
                for entry in self._list(folder):
                    name = entry.name
                    uri = prefix + quote_from_bytes(os.fsencode(name))
                    if entry.is_dir(follow_symlinks=False):
                        deeper = self.depth is None or depth < self.depth
                        if deeper and name[0] != "." and self._fits(uri, entry.path):
                            stack.append((relative + name + "/", depth + 1))
                    elif not ignored(name) and self._fits(uri, entry.path):
                        status = self._status(entry)
                        if status is not None:
                            yield uri, relative + name, name, status
            except OSError as error:
                raise unavailable(error, folder, uri_of(self.root)) from error

    def verify(self) -> None:
        """Raise when a folder that was listed is no longer the same one."""
        for folder, identity in self.folders.items():
            try:
                now = os.stat(folder)
            except OSError as error:
                raise unavailable(error, folder, uri_of(self.root)) from error
            if (now.st_dev, now.st_ino) != identity:
                error = OSError(errno.ESTALE, "replaced while it was listed")
                raise unavailable(error, folder, uri_of(self.root))

    def _list(self, folder: str) -> Iterator[os.DirEntry[str]]:
        status = os.stat(folder)
        empty = True
        with os.scandir(folder) as entries:
            for entry in entries:
                empty = False
                yield entry
        self.folders[folder] = (status.st_dev, status.st_ino)
        if empty:
            self.empty.add(folder)

    def _fits(self, uri: str, path: str) -> bool:
        if len(uri) > MAX_URI:
            self.tell(path, f"its uri has more than {MAX_URI} characters")
        return len(uri) <= MAX_URI

    def _status(self, entry: os.DirEntry[str]) -> os.stat_result | None:
        """The status of a regular file; None for what is none of our business, or just went."""
        try:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                status = entry.stat()
                if not self._is_ours(entry, status):
                    return None
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            return None
        return status if stat.S_ISREG(status.st_mode) else None

    def _is_ours(self, entry: os.DirEntry[str], target: os.stat_result) -> bool:
        if stat.S_ISDIR(target.st_mode):
            self.tell(entry.path, "links to folders are not followed: declare its target as well")
            return False
        if not is_inside(os.path.realpath(entry.path), os.path.realpath(self.root)):
            self.tell(entry.path, "it links to a file outside of the folder: copy the file instead")
            return False
        return True


def is_inside(path: str, root: str) -> bool:
    """Does the real path lie under the real root?"""
    return path.startswith(root.rstrip("/") + "/")
