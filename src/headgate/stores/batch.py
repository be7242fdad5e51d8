"""Many small files at once: each appears whole, and all of them are on the disk in the end.

    <spools>/PID-RANDOM/7          a file on its way to a folder that is there
    <spools>/PID-RANDOM/8/a.json   one on its way to a new folder, which appears with all its files

The files are written aside and synced together, so no name ever shows bytes that a power cut could
take back. Then they are moved to their names, and the names are synced together. Like a spool, the
folder aside is locked as long as its process lives, and a sweep takes those of the dead.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress

from .durable import FOLDER_MODE, make_folders, sync_all

# Anybody may read a catalog who may look into the store's folders; nobody else may write.
NAMED_MODE = 0o640
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


def write_all(root: str, spools: str, files: Mapping[str, bytes], durable: set[str]) -> None:
    """Put each content at its name below `root`. Raises `OSError`; then any of them may be there.

    They appear in the order given, but for those of one folder, which appear together. `durable`
    are the folders that are known to be on the disk; it grows by those above the files.
    """
    folders: dict[str, list[tuple[str, bytes]]] = {}
    for name, content in files.items():
        folder, _, base = name.rpartition("/")
        folders.setdefault(folder, []).append((base, content))
    aside, fd = _aside(spools)
    try:
        moves: list[tuple[str, str]] = []
        written: list[str] = []
        known: dict[int, str] = {}
        for folder, contents in folders.items():
            target = f"{root}/{folder}" if folder else root
            whole = not os.path.isdir(target)
            under = f"{aside}/{len(written)}" if whole else aside
            if whole:
                os.mkdir(under, FOLDER_MODE)
                written.append(under)
                moves.append((under, target))
            for base, content in contents:
                file = f"{under}/{base if whole else len(written)}"
                _write(file, content, known)
                written.append(file)
                if not whole:
                    moves.append((file, f"{target}/{base}"))
        sync_all(root, written)
        changed: set[str] = set()
        for source, target in moves:
            _move(source, target, root, changed)
        # Who made a folder may have died before it synced the one above: being there is not enough.
        above = _above(changed, root) - durable
        sync_all(root, changed | above)
        durable |= above
    finally:
        shutil.rmtree(aside, ignore_errors=True)  # what cannot be removed now is left to a sweep
        os.close(fd)


def remove_all(root: str, paths: Iterable[str]) -> None:
    """Remove files, and the folders below `root` that this leaves empty. Harmless when gone."""
    changed: set[str] = set()
    for path in paths:
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)
            changed.add(os.path.dirname(path))
    for folder in sorted(changed, reverse=True):
        changed |= _tidy(folder, root)
    sync_all(root, [folder for folder in changed if os.path.isdir(folder)])


def _tidy(folder: str, root: str) -> set[str]:
    """Remove a folder that is empty, and those above it; what is left of them was changed."""
    changed: set[str] = set()
    while folder != root:
        try:
            os.rmdir(folder)
        except OSError:  # not empty, or gone already
            break
        folder = os.path.dirname(folder)
        changed.add(folder)
    return changed


def _aside(spools: str) -> tuple[str, int]:
    while True:
        folder = f"{spools}/{os.getpid()}-{secrets.token_hex(8)}"
        try:
            os.mkdir(folder, 0o700)
        except FileNotFoundError:  # somebody tidied the spools away
            make_folders(spools)
            continue
        try:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:  # swept before we had it
            continue
        with suppress(OSError):  # a filesystem without locks: there a sweep goes by age alone
            fcntl.flock(fd, fcntl.LOCK_EX)
        if os.path.isdir(folder):
            return folder, fd
        os.close(fd)


def _write(file: str, content: bytes, known: dict[int, str]) -> None:
    """Write a file. The very same content under a second name is a second name of its file.

    Files are replaced and never written to, so neither name can change what the other shows.
    """
    if (same := known.get(id(content))) is not None:
        try:
            os.link(same, file)
        except OSError:  # a filesystem without links
            pass
        else:
            return
    known[id(content)] = file
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, NAMED_MODE)
    try:
        written = os.write(fd, content)
        while written < len(content):
            written += os.write(fd, content[written:])
    finally:
        os.close(fd)


def _move(source: str, target: str, root: str, changed: set[str]) -> None:
    """Give a file or a folder its name; `changed` grows by the folders whose names changed."""
    changed.add(target.rpartition("/")[0])
    while True:
        try:
            os.rename(source, target)
            return
        except FileNotFoundError:  # the folder above is new, or somebody tidied it away
            if not os.path.lexists(source):
                raise
            folder = os.path.dirname(target)
            os.makedirs(folder, FOLDER_MODE, exist_ok=True)
            changed |= _above([folder], root)
        except OSError as error:
            if error.errno not in _TAKEN or not os.path.isdir(source):
                raise
            # Somebody made the folder meanwhile: then its files go one by one.
            for name in os.listdir(source):
                _move(f"{source}/{name}", f"{target}/{name}", root, changed)
            return


def _above(folders: Iterable[str], root: str) -> set[str]:
    """The folders above these, up to the root."""
    above: set[str] = set()
    for below in folders:
        folder = below
        while len(folder) > len(root):
            folder = os.path.dirname(folder)
            above.add(folder)
    return above
