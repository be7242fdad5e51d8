"""Steps: the handlers of a pipeline and how to call them, checked where they are declared."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headgate.errors import PipelineError

from .code import called, code_of
from .object import Object
from .rows import Table
from .validation.contract import Contract


@dataclass(frozen=True, slots=True)
class Step:
    """A handler and how to call it."""

    function: Callable[..., Any]
    name: str
    is_async: bool
    takes: int
    contract: Contract | None = None  # what it checks by, where that is no code of the author's


@dataclass(frozen=True, slots=True)
class RowsStep:
    """A handler that yields rows of one table."""

    step: Step
    table: Table


@dataclass(frozen=True, slots=True)
class ApplyStep:
    """A handler that runs SQL of its own in the finalize transaction, and what takes that back."""

    step: Step
    independent: bool
    undo: Step | None = None


@dataclass(frozen=True, slots=True)
class ItemStep:
    """A handler that says what a catalog shows of an object. `of` names the item it is part of."""

    step: Step
    of: Callable[[Object], str] | None
    wants_pystac: bool


def step_of(
    pipeline: str,
    function: Any,
    wanted: tuple[str, ...],
    *,
    least: int,
    kind: str,
    yields: bool = True,
) -> Step:
    """A handler as a step. Raises `PipelineError` with the right signature in its hint."""
    body = called(function)
    name = getattr(body, "__qualname__", type(body).__qualname__)
    right = f"def {getattr(body, '__name__', 'handler')}({', '.join(wanted)})"
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise PipelineError(
            f"{pipeline}.{kind}: {name} is not a function", hint=f"write: {right}"
        ) from None
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in plain if p.default is p.empty]
    demanding = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if not least <= len(required) <= len(wanted) or demanding:
        given = f"({', '.join(str(p) for p in parameters)})"
        raise PipelineError(
            f"{pipeline}.{kind}: {name}{given} has the wrong signature", hint=f"write: {right}"
        )
    generates = inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body)
    if generates and not yields:
        raise PipelineError(
            f"{pipeline}.{kind}: {name} yields, so calling it would run none of it",
            hint=f"write: {right}, without yield",
        )
    is_async = inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body)
    return Step(function, name, is_async, len(required))


def content_of(step: Step) -> str:
    """What a step does: its code, or what its contract demands."""
    return code_of(step.function) if step.contract is None else step.contract.digest


def first_annotation(function: Any) -> str:
    """What a handler's first parameter is said to be, as `module.Name` where that is a class."""
    try:
        parameters = inspect.signature(function, eval_str=True).parameters
    except Exception:  # a name that only the type checker imports
        parameters = inspect.signature(function).parameters
    said: object = next(iter(parameters.values())).annotation
    if isinstance(said, type):
        # Where a package keeps a class is its own business; what it is imported from is public.
        return f"{said.__module__.partition('.')[0].partition('_')[0]}.{said.__qualname__}"
    return said if isinstance(said, str) else ""
