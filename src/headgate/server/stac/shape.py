"""Shapes: whether an item is really where somebody searches, and not only its bounding box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import orjson
import shapely
from shapely import affinity
from shapely.geometry.base import BaseGeometry

from headgate.ledger.search import Box
from headgate.model.facts import Facts
from headgate.server.problem import Refusal


class Shape(Protocol):
    """A place that is searched."""

    def meets(self, parts: Sequence[Facts]) -> bool:
        """Is one of these there?"""
        ...


class _Area:
    """A geometry, and the same 360 degrees further east: some items lie beyond 180."""

    def __init__(self, geometry: BaseGeometry, whole: bool) -> None:
        self._geometry = geometry
        self._fills_its_box = whole
        shapely.prepare(geometry)

    def meets(self, parts: Sequence[Facts]) -> bool:
        return any(self._is_there(part) for part in parts)

    def _is_there(self, part: Facts) -> bool:
        item = part.item
        if item is None or item.bbox is None:
            return False
        half = len(item.bbox) // 2
        (west, south), (east, north) = item.bbox[:2], item.bbox[half : half + 2]
        bounds = shapely.box(west, south, east if west <= east else east + 360, north)
        # Most items lie inside the box that is searched: then what they look like does not matter.
        if self._fills_its_box and self._geometry.covers(bounds):
            return True
        exact = _geometry(item.geometry)
        return bool(self._geometry.intersects(bounds if exact is None else exact))


def of_boxes(boxes: tuple[Box, Box]) -> Shape:
    """The place that two boxes cover."""
    return _Area(shapely.MultiPolygon([shapely.box(*low, *high) for low, high in boxes]), True)


def of_geojson(said: object) -> tuple[Shape, tuple[Box, Box]]:
    """The place that a GeoJSON geometry covers, and the boxes around it. Raises `Refusal`."""
    geometry = _geometry(said) if isinstance(said, dict) else None
    if geometry is None or geometry.is_empty:
        raise _refusal("it is a GeoJSON geometry, with coordinates")
    if not geometry.is_valid:
        raise _refusal("its lines cross themselves, or a ring is not one")
    west, south, east, north = geometry.bounds
    if not (-180 <= west <= east <= 180 and -90 <= south <= north <= 90):
        raise _refusal("longitudes are -180 to 180 and latitudes -90 to 90")
    further = affinity.translate(geometry, 360.0)
    area = _Area(shapely.GeometryCollection([geometry, further]), False)
    return area, (((west, south), (east, north)), ((west + 360, south), (east + 360, north)))


def _geometry(said: Any) -> BaseGeometry | None:
    try:
        return None if said is None else shapely.from_geojson(orjson.dumps(said))
    except (shapely.GEOSException, ValueError, TypeError):
        return None


def _refusal(why: str) -> Refusal:
    return Refusal("search_refused", f"intersects: {why}", parameter="intersects")
