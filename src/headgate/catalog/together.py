"""Where an item of several objects is: the places of its parts, put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.model.facts import Item

from . import place

Place = tuple[dict[str, Any] | None, tuple[float, ...] | None]


def together(items: Sequence[Item]) -> Place:
    """The geometry and the box of all parts; none where no part has a place."""
    placed = [(dict(i.geometry), i.bbox) for i in items if i.geometry is not None and i.bbox]
    if not placed:
        return None, None
    if all(geometry == placed[0][0] for geometry, _ in placed):
        return placed[0]
    box = place.bounds(place.outline(place.check(bbox)) for _, bbox in placed)
    assert box is not None, "an outline has positions"
    return place.outline(box), box
