"""Sets travel as arrays, one per column. Encoding them is much of what a batch costs in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

T = TypeVar("T")


def column(values: list[T]) -> list[T]:
    """A column of a batch; only its first value when all are the same (`spread` in arrays.sql)."""
    return values[:1] if values and values.count(values[0]) == len(values) else values


def literal(texts: Sequence[str | None]) -> str:
    """Texts as one text that Postgres reads as an array: it travels in half the time."""
    if not texts:
        return "{}"
    try:
        told = '","'.join(cast(Sequence[str], texts))
    except TypeError:  # one of them is None
        return f"{{{','.join(map(_element, texts))}}}"
    if "\\" in told or told.count('"') != 2 * (len(texts) - 1):
        return f"{{{','.join(map(_element, texts))}}}"
    return f'{{"{told}"}}'


def _element(text: str | None) -> str:
    if text is None:
        return "NULL"
    escaped = str.replace(text, "\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
