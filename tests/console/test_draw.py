"""Charts and maps: what they show is where it should be."""

from __future__ import annotations

import math

import pytest

from headgate.server.console import draw, words
from headgate.server.console.draw import Footprint, Series

NORTH = {"type": "Polygon", "coordinates": [[[7, 46], [8, 46], [8, 47], [7, 47], [7, 46]]]}


@pytest.mark.parametrize(
    ("value", "top"), [(0, 1), (0.4, 1), (1, 1), (2, 2), (7, 8), (11, 12), (13, 15), (270, 300)]
)
def test_a_scale_ends_with_a_round_number(value: float, top: float) -> None:
    """Above what is shown, and not far above it."""
    assert draw.round_up(value) == top


def test_what_came_in_stands_and_what_ended_hangs() -> None:
    """Both sides share one line and one scale, and one is never drawn as nought."""
    made = draw.chart(
        [Series("new", "new", [0, 1000]), Series("duplicate", "duplicate", [1, 0])],
        [Series("finalized", "finalized", [0, 500])],
        height=100,
    )
    new = next(b for b in made.bars if b.kind == "new")
    ended = next(b for b in made.bars if b.kind == "finalized")
    once = next(b for b in made.bars if b.kind == "duplicate")
    assert (new.y, new.height) == (0, 50)
    assert (ended.y, ended.height) == (50, 25)
    assert once.height > 0
    assert draw.chart([Series("new", "new", [])]).is_empty


def test_a_map_keeps_proportions_and_holds_everything() -> None:
    """A degree is as wide as it is there, nothing lies outside, small ones are dots."""
    tiny = Footprint((7.5, 46.5, 7.50001, 46.50001), "tiny", "/t")
    made = draw.world([Footprint((7, 46, 8, 47), "north", "/n", NORTH), tiny])
    assert made is not None
    large, small = made.plots
    assert (large.label, large.dot, small.label, small.dot) == ("north", False, "tiny", True)
    points = [tuple(map(float, p.split())) for p in large.path.strip("MZ").split("L")]
    assert all(0 <= x <= made.width and 0 <= y <= made.height for x, y in points)
    wide = max(x for x, _ in points) - min(x for x, _ in points)
    tall = max(y for _, y in points) - min(y for _, y in points)
    assert wide / tall == pytest.approx(math.cos(math.radians(46.5)), rel=0.05)
    assert draw.world([]) is None


def test_a_coast_of_a_thousand_corners_is_drawn_by_its_bounds() -> None:
    """However detailed a footprint is, its page stays small."""
    ring = [[10 * math.cos(n / 100), 10 * math.sin(n / 100)] for n in range(628)]
    made = draw.world(
        [Footprint((-10, -10, 10, 10), "coast", "/c", {"type": "Polygon", "coordinates": [ring]})]
    )
    assert made is not None
    assert made.plots[0].path.count("L") == 3


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "–"), (0.34, "340 ms"), (9.5, "9.5 s"), (12, "12 s"), (300, "5 min"),
        (12_000, "3 h 20 min"), (40_000, "11 h"), (187_200, "2 d 4 h"), (-5, "-5 s"),
    ],
)  # fmt: skip
def test_a_span_is_said_in_at_most_two_units(seconds: float | None, said: str) -> None:
    """As somebody would say it who is asked in the middle of the night."""
    assert words.span(seconds) == said
