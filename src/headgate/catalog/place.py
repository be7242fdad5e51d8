"""Places on the earth: bounding boxes of GeoJSON geometries, and outlines of bounding boxes.

Everything is in degrees, longitude first, and flat: a footprint has no altitude. A box whose west
is greater than its east crosses the antimeridian, as in RFC 7946.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

Box = tuple[float, float, float, float]
Geometry = dict[str, Any]

# How deep a geometry's positions are. A collection of geometries is no geometry of an item.
DEPTHS = {
    "Point": 0,
    "MultiPoint": 1,
    "LineString": 1,
    "MultiLineString": 2,
    "Polygon": 2,
    "MultiPolygon": 3,
}
# A pole that was computed may lie a hair beyond itself; a metre of another grid never does.
_HAIR = 1e-6
# Whoever counts from 0 to 360, or on past the antimeridian, ends here.
_FURTHEST = 540.0


class Misplaced(ValueError):
    """No place on the earth in degrees: another kind of coordinates, or none at all."""


def bounds(geometries: Iterable[Mapping[str, Any]]) -> Box | None:
    """The smallest box around these geometries; None when they have no position at all.

    What lies within half of the world across the antimeridian gets a box that crosses it. Raises
    `Misplaced` where the coordinates are no degrees, and whatever a malformed geometry leads to.
    """
    spans: list[tuple[float, float]] = []
    souths: list[float] = []
    norths: list[float] = []
    for part in (part for g in geometries for part in _parts(g)):
        longitudes, latitudes, *_ = zip(*part, strict=False)  # some may have an altitude
        if not math.isfinite(sum(longitudes) + sum(latitudes)):
            raise Misplaced("a coordinate is no number")
        spans.append((min(longitudes), max(longitudes)))
        souths.append(min(latitudes))
        norths.append(max(latitudes))
    if not spans:
        return None
    west, east = _span(spans)
    return check((west, min(souths), east, max(norths)))


def check(box: Sequence[float]) -> Box:
    """A box of degrees, as four numbers. Raises `Misplaced` when it is none."""
    if len(box) not in (4, 6):
        raise Misplaced(f"a bbox has four numbers, or six with altitudes, and not {len(box)}")
    half = len(box) // 2
    west, south, east, north = map(float, (box[0], box[1], box[half], box[half + 1]))
    if not all(map(math.isfinite, (west, south, east, north))):
        raise Misplaced("a coordinate is no number")
    if not -90 - _HAIR <= south <= north <= 90 + _HAIR or max(abs(west), abs(east)) > 180 + _HAIR:
        raise Misplaced(f"{west:g}, {south:g}, {east:g}, {north:g} are no degrees")
    return _within(west, 180), _within(south, 90), _within(east, 180), _within(north, 90)


def outline(box: Box) -> Geometry:
    """A box as a geometry: two parts where it crosses the antimeridian, as RFC 7946 wants it."""
    west, south, east, north = box
    if west > east:
        parts = ((west, south, 180.0, north), (-180.0, south, east, north))
        return {"type": "MultiPolygon", "coordinates": [[_ring(part)] for part in parts]}
    if west == east and south == north:
        return {"type": "Point", "coordinates": [west, south]}
    if west == east or south == north:
        return {"type": "LineString", "coordinates": [[west, south], [east, north]]}
    return {"type": "Polygon", "coordinates": [_ring(box)]}


def flat(geometry: Mapping[str, Any]) -> Geometry:
    """The geometry alone, without altitudes and without whatever else was said beside it."""
    kind = geometry["type"]
    return {"type": kind, "coordinates": _flat(geometry["coordinates"], DEPTHS[kind])}


def positions(geometry: Mapping[str, Any]) -> Iterator[Sequence[float]]:
    """Its positions, one after the other."""
    for part in _parts(geometry):
        yield from part


def _parts(geometry: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
    """Lists of positions that hang together. Holes are inside their ring and add nothing."""
    kind, coordinates = geometry["type"], geometry["coordinates"]
    match kind:
        case "Point":
            parts = [[coordinates]] if coordinates else []
        case "MultiPoint":
            parts = [[position] for position in coordinates]
        case "LineString":
            parts = [coordinates]
        case "MultiLineString":
            parts = coordinates
        case "Polygon":
            parts = coordinates[:1]
        case "MultiPolygon":
            parts = [rings[0] for rings in coordinates if rings]
        case _:
            raise Misplaced(f"a {kind!r} is no geometry")
    return (part for part in parts if part)


def _span(spans: list[tuple[float, float]]) -> tuple[float, float]:
    """From west to east around all of these."""
    west, east = min(a for a, _ in spans), max(b for _, b in spans)
    if west < -_FURTHEST or east > _FURTHEST:
        raise Misplaced(f"{west:g} to {east:g} are no degrees")
    inside = west >= -180 and east <= 180
    if inside and east - west <= 180:
        return west, east
    turned = sorted(_turned(a, b) for a, b in spans)
    reach, gap, after = turned[0][1], -math.inf, turned[0][0]
    before = reach
    for a, b in turned[1:]:
        if a - reach > gap:
            gap, before, after = a - reach, reach, a
        reach = max(reach, b)
    if turned[0][0] + 360 - reach > gap:
        gap, before, after = turned[0][0] + 360 - reach, reach, turned[0][0]
    if gap <= 0:
        return -180.0, 180.0
    if inside and gap <= 180:
        return west, east
    end = before - 360 if before > 180 else before
    return after, 180.0 if end == -180 and after > end else end


def _turned(a: float, b: float) -> tuple[float, float]:
    """The same span, begun between -180 and 180."""
    # Just below 180, a + 180 is 360 for a float.
    turns = 0 if -180 <= a < 180 else math.floor((a + 180) / 360) * 360
    return a - turns, b - turns


def _within(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)


def _ring(box: Box) -> list[list[float]]:
    west, south, east, north = box
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]


def _flat(coordinates: Any, depth: int) -> Any:
    if depth == 0:
        return coordinates[:2]
    if depth == 1 and all(len(p) == 2 for p in coordinates):
        return coordinates
    return [_flat(part, depth - 1) for part in cast("Sequence[Any]", coordinates)]
