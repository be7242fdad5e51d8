"""Draw the provenance of a publication, and of its revert, as SVG for the explanation of it.

    .venv/bin/python scripts/provenance_graph.py > docs/images/provenance.svg

Shapes are PROV's: ellipses are entities, rectangles activities, houses agents. Arrows point from
what came about to what it came from. A test holds every arrow against what a record says.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import hypot
from typing import Literal

WIDTH, HEIGHT = 1060, 630
# The card has a ground of its own, so it can be read on any page, whatever the reader has chosen.
STYLE = """
  .card { fill: #ffffff; stroke: #d5d9de; }
  .ground { fill: #ffffff; }
  text { font: 14px system-ui, sans-serif; fill: #1f2328; text-anchor: middle; }
  .title { font-size: 16px; font-weight: 600; text-anchor: start; }
  .note { font-size: 12px; fill: #59636e; }
  .left { text-anchor: start; }
  .entity { fill: #fdf3d7; stroke: #c9a227; }
  .activity { fill: #dde9f7; stroke: #2f6fb7; }
  .agent { fill: #fbe3d3; stroke: #c2571a; }
  .gone { stroke-dasharray: 5 4; }
  .edge { fill: none; stroke: #59636e; stroke-width: 1.4; }
  .taken { stroke: #c2571a; }
  .head { fill: #59636e; }
  @media (prefers-color-scheme: dark) {
    .card { fill: #16191d; stroke: #3a4149; }
    .ground { fill: #16191d; }
    text { fill: #e6e9ec; }
    .note { fill: #a3adb8; }
    .entity { fill: #3a3117; stroke: #c9a227; }
    .activity { fill: #1d3048; stroke: #5b9be0; }
    .agent { fill: #45281a; stroke: #e08a4f; }
    .edge { stroke: #a3adb8; }
    .taken { stroke: #e08a4f; }
    .head { fill: #a3adb8; }
  }
"""

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


NODES = {
    "plan": Node("entity", 110, 125, "plan", "what it declares"),
    "pipeline": Node("agent", 430, 125, "pipeline", "soil, version 1"),
    "worker": Node("agent", 740, 125, "worker", "work-1"),
    "source": Node("entity", 110, 255, "source", "uri, version hint"),
    "message": Node("entity", 110, 355, "message", "the envelope"),
    "run": Node("activity", 430, 305, "run 2-1", "code, key, checks"),
    "first": Node("entity", 960, 210, "publication 1", "version 1", gone=True),
    "second": Node("entity", 780, 305, "publication 2", "version 2", gone=True),
    "file": Node("entity", 680, 430, "file", "SHA-256", 62),
    "rows": Node("entity", 880, 430, "rows", "table, count", 62),
    "revert": Node("activity", 430, 560, "run 3-1", "a revert, and why"),
    "person": Node("agent", 110, 560, "person", "who asked for it"),
    "third": Node("entity", 780, 560, "publication 3", "version 3"),
}
EDGES = (
    Edge("run", "hadPlan", "plan", bend=-14),
    Edge("run", "wasAssociatedWith", "pipeline", at=0.4),
    Edge("run", "wasAssociatedWith", "worker", at=0.6),
    Edge("worker", "actedOnBehalfOf", "pipeline"),
    Edge("run", "used", "source"),
    Edge("run", "used", "message"),
    Edge("second", "wasGeneratedBy", "run"),
    Edge("second", "wasRevisionOf", "first"),
    Edge("second", "hadMember", "file"),
    Edge("second", "hadMember", "rows"),
    Edge("second", "wasInvalidatedBy", "revert", bend=-42, at=0.5, taken=True),
    Edge("third", "wasGeneratedBy", "revert"),
    Edge("third", "wasRevisionOf", "second", at=0.26),
    Edge("third", "wasDerivedFrom", "first", bend=-95, at=0.72),
    Edge("revert", "wasAssociatedWith", "person"),
)


def drawing() -> str:
    """The picture."""
    edges = [_edge(edge) for edge in EDGES]
    lines = "\n".join(line for line, _ in edges)
    names = "\n".join(name for _, name in edges)
    nodes = "\n".join(map(_node, NODES.values()))
    title = "Where a publication comes from, and what became of it"
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" \
width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{escape(title)}">
<style>{STYLE}</style>
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" \
orient="auto"><path class="head" d="M0,0 L10,5 L0,10 z"/></marker></defs>
<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>
<text class="title" x="20" y="32">{escape(title)}</text>
<text class="note left" x="20" y="52">Arrows point from what came about to what it came from. \
Dashed: no longer what readers see.</text>
{lines}
{nodes}
{names}
</svg>
"""


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


def _edge(edge: Edge) -> tuple[str, str]:
    """The line, and its name."""
    a, b = NODES[edge.start], NODES[edge.end]
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


if __name__ == "__main__":
    print(drawing(), end="")
