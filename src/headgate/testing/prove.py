"""The pytest fixture `prove`: `headgate prove` as a test, with the same words.

    # conftest.py
    pytest_plugins = ["headgate.testing.prove"]

    # test_rain.py
    def test_rain_has_one_effect(prove):
        prove("rain.py", "samples/monday.csv", "samples/tuesday.csv")

All tests of a run share one server, which the first of them starts.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .prover import Prover

__all__ = ["prove"]


@pytest.fixture(scope="session")
def prove() -> Iterator[Prover]:
    """Proves a pipeline on samples, or fails with what is wrong and how to put it right."""
    with Prover() as prover:
        yield prover
