"""One world for all of these tests, built once; each test breaks a copy."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest
from tests.verify import world

from headgate.pg import embedded

Copy = Callable[[], AbstractAsyncContextManager[world.World]]


@pytest.fixture(scope="session")
def copy_of_world() -> Iterator[Copy]:
    """`async with copy_of_world() as w:` gives a copy that is the test's own."""
    base = Path(tempfile.mkdtemp(prefix="hg-verify-", dir="/tmp"))
    base.chmod(0o711)
    try:
        with embedded.start(base / "home") as server:
            folder = base / "world"
            folder.mkdir()
            template = world.make(server, folder)
            yield partial(world.copied, server, template, folder)
    finally:
        shutil.rmtree(base, ignore_errors=True)
