"""`raised`: the error a call must end in. Importing the suites thus needs no pytest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

E = TypeVar("E", bound=Exception)


def raised(kind: type[E], call: Callable[[], object]) -> E:
    """Call it and return the error. Fails when there is none, or one of another kind."""
    try:
        result = call()
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}, got {result!r}")
