"""Bars as SVG, written by hand: readable on light and on dark pages, and the same every time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 760
LETTER = 7.6  # how wide a letter of a label is, at most, on average
VALUES = 120  # room right of them
LINE = 34
TOP = 64
# The card has a ground of its own, so it can be read on any page, whatever the reader has chosen.
STYLE = """
  .card { fill: #ffffff; stroke: #d5d9de; }
  text { font: 14px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 16px; font-weight: 600; }
  .note { font-size: 12px; fill: #59636e; }
  .track { fill: #eef1f4; }
  .ours { fill: #2f6fb7; }
  .theirs { fill: #8d96a0; }
  .short { fill: #c2571a; }
  .mark { stroke: #1f2328; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    .card { fill: #16191d; stroke: #3a4149; }
    text { fill: #e6e9ec; }
    .note { fill: #a3adb8; }
    .track { fill: #262b31; }
    .ours { fill: #5b9be0; }
    .theirs { fill: #7d8791; }
    .short { fill: #e08a4f; }
    .mark { stroke: #e6e9ec; }
  }
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """One line of a chart. `mark` is where it should be: a floor, or a ceiling."""

    label: str
    value: float
    text: str
    kind: str = "ours"
    mark: float | None = None


def bars(title: str, note: str, lines: Sequence[Bar], full: float) -> str:
    """A chart of horizontal bars; `full` is the value of a bar that fills its track."""
    height = TOP + LINE * len(lines) + 14
    labels = 32 + round(LETTER * max(len(bar.label) for bar in lines))
    drawn = "\n".join(_line(bar, TOP + n * LINE, labels, full) for n, bar in enumerate(lines))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" \
width="{WIDTH}" height="{height}" role="img" aria-label="{escape(title)}">
<style>{STYLE}</style>
<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>
<text class="title" x="20" y="30">{escape(title)}</text>
<text class="note" x="20" y="50">{escape(note)}</text>
{drawn}
</svg>
"""


def _line(bar: Bar, y: int, labels: int, full: float) -> str:
    """`labels` is the room left of the bars."""
    room = WIDTH - labels - VALUES
    length = max(2.0, min(1.0, bar.value / full) * room)
    text = y + 20
    box = f'x="{labels}" y="{y + 5}" height="22" rx="3"'
    parts = [
        f'<text x="{labels - 12}" y="{text}" text-anchor="end">{escape(bar.label)}</text>',
        f'<rect class="track" {box} width="{room}"/>',
        f'<rect class="{bar.kind}" {box} width="{length:.1f}"/>',
        f'<text x="{WIDTH - VALUES + 12}" y="{text}">{escape(bar.text)}</text>',
    ]
    if bar.mark is not None:
        x = labels + min(1.0, bar.mark / full) * room
        parts.append(f'<line class="mark" x1="{x:.1f}" y1="{y + 2}" x2="{x:.1f}" y2="{y + 30}"/>')
    return "\n".join(parts)
