"""What a function is: the code behind decorators, in a text that is the same in every process."""

from __future__ import annotations

import inspect
from functools import partial
from types import CodeType
from typing import Any, cast


def called(function: Any) -> Any:
    """The function whose body runs: behind a `partial`, or an object that can be called."""
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    if inspect.isroutine(function) or inspect.isclass(function) or not callable(function):
        return function
    return cast("Any", type(function)).__call__


def code_of(function: Any) -> str:
    """What a function does, as its author wrote it, under whatever decorators."""
    return _text(getattr(inspect.unwrap(called(function)), "__code__", None))


def _text(code: object) -> str:
    """What a function does, in a text that is the same in every process and however it is laid out.

    A code object's own text has its address and line in it, and a set's has an order by chance.
    """
    match code:
        case CodeType():
            names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
            consts = ",".join(_text(const) for const in code.co_consts)
            return f"code({code.co_code.hex()} {names!r} [{consts}])"
        case tuple():
            return f"({','.join(_text(item) for item in cast('tuple[object, ...]', code))})"
        case frozenset():
            items = sorted(_text(item) for item in cast("frozenset[object]", code))
            return f"{{{','.join(items)}}}"
        case _:
            return repr(code)
