"""The shadow: what would have become of the user's files.

It is a folder that lies over the file system. A file outside the scratch folders is copied into it
before it is first written, under the path it has at home; from then on whoever asks for the file is
given the copy. What was removed leaves a mark. The shadow is all on disk, so the process that comes
after a kill finds what the dead one did, as it would at home.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .scene import aside

TEMP, GONE = ".temp", ".gone"


def is_device(path: str) -> bool:
    """Is it none of the user's files? Those in memory are files like others."""
    return path.startswith("/dev/") and not path.startswith("/dev/shm/")


class Shadow:
    """The files of the user as this world would leave them. Paths are real and absolute here."""

    def __init__(self, root: Path, free: Sequence[Path]) -> None:
        self._root = os.path.realpath(root)
        self.temp = os.path.join(self._root, TEMP) + os.sep
        self._gone = os.path.join(self._root, GONE)
        self._free = tuple(os.path.realpath(f) + os.sep for f in (root, *free))
        self._used = False
        Path(self.temp).mkdir(parents=True, exist_ok=True)

    def outside(self, path: str, *, follow: bool = True) -> str | None:
        """The path as it is at home; None when it may be written where it is."""
        real = resolved(path, follow=follow)
        free = f"{real}{os.sep}".startswith(self._free) or is_device(real)
        return None if free else real

    def covered(self, path: str, *, follow: bool = True) -> str | None:
        """The path at home of what the shadow may know better; None when it knows nothing."""
        # Another process of this world may have begun it.
        self._used = self._used or os.listdir(self._root) != [TEMP]
        return self.outside(path, follow=follow) if self._used else None

    def seen(self, path: Any, *, follow: bool = True) -> Any:
        """Where to look for what `path` names: in the shadow if it has it, else at home."""
        if isinstance(path, int):
            return path
        with aside():
            home = self.covered(os.fsdecode(path), follow=follow)
            if home is None:
                return path
            copy = self._root + home
            shown = copy if os.path.lexists(copy) or self._hidden(home) else path
            return os.fsencode(shown) if isinstance(path, bytes) else shown

    def place(self, home: str) -> str:
        """Where its copy is, or would be."""
        return self._root + home

    def exists(self, home: str) -> bool:
        return os.path.lexists(self._root + home) or self._at_home(home)

    def new(self, home: str) -> str:
        """Where a file of this name goes that need not be there yet."""
        parent = os.path.dirname(home)
        if not self.exists(parent):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), home)
        os.makedirs(self._root + parent, exist_ok=True)
        return self._root + home

    def copy(self, home: str) -> str:
        """The copy that may be written; made of what is at home, if anything is."""
        copy = self.new(home)
        if not os.path.lexists(copy) and self._at_home(home):
            if os.path.isdir(home):
                os.mkdir(copy)
            else:
                shutil.copy2(home, copy, follow_symlinks=False)
        return copy

    def copy_all(self, home: str) -> str:
        """The same, with everything in it if it is a folder."""
        copy = self.copy(home)
        if os.path.isdir(copy) and not os.path.islink(copy):
            for name in self.names(home):
                self.copy_all(os.path.join(home, name))
        return copy

    def forget(self, home: str) -> None:
        """What is at home is there no more."""
        if self._at_home(home):
            os.makedirs(self._gone, exist_ok=True)
            with open(self._mark(home), "w") as mark:
                mark.write(home)

    def remove_all(self, home: str) -> None:
        """A folder and everything in it are there no more."""
        copy = self._root + home
        if os.path.isdir(copy):
            shutil.rmtree(copy)
        self.forget(home)

    def names(self, home: str) -> set[str]:
        """What is in a folder, here or there."""
        copy = self._root + home
        found = set(os.listdir(copy)) if os.path.isdir(copy) or self._hidden(home) else set[str]()
        if not self._hidden(home) and os.path.isdir(home):
            there = os.listdir(home)
            found.update(name for name in there if not self._hidden(os.path.join(home, name)))
        return found

    def entries(self, home: str) -> Entries:
        """The same as `os.scandir` tells it."""
        wanted, entries = self.names(home), list[os.DirEntry[str]]()
        for folder in (self._root + home, home):
            if os.path.isdir(folder):
                with os.scandir(folder) as found:
                    entries += [entry for entry in found if entry.name in wanted]
                wanted -= {entry.name for entry in entries}
        return Entries(entries)

    def _at_home(self, home: str) -> bool:
        return os.path.lexists(home) and not self._hidden(home)

    def _hidden(self, home: str) -> bool:
        """Was it removed, or the folder it was in?"""
        if not os.path.isdir(self._gone):
            return False
        while home != os.sep:
            if os.path.exists(self._mark(home)):
                return True
            home = os.path.dirname(home)
        return False

    def _mark(self, home: str) -> str:
        return os.path.join(self._gone, hashlib.sha256(os.fsencode(home)).hexdigest())


def resolved(path: str, *, follow: bool = True) -> str:
    """The real path. Without `follow` a link itself is meant, not what it points to."""
    if follow:
        return os.path.realpath(path)
    path = os.path.abspath(path)
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


class Entries:
    """What `os.scandir` gives: an iterator that can be closed."""

    def __init__(self, entries: Iterable[os.DirEntry[Any]]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[os.DirEntry[Any]]:
        return self

    def __next__(self) -> os.DirEntry[Any]:
        return next(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())
