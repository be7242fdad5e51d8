"""The command as people run it: a process, an exit code, what it says where.

One server serves all tests; each one that changes something has a database of its own in it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headgate.pg import Database, Server, embedded

_NUMBERS = itertools.count(1)
_CLEAN = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("HEADGATE_", "PG", "COLUMNS", "FORCE_COLOR"))
}


@dataclass(frozen=True)
class Said:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Headgate:
    """The command, in a folder, with an environment of its own."""

    folder: Path
    env: dict[str, str]

    def __call__(self, *args: str, **env: str) -> Said:
        done = subprocess.run(
            [sys.executable, "-m", "headgate", *args],
            cwd=self.folder,
            env={**_CLEAN, **self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "headgate", *args],
            cwd=self.folder,
            env={**_CLEAN, **self.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Path]:
    """A folder that the server's user may pass through, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="hg-cli-", dir="/tmp"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def server(open_folder: Path) -> Iterator[Server]:
    """One server for all of these tests."""
    with embedded.start(open_folder / "shared") as server:
        yield server


def new_database(server: Server) -> str:
    """The address of an empty database."""
    name = f"cli_{next(_NUMBERS)}"

    async def create() -> None:
        async with await Database.open(server.url) as db:
            await db.execute(f"CREATE DATABASE {name}")

    asyncio.run(create())
    return server.url.replace("@/postgres?", f"@/{name}?")


@pytest.fixture
def url(server: Server) -> str:
    """The address of an empty database."""
    return new_database(server)


@pytest.fixture
def headgate(tmp_path: Path, url: str) -> Headgate:
    """The command, in an empty folder, on an empty database."""
    return Headgate(tmp_path, {"HEADGATE_DATABASE_URL": url})


@pytest.fixture
def bare(tmp_path: Path) -> Headgate:
    """The command, in an empty folder, with nothing set."""
    return Headgate(tmp_path, {})


@pytest.fixture(scope="session")
def world(open_folder: Path, server: Server) -> Headgate:
    """A pipeline that has taken in two good files and two bad ones. Look, but change nothing."""
    folder = open_folder / "world"
    headgate = Headgate(folder, {"HEADGATE_DATABASE_URL": new_database(server)})
    folder.mkdir()
    populate(headgate)
    return headgate


def populate(headgate: Headgate) -> Said:
    """Take in two good files and two bad ones."""
    assert headgate("init").code == 0
    pipeline = headgate.folder / "rain.py"
    pipeline.write_text(pipeline.read_text().replace('"incoming/")', '"incoming/", settle=0)'))
    (headgate.folder / "incoming" / "empty.csv").write_text("")
    (headgate.folder / "incoming" / "bad.csv").write_text("station,at,mm\noslo-1,yesterday,1\n")
    done = headgate("up", "rain.py", "--until-idle", "--workers", "1")
    assert done.code == 0, done.err
    return done
