"""A result as a table, for a terminal."""

from __future__ import annotations

from .result import Figure, Result, Row

HEAD = "system        workload      events/s  of bare  floor  lost double"


def text(result: Result) -> str:
    lines = [HEAD, *map(_row, result.rows)] if result.rows else []
    if result.figures:
        lines += ["", *map(_figure, result.figures)]
    return "\n".join(lines)


def _row(row: Row) -> str:
    floor = "" if row.floor is None else f"{row.floor:.2f}"
    short = " below its floor" if row.floor is not None and row.ratio < row.floor else ""
    return (
        f"{row.system:13} {row.workload:12} {row.events_per_s:9.0f} {row.ratio:8.3f}"
        f" {floor:>6} {row.lost:5} {row.double:6}{short}"
    )


def _figure(figure: Figure) -> str:
    limit = "" if figure.ceiling is None else f"  (at most {figure.ceiling:g})"
    over = "" if figure.ceiling is None or figure.value <= figure.ceiling else " over it"
    return f"{figure.name:34} {figure.value:10g} {figure.unit}{limit}{over}"
