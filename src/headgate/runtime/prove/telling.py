"""Values in words that are the same in every world, and short.

Two equal values have one telling, whichever process made them. Sets are told in order, because
their order is no property of theirs; dictionaries as they are, because it is one. Only what is
known to be safe to look at is looked at: nobody's `__repr__` runs.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import is_dataclass
from itertools import islice
from pathlib import Path, PurePath
from typing import Any, cast

DEPTH = 3
ITEMS = 12
CHARACTERS = 160

_ITEMS_OF = cast("Callable[[dict[Any, Any]], Iterable[tuple[Any, Any]]]", dict.items)
_PLAIN = (type(None), bool, int, float, complex, decimal.Decimal, uuid.UUID)
_TIMES = (datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo)


class Telling:
    """Tells values; the scratch folders of its world have names that do not change."""

    def __init__(self, folders: Sequence[Path]) -> None:
        named = [(str(f), f"<{f.name}>") for f in folders]
        self._folders = sorted(named, key=lambda pair: -len(pair[0]))

    def text(self, text: str) -> str:
        for folder, name in self._folders:
            text = text.replace(folder, name)
        return text

    def value(self, value: object, depth: int = DEPTH) -> str:
        """The telling of a value."""
        match value:
            case str():
                return repr(_short(self.text(value)))
            case bytes() | bytearray():
                return _bytes(bytes(value))
            case PurePath():
                return f"Path({self.text(str(value))!r})"
            case _ if isinstance(value, _PLAIN):
                return str(value)
            case _ if isinstance(value, _TIMES):
                return str(value)
            case _ if depth == 0:
                return "…"
            case _:
                return self._made_of(value, depth - 1)

    def _made_of(self, value: Any, depth: int) -> str:
        name = type(value).__name__
        if type(value).__module__.partition(".")[0] == "headgate":
            return f"<{name}>"  # what is in there is ours, and differs from run to run
        # Exact types, and a dictionary by its own methods: an heir may do anything when walked.
        if type(value) in (set, frozenset):
            told = sorted(self.value(item, depth) for item in value)
            return f"{{{_joined(told, len(told))}}}"
        if type(value) in (list, tuple):
            return f"[{self._items(value, depth)}]"
        if isinstance(value, dict):
            return f"{{{self._pairs(cast('dict[Any, Any]', value), depth)}}}"
        if is_dataclass(value) and not isinstance(value, type) and hasattr(value, "__dict__"):
            return f"{name}({self._pairs(vars(value), depth)})"
        if type(value).__module__ != "builtins" and type(getattr(value, "__dict__", None)) is dict:
            return f"<{name} {self._pairs(vars(value), depth)}>"
        return f"<{name}>"

    def _items(self, items: Sequence[Any], depth: int) -> str:
        # The ends: that is where lists grow.
        shown = items if len(items) <= ITEMS else [*items[: ITEMS // 2], *items[-ITEMS // 2 :]]
        return _joined([self.value(item, depth) for item in shown], len(items))

    def _pairs(self, pairs: dict[Any, Any], depth: int) -> str:
        items: list[tuple[Any, Any]] = list(_ITEMS_OF(pairs))
        shown = items if len(items) <= ITEMS else [*items[: ITEMS // 2], *items[-ITEMS // 2 :]]
        told = [f"{self.value(key, depth)}: {self.value(value, depth)}" for key, value in shown]
        return _joined(told, len(items))


def _joined(told: Iterable[str], count: int) -> str:
    shown = list(islice(told, ITEMS))
    more = f", … {count} in all" if count > len(shown) else ""
    return ", ".join(shown) + more


def _short(text: str) -> str:
    if len(text) <= CHARACTERS:
        return text
    rest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{text[: CHARACTERS // 2]}… {len(text)} characters, {rest}"


def _bytes(value: bytes) -> str:
    if len(value) <= CHARACTERS:
        return repr(value)
    rest = hashlib.sha256(value).hexdigest()[:8]
    return f"{value[: CHARACTERS // 2]!r}… {len(value)} bytes, {rest}"
