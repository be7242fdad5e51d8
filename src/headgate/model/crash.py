"""Crash points: named places in the path where a test (or `prove`) pulls the plug.

The path calls `reached(point)`; nothing happens unless someone armed a handler, which then usually
kills its own process. One dictionary look-up when nobody did.
"""

from __future__ import annotations

from collections.abc import Callable

from .entry import Point
from .operation import Moment

_armed: dict[Point | Moment, Callable[[], None]] = {}


def arm(point: Point | Moment, action: Callable[[], None]) -> None:
    """Run `action` each time the path reaches `point`."""
    _armed[point] = action


def disarm() -> None:
    """Forget every armed point."""
    _armed.clear()


def reached(point: Point | Moment) -> None:
    """The path is here. Does nothing unless a test armed this point."""
    if _armed and (action := _armed.get(point)) is not None:
        action()
