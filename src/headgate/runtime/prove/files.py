"""Every way that Python has to change a file, led to where it does no harm, and told.

A change by the user's code is told with its line. Outside the scratch folders it happens in the
shadow. Headgate's own writes are left alone. What gets past all this, because a library opens files
by means of its own, is announced to the audit hook and refused there; what is not even announced
meets the fence.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import functools
import io
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from urllib.parse import urlsplit

from .imports import replace_everywhere, when_imported
from .scene import Log, aside, is_aside, is_users, via, whose
from .shadow import Shadow, is_device

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {
    "os.remove": (0,), "os.rename": (0, 1), "os.mkdir": (0,), "os.rmdir": (0,), "os.link": (1,),
    "os.symlink": (1,), "os.truncate": (0,), "os.chmod": (0,), "os.chown": (0,), "os.utime": (0,),
}  # fmt: skip
Function = Callable[..., Any]


class FileShut(PermissionError):
    """A file that `headgate prove` does not let a handler write."""


def watch(log: Log, shadow: Shadow, real: Sequence[Path]) -> None:
    """Lead and tell what the user's code does to files from now on."""
    files = _Files(log, shadow, tuple(os.path.realpath(folder) + os.sep for folder in real))
    new: dict[Function, Function] = {io.open: files.opening(io.open)}
    new[os.open] = files.opening_fd(os.open)
    for name in ("remove", "unlink", "rmdir", "mkdir", "truncate", "chmod", "chown", "utime"):
        new[getattr(os, name)] = files.changing(name, getattr(os, name))
    for name in ("rename", "replace", "link", "symlink"):
        new[getattr(os, name)] = files.moving(name, getattr(os, name))
    for name in ("stat", "lstat", "access", "readlink"):
        new[getattr(os, name)] = files.looking(name, getattr(os, name))
    new[os.listdir] = files.listing(os.listdir, lambda home: list(shadow.names(home)))
    new[os.scandir] = files.listing(os.scandir, shadow.entries)
    new[shutil.rmtree] = files.removing_all(shutil.rmtree)
    _put_in_place(new)
    when_imported("sqlite3", files.lead_sqlite)
    sys.addaudithook(files.guard)


def _put_in_place(new: dict[Function, Function]) -> None:
    builtins.open = cast("Any", new[io.open])
    for capable in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        cast("set[Any]", capable).update(new[f] for f in list(capable) if f in new)
    replace_everywhere(new)


class _Files:
    def __init__(self, log: Log, shadow: Shadow, real: tuple[str, ...]) -> None:
        self._log = log
        self._shadow = shadow
        self._real = real

    def _home(self, path: str, mode: str, *, follow: bool = True) -> str | None:
        """Tell that the user changes `path`; its name at home if that must happen in the shadow."""
        with aside():
            home = self._shadow.outside(path, follow=follow)
            at = os.path.abspath(path) if home is None else home
        if not (f"{at}{os.sep}".startswith(self._shadow.temp) or is_device(at)):
            to = None if home is None else self._shadow.place(home)
            self._log.tell("file", path=at, mode=mode, shadow=to, via=via())
        return home

    def opening(self, real: Function) -> Function:
        @functools.wraps(real)
        def open(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            plain = isinstance(file, int) or len(args) > 5 or kwargs.get("opener") is not None
            if plain or is_aside():
                return real(file, mode, *args, **kwargs)
            if not set(mode) & set("wax+"):
                return real(self._shadow.seen(file), mode, *args, **kwargs)
            to = self._to_write(file, mode.strip("bt"))
            with aside() if to is not None else nullcontext():
                return real(file if to is None else to, mode, *args, **kwargs)

        return open

    def opening_fd(self, real: Function) -> Function:
        @functools.wraps(real)
        def open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> Any:
            if is_aside():
                return real(path, flags, mode, dir_fd=dir_fd)
            if not flags & WRITES:
                seen = path if dir_fd is not None else self._shadow.seen(path)
                return real(seen, flags, mode, dir_fd=dir_fd)
            to = self._to_write(path, "a" if flags & os.O_APPEND else "w", dir_fd)
            if to is None:
                return real(path, flags, mode, dir_fd=dir_fd)
            with aside():
                return real(to, flags, mode)

        return open

    def _to_write(self, path: Any, mode: str, dir_fd: int | None = None) -> str | None:
        """Where the user's code writes when it means `path`; None when it is not the user."""
        if not is_users():
            return None
        at = _at(path, dir_fd)
        home = self._home(at, mode)
        with aside():
            return at if home is None else self._shadow.copy(home)

    def changing(self, name: str, real: Function) -> Function:
        """A function that changes the one path it is given."""
        acts: dict[str, Callable[..., Any]] = {
            "remove": self._remove, "unlink": self._remove, "rmdir": self._rmdir,
            "mkdir": self._mkdir,
        }  # fmt: skip
        act = acts.get(name)
        mode = "remove" if name == "unlink" else name

        @functools.wraps(real)
        def change(path: Any, *args: Any, dir_fd: int | None = None, **kwargs: Any) -> Any:
            where = {} if dir_fd is None else {"dir_fd": dir_fd}
            if isinstance(path, int) or is_aside() or not is_users():
                return real(path, *args, **where, **kwargs)
            home = self._home(_at(path, dir_fd), mode, follow=act is None)
            with aside():
                if home is None:
                    return real(path, *args, **where, **kwargs)
                if act is not None:
                    return act(real, home, *args)
                return real(self._shadow.copy(home), *args, **kwargs)

        return change

    def _remove(self, real: Function, home: str) -> None:
        if not self._shadow.exists(home):
            raise _error(errno.ENOENT, home)
        if os.path.lexists(copy := self._shadow.place(home)):
            real(copy)
        self._shadow.forget(home)

    def _rmdir(self, real: Function, home: str) -> None:
        if self._shadow.exists(home) and self._shadow.names(home):
            raise _error(errno.ENOTEMPTY, home)
        self._remove(real, home)

    def _mkdir(self, real: Function, home: str, mode: int = 0o777) -> None:
        if self._shadow.exists(home):
            raise _error(errno.EEXIST, home)
        real(self._shadow.new(home), mode)

    def moving(self, name: str, real: Function) -> Function:
        """A function that makes one path of another: both change if it moves, else the second."""
        moves = name in ("rename", "replace")

        @functools.wraps(real)
        def move(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
            if is_aside() or not is_users():
                return real(src, dst, *args, **kwargs)
            source = src if name == "symlink" else _at(src, kwargs.get("src_dir_fd"))
            target = _at(dst, kwargs.get("dst_dir_fd", kwargs.get("dir_fd")))
            old = self._home(source, name, follow=False) if moves else None
            new = self._home(target, name, follow=False)
            with aside():
                if old is not None:
                    source = self._shadow.copy_all(old)
                target = target if new is None else self._shadow.new(new)
                if name == "link" and self._shadow.outside(source) is not None:
                    # A second name of the user's file would be a way to write it.
                    shutil.copy2(self._shadow.seen(source), target)
                else:
                    real(source, target)
                if old is not None:
                    self._shadow.forget(old)

        return move

    def looking(self, name: str, real: Function) -> Function:
        @functools.wraps(real)
        def look(path: Any, *args: Any, **kwargs: Any) -> Any:
            if is_aside() or kwargs.get("dir_fd") is not None:
                return real(path, *args, **kwargs)
            follow = kwargs.get("follow_symlinks", name not in ("lstat", "readlink"))
            return real(self._shadow.seen(path, follow=follow), *args, **kwargs)

        return look

    def listing(self, real: Function, merged: Callable[[str], Any]) -> Function:
        @functools.wraps(real)
        def names(path: Any = None) -> Any:
            if is_aside() or isinstance(path, (int, bytes)):
                return real(path)
            with aside():
                home = self._shadow.covered(os.fspath(path or "."))
                seen = path if home is None else self._shadow.seen(path or ".")
                if home is None or not os.path.isdir(seen):
                    return real(seen)
                return merged(home)

        return names

    def removing_all(self, real: Function) -> Function:
        @functools.wraps(real)
        def rmtree(path: Any, *args: Any, **kwargs: Any) -> Any:
            with aside():
                home = self._shadow.outside(_at(path, kwargs.get("dir_fd")), follow=False)
                known = home is not None and self._shadow.exists(home)
            if is_aside() or not is_users() or home is None or not known:
                return real(path, *args, **kwargs)
            self._home(home, "remove", follow=False)
            with aside():
                return self._shadow.remove_all(home)

        cast("Any", rmtree).avoids_symlink_attacks = cast("Any", real).avoids_symlink_attacks
        return rmtree

    def lead_sqlite(self, module: ModuleType) -> None:
        """A database in a file is a file."""
        sqlite = cast("Any", module)
        real = sqlite.connect

        @functools.wraps(real)
        def connect(database: Any, *args: Any, **kwargs: Any) -> Any:
            if not kwargs.get("uri") and os.fsdecode(database) not in ("", ":memory:"):
                database = self._to_write(database, "sqlite") or database
            return real(database, *args, **kwargs)

        sqlite.connect = sqlite.dbapi2.connect = connect

    def guard(self, event: str, given: tuple[Any, ...]) -> None:
        """The audit hook: nothing that the user set in motion writes outside."""
        if event == "open":
            paths = given[:1] if isinstance(given[2], int) and given[2] & WRITES else ()
        elif event == "sqlite3.connect":
            paths = _written(given[0])
        else:
            paths = [given[n] for n in _CHANGES.get(event, ())]
        for path in paths:
            if not isinstance(path, int) and path is not None and not is_aside():
                self._refuse(os.fsdecode(path), event)

    def _refuse(self, path: str, event: str) -> None:
        who = whose()
        if who == "headgate":
            return
        with aside():
            home = self._shadow.outside(path, follow=False)
        if home is None or (who is None and not home.startswith(self._real)):
            return
        self._log.tell("file", path=home, mode=event, shadow=None, refused=True)
        raise FileShut(
            errno.EACCES,
            "headgate prove did not let this be written: it is no scratch copy, and the library "
            "that writes it cannot be led to one",
            home,
        )


def _written(database: Any) -> Sequence[str]:
    """The file that sqlite would open for writing."""
    name = os.fsdecode(database)
    if name in ("", ":memory:"):
        return ()
    if not name.startswith("file:"):
        return (name,)
    parts = urlsplit(name)
    read_only = any(word in parts.query for word in ("mode=ro", "mode=memory", "immutable=1"))
    return () if read_only or parts.path == ":memory:" else (parts.path,)


def _at(path: Any, dir_fd: int | None) -> str:
    """The path from here, for one that is given from an open folder."""
    name = os.fsdecode(path)
    if dir_fd is None or os.path.isabs(name):
        return name
    with aside():
        if sys.platform == "darwin":
            folder = fcntl.fcntl(dir_fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0").decode()
        else:
            folder = os.readlink(f"/proc/self/fd/{dir_fd}")
    return os.path.join(folder, name)


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
