"""The way of an operation: a generator that stops where something is awaited or called.

One text serves `with` and `async with`: whoever drives it awaits what is `Away` on the background
loop and calls what is `Here` where the caller is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple, TypeVar

from .trip import Begin, Make, in_task

T = TypeVar("T")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Away(NamedTuple):
    """To be begun on the background loop; if `whole`, an interrupted caller waits for its end."""

    begin: Begin
    whole: bool = False


def away(make: Make, *, whole: bool = False) -> Away:
    return Away(partial(in_task, make), whole)


class Here(NamedTuple):
    """The caller's own code, to be called (and awaited, if it is to be) where the caller is."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()


Way = Generator[Away | Here, Any, T]


def takes(function: Callable[..., Any]) -> bool:
    """Does it need an argument? One with a default is the caller's own, as in `lambda n=n: …`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.default is p.empty and p.kind in _POSITIONAL for p in parameters)
