"""Places where `up` runs."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from tests.promises.processes import Place

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def ground() -> Iterator[Path]:
    """A folder that the server's user may pass through, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="hg-up-", dir="/tmp")).resolve()
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def new_place(ground: Path) -> Iterator[Path]:
    """A folder nobody used before. Nothing that runs in it outlives the test."""
    folder = ground / f"place{next(_NUMBERS)}"
    folder.mkdir(0o711)
    yield folder
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(folder):
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            continue


@pytest.fixture
def place(new_place: Path, worlds_server: str) -> Place:
    """A place with a ledger of its own on the server that all tests share."""
    name = f"place_{next(_NUMBERS)}"

    async def create() -> None:
        connection = await asyncpg.connect(worlds_server)
        await connection.execute(f"CREATE DATABASE {name} TEMPLATE template_world")
        await connection.close()

    asyncio.run(create())
    return Place(new_place, worlds_server.replace("@/postgres?", f"@/{name}?"))
