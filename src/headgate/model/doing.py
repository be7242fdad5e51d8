"""Doing: which attempt this thread or task is at, for whoever writes a log line meanwhile.

A thread or a task has one holder, entered once; which attempt is in it changes with every entry and
costs an assignment. What there is to say about the attempt is put together when a line is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Protocol


class Told(Protocol):
    """An attempt that can say which one it is."""

    def said(self) -> Mapping[str, object]: ...


class Doing:
    """What is being done here; None between two entries."""

    __slots__ = ("run",)

    def __init__(self, run: Told | None = None) -> None:
        self.run = run


_doing: ContextVar[Doing | None] = ContextVar("headgate_doing", default=None)


def enter(doing: Doing) -> Doing:
    """From here on, in this thread or task, lines are about what `doing` holds."""
    _doing.set(doing)
    return doing


def begin(run: Told | None) -> None:
    """This attempt is being worked on here, if anybody entered; None: not any more."""
    if (doing := _doing.get()) is not None:
        doing.run = run


def said() -> Mapping[str, object]:
    """The attempt that is being worked on, in the fields of a log line."""
    doing = _doing.get()
    return {} if doing is None or doing.run is None else doing.run.said()
