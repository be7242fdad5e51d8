"""Where an item of several objects is: the place of each, put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.model.facts import Item

Place = tuple[dict[str, Any] | None, tuple[float, ...] | None]


def together(items: Sequence[Item]) -> Place:
    """The geometry and the box of all parts; none where no part has a place."""
    placed = [i for i in items if i.geometry is not None and i.bbox is not None]
    if not placed:
        return None, None
    first = placed[0]
    if all(i.geometry == first.geometry for i in placed):
        return dict(first.geometry or {}), first.bbox
    boxes = [i.bbox for i in placed if i.bbox is not None]
    south, north = min(b[1] for b in boxes), max(b[len(b) // 2 + 1] for b in boxes)
    west, east = min(b[0] for b in boxes), max(b[len(b) // 2] for b in boxes)
    if any(b[0] > b[len(b) // 2] for b in boxes):
        west, east = -180.0, 180.0
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {"type": "Polygon", "coordinates": [ring]}, (west, south, east, north)
