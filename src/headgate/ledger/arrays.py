"""Sets travel as arrays, one per column. Encoding them is much of what a batch costs in Python."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def column(values: list[T]) -> list[T]:
    """A column of a batch; only its first value when all are the same (`spread` in arrays.sql)."""
    return values[:1] if values and values.count(values[0]) == len(values) else values


def literal(texts: list[str]) -> str:
    """Texts as one text that Postgres reads as an array: it travels in half the time."""
    told = '","'.join(texts)
    if "\\" in told or told.count('"') != 2 * (len(texts) - 1):
        told = '","'.join(t.replace("\\", "\\\\").replace('"', '\\"') for t in texts)
    return f'{{"{told}"}}' if texts else "{}"
