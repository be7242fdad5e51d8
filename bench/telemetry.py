"""What showing everything costs: declared rows with metrics, traces, energy and JSON logs on.

As a share of the same with all of it off. The two go in turns, and the clock counts as for `rows`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headgate.runtime import loop

from . import gate, processes, shown
from .files import row
from .job import Count
from .result import Row
from .server import Place

HOW = "declared rows, with metrics, traces by OTLP, energy and logs; of the same without"


@contextmanager
def _collector() -> Iterator[str]:
    ours, theirs = processes.SERVER.Pipe(duplex=False)
    stop = processes.SERVER.Event()
    child = processes.SERVER.Process(target=shown.sink, args=(theirs, stop), daemon=True)
    child.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        stop.set()
        if not ours.recv():
            raise processes.Failed("the collector was told nothing")
        child.join()


def cost(place: Place, reps: int, n: int) -> list[Row]:
    """Everything on, as a share of everything off."""
    runs: list[tuple[float, float, Count]] = []
    with _collector() as collector:
        for n_th in range(reps):
            # Who goes first changes: a machine that gets slower favours neither.
            if n_th % 2:
                on, off = _run(place, n, collector), _run(place, n, "")
            else:
                off, on = _run(place, n, ""), _run(place, n, collector)
            lost, double = off.count.lost + on.count.lost, off.count.double + on.count.double
            runs.append((on.seconds, off.seconds, Count(lost, double)))
    return [row("telemetry", HOW, n, runs)]


def _run(place: Place, n: int, collector: str) -> gate.Outcome:
    url = loop.run(place.fresh)
    loop.run(lambda: gate.prepare(url, "rows", place.folder))
    return gate.through(url, "rows", place.folder, n, collector)
