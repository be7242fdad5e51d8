"""One world for all of these tests, built once; each test breaks a copy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.verify.world import Copy, standing


@pytest.fixture(scope="session")
def copy_of_world() -> Iterator[Copy]:
    """`async with copy_of_world() as world:` gives a copy that is the test's own."""
    with standing() as copies:
        yield copies
