"""Lists, a page at a time, the newest first.

What is rare could be anywhere among a million. A page is looked for in stretches that grow, and a
caller who must answer in time says how many entries may be looked at: then a page can be short and
have more behind it, and says where to go on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

WIDEST = 5_000


class Numbered(Protocol):
    """A row of a list: what an entry has to do with it."""

    @property
    def entry(self) -> int: ...


T = TypeVar("T", bound=Numbered)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some rows. The next page begins below `before`, if there is or may be `more`."""

    rows: list[T]
    before: int
    more: bool


def cut(rows: list[T], limit: int, below: int, *, more: bool = False) -> Page[T]:
    """A page of what was found, where one row more than the limit says that there are more."""
    if len(rows) > limit:
        return Page(rows[:limit], rows[limit - 1].entry, True)
    return Page(rows, below, more)


async def search(
    look: Callable[[int, int, int], Awaitable[list[T]]], below: int, limit: int, effort: int | None
) -> Page[T]:
    """A page of what `look` finds below an entry: `look(below, down to, at most)`.

    `effort` is how many entries may be looked at; None: as many as it takes.
    """
    found: list[T] = []
    looked, width, place = 0, 2 * (limit + 1), below
    while place > 1 and len(found) <= limit and (effort is None or looked < effort):
        low = max(place - width, 1)
        found += await look(place, low, limit + 1 - len(found))
        looked, width, place = looked + place - low, min(4 * width, WIDEST), low
    return cut(found, limit, place, more=place > 1)
