"""`python -m bench.report`: the figures of `latest.json` on their page and in its charts.

The page keeps its words; what stands between `<!-- bench: NAME -->` and `<!-- /bench -->` is
written anew. A test holds the page and the charts against the file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from .charts import charts, compared
from .result import LATEST, Figure, Result
from .words import FIGURES, WORKLOADS, rate, share

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "explanation" / "performance.md"
IMAGES = DOCS / "images"
RUN = ".venv/bin/python -m bench"


def machine(result: Result) -> str:
    m = result.machine
    server = m["postgres"]
    return (
        f"Measured on {m['processor']}, {m['cores']} cores, {m['memory_gib']} GiB, {m['system']},"
        f" {m['filesystem']}; Python {m['python']}, PostgreSQL {server['server_version']},"
        f" fsync {server['fsync']}, synchronous_commit {server['synchronous_commit']},"
        f" shared_buffers {server['shared_buffers']}. {_rounds(result)}"
    )


def _rounds(result: Result) -> str:
    job = next((r for r in result.rows if r.system == "headgate"), None)
    if job is None:
        return ""
    return (
        f"The job had {job.events:,} deliveries and was done {job.repetitions} times;"
        " the median counts."
    )


def _table(head: list[str], lines: list[list[str]]) -> str:
    rule = ["---"] * len(head)
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *lines])


def systems(result: Result) -> str:
    head = ["system", "events/s", "share", "lost", "double", "deliveries", "set up as"]
    lines = [
        [
            r.system,
            rate(r.events_per_s),
            share(r.ratio),
            f"{r.lost}",
            f"{r.double}",
            f"{r.events:,}",
            r.how,
        ]
        for r in compared(result)
    ]
    return _table(head, lines)


def workloads(result: Result) -> str:
    head = ["workload", "a second", "share", "between", "floor", "lost", "double", "command"]
    lines = [
        [
            WORKLOADS.get(r.workload, r.workload),
            rate(r.events_per_s),
            share(r.ratio),
            f"{share(r.lowest_ratio)} – {share(r.highest_ratio)}",
            "" if r.floor is None else f"{r.floor:.2f}",
            f"{r.lost}",
            f"{r.double}",
            f"`{RUN} {r.workload}`",
        ]
        for r in result.rows
        if r.system == "headgate"
    ]
    return _table(head, lines)


def figures(result: Result) -> str:
    return _table(["what", "value", "at most", "command"], [_figure(f) for f in result.figures])


def _figure(figure: Figure) -> list[str]:
    what, name = FIGURES.get(figure.name, (figure.name, figure.name))
    limit = "" if figure.ceiling is None else f"{figure.ceiling:g} {figure.unit}"
    return [what, f"{figure.value:g} {figure.unit}", limit, f"`{RUN} {name}`"]


PARTS: dict[str, Callable[[Result], str]] = {
    "machine": machine,
    "systems": systems,
    "workloads": workloads,
    "figures": figures,
}


def page(text: str, result: Result) -> str:
    """The page with its generated parts as the result says."""
    for name, write in PARTS.items():
        begin, end = f"<!-- bench: {name} -->", "<!-- /bench -->"
        found = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        if len(found.findall(text)) != 1:
            raise SystemExit(f"{PAGE.name} must have one {begin} … {end}")
        part = f"{begin}\n{write(result)}\n{end}"
        text = found.sub(lambda _, part=part: part, text)
    return text


def main() -> int:
    result = Result.load(LATEST)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), result), encoding="utf-8")
    IMAGES.mkdir(exist_ok=True)
    for name, svg in charts(result).items():
        (IMAGES / name).write_text(svg, encoding="utf-8")
    print(f"{PAGE.name} and {len(charts(result))} charts say what {LATEST.name} says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
