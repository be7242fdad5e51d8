"""Where tests keep what they throw away, and how they get a database of their own.

Most of a test's time would be spent waiting for a disk to confirm what is thrown away in the next
second. Memory confirms at once, and a process that is killed loses nothing there either; only a
machine that loses its power would. So what is temporary goes to `/dev/shm` where that has room, and
stays on disk elsewhere. TMPDIR overrides it: `TMPDIR=/tmp make test`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg

MEMORY = Path("/dev/shm")
ROOM_BYTES = 6 << 30
# A link to each server, kept: to connect takes half as long as to copy a database.
_links: dict[str, tuple[asyncio.AbstractEventLoop, asyncpg.Connection]] = {}


def choose() -> None:
    """Decide where temporary files go, for this process and those it starts."""
    # They are hundreds, and half of the time in which one starts would go into compiling.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if "TMPDIR" not in os.environ and _has_room(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None


def _has_room(folder: Path) -> bool:
    try:
        facts = os.statvfs(folder)
    except OSError:
        return False
    # Programs are run from there, too.
    usable = os.access(folder, os.W_OK) and not facts.f_flag & os.ST_NOEXEC
    return usable and facts.f_bavail * facts.f_frsize >= ROOM_BYTES


@contextmanager
def open_folder(prefix: str) -> Iterator[Path]:
    """A folder that the server's user may pass through, unlike pytest's own; gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def create(server: str, name: str, template: str = "template1") -> str:
    """The address of a new database: a copy of another one's files."""
    _execute(server, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    return server.replace("@/postgres?", f"@/{name}?")


def drop(url: str) -> None:
    """Give its room back, whoever may still be connected."""
    name = url.partition("@/")[2].partition("?")[0]
    _execute(url.replace(f"@/{name}?", "@/postgres?"), f"DROP DATABASE {name} WITH (FORCE)")


def _execute(server: str, sql: str) -> None:
    loop, link = _links.pop(server, None) or (asyncio.new_event_loop(), None)
    loop.run_until_complete(asyncio.sleep(0))  # it may have been hung up on
    if link is None or link.is_closed():
        link = loop.run_until_complete(asyncpg.connect(server))
    try:
        loop.run_until_complete(link.execute(sql))
    except BaseException:
        link.terminate()  # broken off, it would be busy for whoever comes next
        raise
    _links[server] = loop, link
