"""One Postgres for all tests, a database of its own for each test that asks for a `world`.

`async def test_…` works without a plugin: the test runs on a fresh event loop, inside the world it
asked for, and a world is audited when its test has passed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from tests import scratch
from tests.aws.emulator import aws, aws_server
from tests.world import World

from headgate.ledger import FUNCTIONS, MIGRATIONS
from headgate.pg import Database, embedded, migrate
from headgate.runtime.loop import run

# Fixtures for every room: an emulated AWS account.
__all__ = ["aws", "aws_server"]

_NUMBERS = itertools.count(1)
scratch.choose()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Half a character in what a test logged must not keep its report from travelling."""
    report = yield
    report.sections = [
        (name, text.encode(errors="replace").decode()) for name, text in report.sections
    ]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine function to its end; anything else is left to pytest."""
    if not asyncio.iscoroutinefunction(pyfuncitem.obj):
        return None
    # pyfuncitem has every fixture that is in use, the test takes those it names.
    wanted = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in wanted}
    worlds = [value for value in arguments.values() if isinstance(value, World)]
    marked = pyfuncitem.get_closest_marker("timeout")
    seconds = marked.args[0] if marked else 120

    async def main() -> None:
        # A little sooner than pytest itself: then there is a traceback that says where it stood.
        async with asyncio.timeout(seconds - 10):
            for world in worlds:
                await world.open()
            try:
                await pyfuncitem.obj(**arguments)
                for world in worlds:
                    await world.audit()
            finally:
                for world in worlds:
                    await world.close()

    run(main)
    return True


@pytest.fixture(scope="session")
def worlds_server() -> Iterator[str]:
    """The address of a server whose database `template_world` holds an empty ledger."""
    with scratch.open_folder("hg-world-") as folder, embedded.start(folder / "home") as server:
        template = scratch.create(server.url, "template_world")
        run(lambda: _migrate(template))
        yield server.url


@pytest.fixture
def ledger(worlds_server: str) -> Iterator[str]:
    """The address of a ledger that is empty, and gone after the test."""
    url = scratch.create(worlds_server, f"world_{next(_NUMBERS)}", "template_world")
    yield url
    scratch.drop(url)


@pytest.fixture
def world(ledger: str, tmp_path: Path) -> World:
    """An empty ledger, a folder with `incoming/` and `lake/`, and ways to make things happen."""
    return World(ledger, tmp_path)


async def _migrate(url: str) -> None:
    async with await Database.open(url, max_size=1) as db:
        await migrate.migrate(db, MIGRATIONS, FUNCTIONS)
        # Or each copy would find out by itself which rows of its catalog are there for good. The
        # ledger's own tables stay as a migration leaves them: plans depend on it.
        for (table,) in await db.fetch(
            "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND NOT relisshared"
            " AND relnamespace = 'pg_catalog'::regnamespace"
        ):
            await db.execute(f"VACUUM (FREEZE) {table}")
    # Whoever comes first writes down what all need to know. That is copied too.
    async with await Database.open(url, max_size=1):
        pass
