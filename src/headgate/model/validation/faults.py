"""Faults: which rules rows break, and how often, in memory that does not grow with the rows.

What is kept does not depend on the order of the rows: the rules that sort first, their counts, and
of what broke a rule the text that sorts first.
"""

from __future__ import annotations

KEPT = 20
SHOWN = 5
EXAMPLE_CHARACTERS = 120


class Faults:
    """Broken rules, each with its place, counted."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], tuple[int, str]] = {}
        self._last: tuple[str, str] | None = None  # the one that goes first when there are too many

    def add(self, place: str, rule: str, example: str = "", times: int = 1) -> None:
        key = (place, rule)
        known = self._found.get(key)
        if known is None and self._last is not None and key > self._last:
            return  # it can never be among the first ones again
        example = _short(example)
        count, least = known or (0, example)
        self._found[key] = (count + times, min(least, example))
        if known is None and len(self._found) >= KEPT:
            if len(self._found) > KEPT:
                del self._found[max(self._found)]
            self._last = max(self._found)

    def text(self) -> str:
        """The rules that are broken most often, in one line."""
        ranked = sorted(self._found.items(), key=lambda item: (-item[1][0], item[0]))
        told = "; ".join(_words(*key, *found) for key, found in ranked[:SHOWN])
        more = len(ranked) - SHOWN
        return f"{told}; and {more} more" if more > 0 else told


def _short(text: str) -> str:
    """Cut between words: half a secret would not be seen as one."""
    if len(text) <= EXAMPLE_CHARACTERS:
        return text
    return f"{text[:EXAMPLE_CHARACTERS].rpartition(' ')[0]} …".lstrip()


def _words(place: str, rule: str, count: int, example: str) -> str:
    said = f"{place}: {rule}" if place else rule
    said += f" ({count} times)" if count > 1 else ""
    return f"{said}, as in: {example}" if example else said
