"""A real server for these tests, and a database of its own for each test that asks for one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import scratch
from tests.pg.processes import settled

from headgate.pg import Server, embedded

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Path]:
    """A folder that the server's user may pass through, unlike pytest's own."""
    with scratch.open_folder("hg-test-") as folder:
        yield folder


@pytest.fixture
def home(open_folder: Path) -> Path:
    """A home nobody used before."""
    return open_folder / f"home{next(_NUMBERS)}"


@pytest.fixture(scope="session")
def _lived_in(open_folder: Path) -> Path:
    home = open_folder / "lived-in"
    embedded.start(home).close()
    return home


@pytest.fixture
def stopped_home(_lived_in: Path) -> Path:
    """A home with a database in it, whose server is not running. Leave it fit for the next."""
    settled(_lived_in)
    return _lived_in


@pytest.fixture(scope="session")
def server(open_folder: Path) -> Iterator[Server]:
    """One server for all tests that do not break it."""
    with embedded.start(open_folder / "shared") as server:
        yield server


@pytest.fixture
def url(server: Server) -> str:
    """The address of an empty database."""
    return new_database(server)


def new_database(server: Server) -> str:
    return scratch.create(server.url, f"test_{next(_NUMBERS)}")
