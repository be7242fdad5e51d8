"""Draw the provenance of a publication, and of its revert, as SVG for the explanation of it.

    .venv/bin/python scripts/provenance_graph.py > docs/images/provenance.svg

Shapes are PROV's: ellipses are entities, rectangles activities, houses agents. Arrows point from
what came about to what it came from. A test holds every arrow against what a record says.
"""

from __future__ import annotations

from html import escape

from headgate.catalog.drawing import HEAD, Edge, Node, drawn

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
    title = "Where a publication comes from, and what became of it"
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" \
width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{escape(title)}">
<style>{STYLE}</style>
{HEAD}
<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>
<text class="title" x="20" y="32">{escape(title)}</text>
<text class="note left" x="20" y="52">Arrows point from what came about to what it came from. \
Dashed: no longer what readers see.</text>
{drawn(NODES, EDGES)}
</svg>
"""


if __name__ == "__main__":
    print(drawing(), end="")
