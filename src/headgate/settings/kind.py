"""Kinds: what a setting may be, in words and as the function that reads it.

A value comes as text (environment, options) or as TOML's types; both are read by the same function,
which raises ValueError for what it does not take. The words end up in the error and in the docs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from headgate.errors import UsageError

T = TypeVar("T")
_YES = {"true", "yes", "on", "1"}
_NO = {"false", "no", "off", "0"}


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """What a value may be."""

    allowed: str
    read: Callable[[object], T]


def seconds(low: float, high: float) -> Kind[float]:
    def read(raw: object) -> float:
        return _between(low, _seconds(raw), high)

    return Kind(f"{low:,g} to {high:,} seconds, or with a unit as in 500ms, 15m, 6h", read)


def share() -> Kind[float]:
    def read(raw: object) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float | str):
            raise ValueError
        return _between(0, float(raw), 1)

    return Kind("a share, 0 to 1", read)


def number(low: float, high: float) -> Kind[float]:
    def read(raw: object) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float | str):
            raise ValueError
        return _between(low, float(raw), high)

    return Kind(f"a number, {low:,g} to {high:,g}", read)


def whole(low: int, high: int) -> Kind[int]:
    def read(raw: object) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int | str):
            raise ValueError
        value = int(raw)
        _between(low, value, high)
        return value

    return Kind(f"a whole number, {low:,} to {high:,}", read)


def one_of(*words: str) -> Kind[str]:
    def read(raw: object) -> str:
        if (word := _text(raw).lower()) not in words:
            raise ValueError
        return word

    return Kind(", ".join(words[:-1]) + f" or {words[-1]}", read)


def matching(pattern: str, allowed: str) -> Kind[str]:
    def read(raw: object) -> str:
        if not re.fullmatch(pattern, text := _text(raw)):
            raise ValueError
        return text

    return Kind(allowed, read)


def flag() -> Kind[bool]:
    def read(raw: object) -> bool:
        if isinstance(raw, bool):
            return raw
        if (said := _text(raw).lower()) not in _YES | _NO:
            raise ValueError
        return said in _YES

    return Kind("true or false", read)


def folder() -> Kind[Path]:
    def read(raw: object) -> Path:
        if not (text := _text(raw)) or "\0" in text:
            raise ValueError
        # Not Path.expanduser: it raises when nobody knows where home is.
        return Path(os.path.expanduser(text))

    return Kind("a path", read)


def egress() -> Kind[str]:
    def read(raw: object) -> str:
        from headgate.net.guard import Guard

        try:
            Guard(text := _text(raw))
        except UsageError as error:
            raise ValueError from error
        return text

    return Kind("hosts, .suffixes, addresses or networks, with :port if you like", read)


def layout() -> Kind[str]:
    def read(raw: object) -> str:
        from headgate.model.layout import parse

        return parse(_text(raw)).text

    return Kind(
        "plain, kfm, or folders inside a store, none in another: runs=audit/runs,prov=audit/prov",
        read,
    )


def crash_point() -> Kind[str]:
    def read(raw: object) -> str:
        from headgate.model.entry import Point

        if text := _text(raw):
            Point(split_crash_point(text)[0])
        return text

    return Kind("a point of the path, or point:n", read)


def split_crash_point(text: str) -> tuple[str, int]:
    """`before:claim:3` is the third visit of `before:claim`; without a number it is the first."""
    point, _, visit = text.rpartition(":")
    return (point, int(visit)) if visit.isdecimal() else (text, 1)


def _text(raw: object) -> str:
    if not isinstance(raw, str | Path):
        raise ValueError
    return str(raw)


def _seconds(raw: object) -> float:
    """A number of seconds, or a duration as people write it."""
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        raise ValueError
    try:
        return float(raw)
    except ValueError:
        from headgate.model.duration import seconds as written

        try:
            return written(raw)
        except UsageError as error:
            raise ValueError from error


def _between(low: float, value: float, high: float) -> float:
    # Asked this way round, so that NaN is refused too.
    if not low <= value <= high:
        raise ValueError
    return value
