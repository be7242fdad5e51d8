"""The charts of the performance page."""

from __future__ import annotations

from .chart import Bar, bars
from .result import Figure, Result, Row
from .words import WORKLOADS, share


def compared(result: Result) -> list[Row]:
    """The systems that did the same job, Headgate with declared rows among them."""
    ours = ("headgate", "rows")
    return [r for r in result.rows if r.workload == "job" or (r.system, r.workload) == ours]


def systems(result: Result) -> str:
    lines = [
        Bar(r.system, r.ratio, share(r.ratio), "ours" if r.system == "headgate" else "theirs")
        for r in sorted(compared(result), key=lambda r: -r.ratio)
    ]
    return bars(
        "The same job, on the same server",
        "As a share of the bare loop that ran right before and right after.",
        lines,
        1.0,
    )


def workloads(result: Result) -> str:
    lines = [
        Bar(
            WORKLOADS.get(r.workload, r.workload).replace("`", ""),
            r.ratio,
            share(r.ratio),
            "short" if r.floor is not None and r.ratio < r.floor else "ours",
            r.floor,
        )
        for r in result.rows
        if r.system == "headgate"
    ]
    return bars(
        "Headgate as a share of the bare loop",
        "A full track is the bare loop; files and queues have their own. Orange: below a floor.",
        lines,
        1.0,
    )


def _kind(figure: Figure, kind: str) -> str:
    return "short" if figure.ceiling is not None and figure.value > figure.ceiling else kind


def latency(result: Result) -> str:
    figures = {f.name: f for f in result.figures}
    who = (
        ("bare loop", "bare_latency", "theirs"),
        ("one process", "one_process_latency", "ours"),
        ("two processes", "latency", "ours"),
    )
    lines = [
        Bar(f"{name}, {of} %", f.value, f"{f.value:g} ms", _kind(f, kind), f.ceiling)
        for name, key, kind in who
        for of in (50, 99)
        if (f := figures.get(f"{key}_p{of}")) is not None
    ]
    return bars(
        "From the call to the committed effect",
        "50 events a second: so many are quicker than this. Orange is over its ceiling.",
        lines,
        max([10.0, *(bar.value for bar in lines)]),
    )


def charts(result: Result) -> dict[str, str]:
    """The charts by file name."""
    return {
        "bench-systems.svg": systems(result),
        "bench-workloads.svg": workloads(result),
        "bench-latency.svg": latency(result),
    }
