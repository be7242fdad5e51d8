"""The throw-away server: Headgate's embedded one with its defaults, an empty database per run."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from headgate.pg import embedded


class Place:
    """A running server and a folder, both gone afterwards."""

    def __init__(self, url: str, folder: Path) -> None:
        self._admin = url
        self.folder = folder
        self._folders = 0
        self._databases: list[str] = []

    def new_folder(self, name: str) -> Path:
        """A folder that nobody has used; it stays until the end of the go."""
        self._folders += 1
        made = self.folder / f"{name}-{self._folders}"
        made.mkdir()
        return made

    async def fresh(self) -> str:
        """The address of an empty database; whoever is still in another one is shown out.

        Like folders, databases stay until the end of the go: thousands of removed files make new
        ones several times slower on ext4, for minutes.
        """
        name = f"bench_{secrets.token_hex(6)}"
        link = await asyncpg.connect(self._admin)
        try:
            await link.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = ANY ($1::text[])",
                self._databases,
            )
            await link.execute(f"CREATE DATABASE {name}")
            await link.execute("CHECKPOINT")
        finally:
            await link.close()
        self._databases.append(name)
        return urlunsplit(urlsplit(self._admin)._replace(path=f"/{name}"))

    async def drop(self) -> None:
        """Remove its databases, where the server stays."""
        link = await asyncpg.connect(self._admin)
        try:
            while self._databases:
                await link.execute(f"DROP DATABASE {self._databases.pop()} WITH (FORCE)")
        finally:
            await link.close()

    async def checkpoint(self) -> None:
        link = await asyncpg.connect(self._admin)
        try:
            await link.execute("CHECKPOINT")
        finally:
            await link.close()

    async def wal_position(self) -> int:
        """Bytes of WAL that this server has ever written."""
        link = await asyncpg.connect(self._admin)
        try:
            return await link.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        finally:
            await link.close()

    async def facts(self) -> dict[str, str]:
        """What the server runs with, as far as it matters for a figure."""
        link = await asyncpg.connect(self._admin)
        try:
            names = ("server_version", "fsync", "synchronous_commit", "shared_buffers",
                     "max_wal_size", "wal_compression")  # fmt: skip
            return {name: await link.fetchval("SELECT current_setting($1)", name) for name in names}
        finally:
            await link.close()


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for one go. TMPDIR decides on which disk."""
    here = Path(tempfile.mkdtemp(prefix="hg-bench-"))
    here.chmod(0o711)  # the server's user has to pass through
    try:
        yield here
    finally:
        shutil.rmtree(here, ignore_errors=True)


@contextmanager
def serving() -> Iterator[Place]:
    """A server for one go."""
    with folder() as here, embedded.start(here / "home") as server:
        yield Place(server.url, here)


def filesystem(path: Path) -> str:
    """The kind of filesystem a path is on, or "unknown"."""
    best, kind = "", "unknown"
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8")
    except OSError:
        return kind
    for line in mounts.splitlines():
        _, at, found, *_ = line.split()
        if os.path.commonpath([at, path]) == at and len(at) >= len(best):
            best, kind = at, found
    return kind
