"""A server for these tests, and places where `up` runs."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.pg.conftest import new_database
from tests.promises.processes import Place

from headgate.pg import Server, embedded

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def ground() -> Iterator[Path]:
    """A folder that the server's user may pass through, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="hg-up-", dir="/tmp")).resolve()
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def shared_server(ground: Path) -> Iterator[Server]:
    """One server for all tests that do not break it."""
    with embedded.start(ground / "shared") as server:
        yield server


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
def place(new_place: Path, shared_server: Server) -> Place:
    """A place with a database of its own on the shared server."""
    return Place(new_place, new_database(shared_server))
