"""`@hg.once`: a function whose work is done once per key, however often it is called.

    @hg.once("charge", key="order_id")
    def charge(order_id: str, amount: int) -> dict: ...

The key is made of the arguments that are named, or of what a function of the same arguments gives.
The other arguments are the payload, as far as they are plain values: the same key with another
payload is a conflict, and not somebody else's result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from headgate.errors import InProgress, UsageError
from headgate.model.identity import plain_digest

from .operation import Operation, operation

P = ParamSpec("P")
R = TypeVar("R")
Chosen = str | Sequence[str] | Callable[..., Any] | None


def once(
    name: str | None = None, *, key: Chosen = None, payload: Chosen = None, **how: Any
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Do a function's work once per key; later calls get its stored result.

    `how` is what `hg.operation` takes. A function that has a parameter `op` is given the
    operation, for `op.tx` and `op.call`; callers leave it out. With `in_progress="skip"` a call
    returns None while another one is at it.
    """

    def decorate(decorated: Callable[P, R]) -> Callable[P, R]:
        function = cast("Callable[..., Any]", decorated)
        signature = inspect.signature(function)
        called = name or function.__qualname__.replace("<locals>.", "")
        wanted = [p for p in signature.parameters if p != "op"]
        key_of = _chooser(called, "key", key, wanted)
        payload_of = _chooser(called, "payload", payload, wanted)
        gives_op = "op" in signature.parameters
        skips = how.get("in_progress") == "skip"

        def begin(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Operation:
            bound = signature.bind_partial(*args, **kwargs)
            bound.apply_defaults()
            given = {p: v for p, v in bound.arguments.items() if p != "op"}
            told = payload_of(given) if payload is not None else _others(given, key)
            return operation(called, key=key_of(given), payload=told, **how)

        def more(op: Operation) -> dict[str, Any]:
            return {"op": op} if gives_op else {}

        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                try:
                    async with begin(args, kwargs) as op:
                        if op.done:
                            return op.result
                        op.result = await function(*args, **kwargs, **more(op))
                except InProgress:
                    if skips:
                        return None
                    raise
                return op.result

            return cast("Callable[P, R]", awaited)

        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise UsageError(
                f"@hg.once on {called}: a generator gives its results piece by piece",
                hint="Return a list, or use hg.operation inside the function.",
            )

        @wraps(function)
        def plain(*args: Any, **kwargs: Any) -> Any:
            try:
                with begin(args, kwargs) as op:
                    if op.done:
                        return op.result
                    op.result = function(*args, **kwargs, **more(op))
            except InProgress:
                if skips:
                    return None
                raise
            return op.result

        return cast("Callable[P, R]", plain)

    return decorate


def _chooser(
    called: str, what: str, chosen: Chosen, parameters: Sequence[str]
) -> Callable[[Mapping[str, Any]], Any]:
    """What makes the key (or the payload) out of a call's arguments."""
    if callable(chosen):
        return lambda given: chosen(**given)
    names = (
        [chosen] if isinstance(chosen, str) else list(chosen if chosen is not None else parameters)
    )
    if unknown := [name for name in names if name not in parameters]:
        raise UsageError(
            f"@hg.once on {called}: {what} names {', '.join(unknown)}, which it does not take",
            hint=f"It takes {', '.join(parameters) or 'nothing'}.",
        )
    return lambda given: {name: given.get(name) for name in names}


def _others(given: Mapping[str, Any], key: Chosen) -> dict[str, Any] | None:
    """The arguments beside the key that can be compared: plain values."""
    if key is None or callable(key):
        return None
    names = {key} if isinstance(key, str) else set(key)
    return {n: v for n, v in given.items() if n not in names and _is_plain(v)} or None


def _is_plain(value: Any) -> bool:
    try:
        plain_digest(value, "payload")
    except TypeError:
        return False
    return True
