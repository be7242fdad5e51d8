"""Charts and maps as SVG: where things go. What they look like is said in the style sheet.

Nothing here is text for a browser: a template writes these numbers into elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil, cos, floor, log10, radians
from typing import Any, cast

# The parts of a chart are measured in these; the browser scales them.
WIDTH, HEIGHT = 600, 120
_ROUND = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True, slots=True)
class Series:
    """Numbers in time, oldest first. `kind` is the word that the style sheet has a colour for."""

    name: str
    kind: str
    values: Sequence[float]

    @property
    def total(self) -> float:
        """All of them."""
        return sum(self.values)


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle of a chart."""

    x: float
    y: float
    width: float
    height: float
    kind: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars on both sides of a line: what came in stands on it, what became of it hangs from it."""

    width: int
    height: int
    base: float  # where that line is
    top: float  # what the upper edge stands for, and the lower one
    bars: list[Bar]

    @property
    def is_empty(self) -> bool:
        """Was there nothing at all?"""
        return not self.bars


def chart(
    above: Sequence[Series],
    below: Sequence[Series] = (),
    *,
    width: int = WIDTH,
    height: int = HEIGHT,
    gap: float = 0.18,
) -> Chart:
    """Stacked bars, with the same scale above and below the line."""
    columns = max((len(s.values) for s in (*above, *below)), default=0)
    base = height / 2 if below else float(height)
    highest = max((_heap(side, n) for side in (above, below) for n in range(columns)), default=0)
    top = round_up(highest)
    step = width / max(columns, 1)
    bars: list[Bar] = []
    for n in range(columns):
        x, wide = _r(n * step + step * gap / 2), _r(step * (1 - gap))
        for side, up in ((above, True), (below, False)):
            edge = base
            for s in side:
                if n >= len(s.values) or s.values[n] <= 0:
                    continue
                # The least that can be seen: one is not nought.
                tall = max(s.values[n] / top * base, 1.5)
                y = edge - tall if up else edge
                edge += -tall if up else tall
                bars.append(Bar(x, _r(y), wide, _r(tall), s.kind))
    return Chart(width, height, base, top, bars)


def _heap(side: Sequence[Series], n: int) -> float:
    return sum(s.values[n] for s in side if n < len(s.values))


def round_up(value: float) -> float:
    """The next round number: what a scale ends with."""
    if value <= 1:
        return 1
    power = 10 ** (ceil(log10(value)) - 1)
    return next(n * power for n in _ROUND if n * power >= value and n * power % 1 == 0)


def _r(value: float) -> float:
    return round(value, 1)


Box = tuple[float, float, float, float]  # west, south, east, north
Geometry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Footprint:
    """Where something is: its bounds, and its shape if that is known."""

    bounds: Box
    label: str
    href: str
    geometry: Geometry | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """A footprint on a map: a shape, or a dot where that is too small to be seen."""

    path: str
    x: float
    y: float
    label: str
    href: str

    @property
    def dot(self) -> bool:
        """Is it a dot?"""
        return not self.path


@dataclass(frozen=True, slots=True)
class Map:
    """Part of the world, by plain degrees."""

    box: Box
    width: int
    height: int
    meridians: list[tuple[float, str]]
    parallels: list[tuple[float, str]]
    plots: list[Plot]


_DOT = 6.0
# A shape with more corners than this is drawn as its bounds: nobody sees the difference.
_CORNERS = 400
_STEPS = (90, 45, 30, 15, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


def world(
    footprints: Sequence[Footprint], *, width: int = 480, height: int | None = None
) -> Map | None:
    """A map on which all footprints are, in the right proportions. None without any."""
    if not footprints:
        return None
    box, height = _framed(_around([f.bounds for f in footprints]), width, height)
    west, south, east, north = box

    def place(point: Sequence[float]) -> tuple[float, float]:
        x = (point[0] - west) / (east - west) * width
        return _r(x), _r((north - point[1]) / (north - south) * height)

    step = next((s for s in _STEPS if (east - west) / s >= 3), _STEPS[-1])
    meridians = [(place((d, 0))[0], _degrees(d, "E", "W")) for d in _between(west, east, step)]
    parallels = [(place((0, d))[1], _degrees(d, "N", "S")) for d in _between(south, north, step)]
    # The large ones first, so that none hides another.
    ordered = sorted(footprints, key=lambda f: -_area(f.bounds))
    plots = [_plot(f, place) for f in ordered]
    return Map(box, width, height, meridians, parallels, plots)


def _framed(box: Box, width: int, height: int | None) -> tuple[Box, int]:
    """The box, widened where it must be so that a degree has its true proportions on the map."""
    west, south, east, north = box
    # Meridians come together towards the poles.
    narrow = max(cos(radians((south + north) / 2)), 0.2)
    wide, tall = (east - west) * narrow, north - south
    if height is None:
        height = round(min(max(width * tall / wide, width * 0.45), width * 0.8))
    lack = wide * height / width - tall
    if lack > 0:
        south, north = south - lack / 2, north + lack / 2
    else:
        more = (tall * width / height - wide) / narrow
        west, east = west - more / 2, east + more / 2
    return (west, south, east, north), height


def _plot(f: Footprint, place: Callable[[Sequence[float]], tuple[float, float]]) -> Plot:
    w, s, e, n = f.bounds
    (left, low), (right, high) = place((w, s)), place((e, n))
    middle = _r((left + right) / 2), _r((low + high) / 2)
    if right - left < _DOT and low - high < _DOT:
        return Plot("", *middle, f.label, f.href)
    rings = list(_rings(f.geometry)) if f.geometry is not None else []
    if not rings or sum(map(len, rings)) > _CORNERS:
        rings = [[(w, s), (e, s), (e, n), (w, n)]]
    path = "".join("M" + "L".join(f"{x} {y}" for x, y in map(place, ring)) + "Z" for ring in rings)
    return Plot(path, *middle, f.label, f.href)


def _rings(geometry: Geometry) -> Iterator[Sequence[Sequence[float]]]:
    """The outlines of a GeoJSON geometry; what has no extent has none."""
    given: Any = geometry.get("coordinates")
    match geometry.get("type"):
        case "Polygon":
            yield from given
        case "MultiPolygon":
            yield from chain.from_iterable(given)
        case "LineString":
            yield [*given, *reversed(given)]
        case "MultiLineString":
            yield from ([*line, *reversed(line)] for line in given)
        case "GeometryCollection":
            for inner in cast("list[Geometry]", geometry.get("geometries", [])):
                yield from _rings(inner)
        case _:
            return


def _area(b: Box) -> float:
    return (b[2] - b[0]) * (b[3] - b[1])


def _around(boxes: Sequence[Box]) -> Box:
    west, south = min(b[0] for b in boxes), min(b[1] for b in boxes)
    east, north = max(b[2] for b in boxes), max(b[3] for b in boxes)
    pad = max(east - west, north - south, 0.01) * 0.15
    west, south = max(west - pad, -360), max(south - pad, -90)
    return west, south, min(east + pad, 540), min(north + pad, 90)


def _between(low: float, high: float, step: float) -> list[float]:
    first, last = ceil(low / step), floor(high / step)
    return [round(n * step, 6) for n in range(first, min(last, first + 24) + 1)]


def _degrees(value: float, positive: str, negative: str) -> str:
    beyond = value - 360 if value > 180 and positive == "E" else value
    side = positive if beyond > 0 else negative if beyond < 0 else ""
    return f"{abs(beyond):g}°{side}"
