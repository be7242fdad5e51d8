"""Places where `up` runs."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import scratch
from tests.promises.processes import Place

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def ground() -> Iterator[Path]:
    """A folder that the server's user may pass through, unlike pytest's own."""
    with scratch.open_folder("hg-up-") as folder:
        yield folder


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
def place(ledger: str, new_place: Path) -> Iterator[Place]:
    """A place with a ledger of its own on the server that all tests share."""
    with Place(new_place, ledger).kept_link() as place:
        yield place
