"""Charts and maps as SVG: where things go. What they look like is said in the style sheet.

Nothing here is text for a browser: a template writes these numbers into elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log10

# The parts of a chart are measured in these; the browser scales them.
WIDTH, HEIGHT = 600, 120


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
    """A chart: stacked bars, and lines over them."""

    width: int
    height: int
    top: float  # what the upper edge stands for
    bars: list[Bar]
    lines: list[tuple[str, str]]  # kind, points

    @property
    def is_empty(self) -> bool:
        """Was there nothing at all?"""
        return not self.bars and not self.lines


def chart(
    stacked: Sequence[Series],
    lines: Sequence[Series] = (),
    *,
    width: int = WIDTH,
    height: int = HEIGHT,
    gap: float = 0.18,
) -> Chart:
    """Bars that stand on each other, with lines over them; all begin at nought."""
    columns = max((len(s.values) for s in (*stacked, *lines)), default=0)
    if not columns:
        return Chart(width, height, 1, [], [])
    heaps = [sum(s.values[n] for s in stacked if n < len(s.values)) for n in range(columns)]
    highest = max([*heaps, *(v for s in lines for v in s.values)], default=0)
    top = round_up(highest)
    step = width / columns
    bars: list[Bar] = []
    for n in range(columns):
        floor = float(height)
        for s in stacked:
            value = s.values[n] if n < len(s.values) else 0
            if value <= 0:
                continue
            # The least that can be seen: one is not nought.
            tall = max(value / top * height, 1.5)
            floor -= tall
            x = n * step + step * gap / 2
            bars.append(Bar(_r(x), _r(floor), _r(step * (1 - gap)), _r(tall), s.kind))
    drawn = [(s.kind, _points(s.values, step, top, height)) for s in lines if any(s.values)]
    return Chart(width, height, top, bars, drawn)


def _points(values: Sequence[float], step: float, top: float, height: int) -> str:
    return " ".join(
        f"{_r((n + 0.5) * step)},{_r(height - value / top * height)}"
        for n, value in enumerate(values)
    )


def round_up(value: float) -> float:
    """The next 1, 2 or 5 times a power of ten: what a scale ends with."""
    if value <= 1:
        return 1
    power = 10 ** (ceil(log10(value)) - 1)
    return next(n * power for n in (1, 2, 5, 10) if n * power >= value)


def _r(value: float) -> float:
    return round(value, 1)


Box = tuple[float, float, float, float]  # west, south, east, north


@dataclass(frozen=True, slots=True)
class Plot:
    """A footprint on a map: a rectangle, or a dot where it is too small to be seen."""

    x: float
    y: float
    width: float
    height: float
    label: str
    href: str
    dot: bool


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
_STEPS = (90, 45, 30, 15, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


def world(footprints: Sequence[tuple[Box, str, str]], *, width: int = 600) -> Map | None:
    """A map on which all footprints are, each with its label and address. None without any."""
    if not footprints:
        return None
    box = _around([f for f, _, _ in footprints])
    west, south, east, north = box
    height = round(max(min(width * (north - south) / (east - west), width * 0.66), width * 0.34))

    def x(degrees: float) -> float:
        return _r((degrees - west) / (east - west) * width)

    def y(degrees: float) -> float:
        return _r((north - degrees) / (north - south) * height)

    plots: list[Plot] = []
    for (w, s, e, n), label, href in footprints:
        wide, tall = x(e) - x(w), y(s) - y(n)
        plots.append(
            Plot(x(w), y(n), _r(wide), _r(tall), label, href, dot=wide < _DOT and tall < _DOT)
        )
    step = next((s for s in _STEPS if (east - west) / s >= 3), _STEPS[-1])
    meridians = [(x(d), _degrees(d, "E", "W")) for d in _between(west, east, step)]
    parallels = [(y(d), _degrees(d, "N", "S")) for d in _between(south, north, step)]
    return Map(box, width, height, meridians, parallels, plots)


def _around(boxes: Sequence[Box]) -> Box:
    west, south = min(b[0] for b in boxes), min(b[1] for b in boxes)
    east, north = max(b[2] for b in boxes), max(b[3] for b in boxes)
    wide = max(east - west, north - south, 0.01)
    pad = wide * 0.12
    west, south = max(west - pad, -360), max(south - pad, -90)
    return west, south, min(east + pad, 360), min(north + pad, 90)


def _between(low: float, high: float, step: float) -> list[float]:
    first = ceil(low / step)
    found: list[float] = []
    while first * step <= high and len(found) < 24:
        found.append(round(first * step, 6))
        first += 1
    return found


def _degrees(value: float, positive: str, negative: str) -> str:
    beyond = value - 360 if value > 180 and positive == "E" else value
    side = positive if beyond > 0 else negative if beyond < 0 else ""
    return f"{abs(beyond):g}°{side}"
