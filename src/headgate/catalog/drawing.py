"""Drawing provenance: the shapes of PROV as SVG, and lines between them.

Ellipses are entities, rectangles activities, houses agents. Arrows point from what came about to
what it came from. Colours are classes (`entity`, `edge`, …): the page that shows it gives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from math import hypot
from typing import Literal

Kind = Literal["entity", "activity", "agent"]


@dataclass(frozen=True, slots=True)
class Node:
    """A thing: its name, and below it what it is known by."""

    kind: Kind
    x: float
    y: float
    name: str
    note: str
    half: float = 76  # of its width
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """`start` came about by `end`. `bend` moves its middle aside, `at` is where its name stands."""

    start: str
    relation: str
    end: str
    bend: float = 0
    at: float = 0.5
    taken: bool = False


HEAD = (
    '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8"'
    ' markerHeight="8" orient="auto"><path class="head" d="M0,0 L10,5 L0,10 z"/></marker></defs>'
)


def drawn(nodes: Mapping[str, Node], edges: tuple[Edge, ...]) -> str:
    """Lines, then shapes, then the names of the lines: what must be read is never covered."""
    made = [_edge(edge, nodes[edge.start], nodes[edge.end]) for edge in edges]
    lines = "\n".join(line for line, _ in made)
    names = "\n".join(name for _, name in made)
    shapes = "\n".join(map(_node, nodes.values()))
    return f"{lines}\n{shapes}\n{names}"


def _node(node: Node) -> str:
    x, y, half = node.x, node.y, node.half
    kind = f"{node.kind} gone" if node.gone else node.kind
    match node.kind:
        case "entity":
            shape = f'<ellipse class="{kind}" cx="{x}" cy="{y}" rx="{half}" ry="31"/>'
        case "activity":
            shape = (
                f'<rect class="{kind}" x="{x - half}" y="{y - 29}" width="{2 * half}" height="58"/>'
            )
        case "agent":
            roof = f"{x - half},{y - 16} {x},{y - 38} {x + half},{y - 16}"
            shape = (
                f'<polygon class="{kind}" points="{roof} {x + half},{y + 29} {x - half},{y + 29}"/>'
            )
    return (
        f'{shape}\n<text x="{x}" y="{y - 1}">{escape(node.name)}</text>\n'
        f'<text class="note" x="{x}" y="{y + 16}">{escape(node.note)}</text>'
    )


def _edge(edge: Edge, a: Node, b: Node) -> tuple[str, str]:
    """The line, and its name."""
    length = hypot(b.x - a.x, b.y - a.y)
    # Aside is to the left of who walks from the start to the end.
    side = ((b.y - a.y) / length * edge.bend, -(b.x - a.x) / length * edge.bend)
    middle = ((a.x + b.x) / 2 + 2 * side[0], (a.y + b.y) / 2 + 2 * side[1])
    start, end = _border(a, *middle), _border(b, *middle)
    kind = "edge taken" if edge.taken else "edge"
    line = (
        f'<path class="{kind}" marker-end="url(#head)" d="M{start[0]:.1f},{start[1]:.1f} '
        f'Q{middle[0]:.1f},{middle[1]:.1f} {end[0]:.1f},{end[1]:.1f}"/>'
    )
    t = edge.at
    x, y = (
        (1 - t) ** 2 * s + 2 * t * (1 - t) * m + t**2 * e
        for s, m, e in zip(start, middle, end, strict=True)
    )
    half = len(edge.relation) * 3.4 + 3
    name = (
        f'<rect class="ground" x="{x - half:.1f}" y="{y - 8:.1f}" width="{2 * half:.1f}"'
        f' height="16"/><text class="note" x="{x:.1f}" y="{y + 4:.1f}">{edge.relation}</text>'
    )
    return line, name


def _border(node: Node, x: float, y: float) -> tuple[float, float]:
    """Where a line from its middle to a point leaves a shape."""
    dx, dy = x - node.x, y - node.y
    if node.kind == "entity":
        scale = 1 / hypot(dx / node.half, dy / 31)
    else:
        high = 34 if node.kind == "agent" and dy < 0 else 29
        scale = min(node.half / abs(dx) if dx else 9e9, high / abs(dy) if dy else 9e9)
    return node.x + dx * scale, node.y + dy * scale
