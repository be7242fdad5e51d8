"""Reading below a root that others may write to: no link leads out, nothing special is opened.

Each component is opened from the one above it and never through a link, so a folder that is swapped
for a link between two steps is refused, not followed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from urllib.parse import unquote_to_bytes

from headgate.errors import HeadgateError, ObjectMissing, PermissionDenied, Unavailable

from .walk import is_inside

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a file that is swapped for a pipe would hold us until somebody writes to it.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def parts_of(uri: str, prefix: str) -> list[str] | None:
    """The path below `prefix` (which ends in a slash) that the uri names, or None when none."""
    if not uri.startswith(prefix):
        return None
    parts = [unquote_to_bytes(part) for part in uri[len(prefix) :].split("/")]
    if any(part in (b"", b".", b"..") or b"/" in part or b"\0" in part for part in parts):
        return None
    return [os.fsdecode(part) for part in parts]


def open_inside(root: str, parts: Sequence[str], uri: str) -> int:
    """A descriptor of the regular file at `parts` below `root`. Raises what `Source.fetch` may."""
    try:
        return _open(root, parts, uri)
    except OSError as error:
        raise trouble(error, uri) from error


def trouble(error: OSError, uri: str) -> HeadgateError:
    """Why a file could not be read, by what can be done about it."""
    said = os.strerror(error.errno) if error.errno else str(error)
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return ObjectMissing(f"{uri} is not there")
        case errno.EACCES | errno.EPERM:
            return PermissionDenied(f"{uri} may not be read: {said}")
        case errno.ELOOP:
            return PermissionDenied(
                f"{uri} lies behind a symlinked folder, which is not followed",
                hint="Declare the folder it points to as a Directory of its own.",
            )
        case _:
            return Unavailable(f"{uri} cannot be read: {said}", upstream=uri)


def _open(root: str, parts: Sequence[str], uri: str) -> int:
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            below = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        mode = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            return _open_target(root, parts, uri)
        fd = -1
        if stat.S_ISREG(mode):
            fd = os.open(parts[-1], _FILE, dir_fd=folder)
            mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            if fd >= 0:
                os.close(fd)
            raise ObjectMissing(f"{uri} is not a regular file")
        return fd
    finally:
        os.close(folder)


def _open_target(root: str, parts: Sequence[str], uri: str) -> int:
    real_root = os.path.realpath(root)
    target = os.path.realpath(os.path.join(root, *parts))
    if not is_inside(target, real_root):
        raise PermissionDenied(
            f"{uri} is a link to a file outside of its folder",
            hint="Copy the file into the folder, or declare the folder it lies in.",
        )
    # A real path holds no links; one that appears meanwhile is refused on the way down.
    return _open(real_root, os.path.relpath(target, real_root).split("/"), uri)
