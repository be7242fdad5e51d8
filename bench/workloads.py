"""Everything that can be measured, by name: beside the bare loop, and apart from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from headgate.runtime import loop

from . import (
    backfill,
    bare,
    catalog,
    files,
    gate,
    latency,
    lists,
    operation,
    queue,
    readers,
    reading,
    reconcile,
    stac_search,
    starting,
    telemetry,
)
from .beside import Ran, Workload
from .job import Count, events, ids
from .latency import percentile
from .others import PEERS
from .pipelines import Kind
from .processes import Failed
from .result import Figure, Row
from .server import Place, serving

HOW: dict[Kind, str] = {
    "rows": "declared rows; one process receives, one works",
    "later": "free SQL with tx.later; one process receives, one works",
    "apply": "free SQL with await tx.execute, in the order of entries; one connection commits",
    "poison": "the same, and one event in a hundred is refused by its handler and quarantined",
    "independent": "free SQL, independent=True: four connections commit",
}
LIGHT_ROUNDS = 5
LIGHT_SECONDS = 20


def _through(kind: Kind) -> Callable[[Place, str, int], Ran]:
    def run(place: Place, url: str, n: int) -> Ran:
        out = gate.end_to_end(url, kind, place.folder, n)
        return Ran(n, out.seconds, out.count)

    return run


def _receive(place: Place, url: str, n: int) -> Ran:
    out = gate.receive_alone(url, place.folder, n)
    return Ran(n, out.seconds, out.count)


HEADGATE = {
    **{kind: Workload("headgate", kind, how, _through(kind)) for kind, how in HOW.items()},
    "receive": Workload("headgate", "receive", "one process receives, nobody works", _receive),
}


def _valid(what: str, counted: Count) -> None:
    if counted != Count(0, 0):
        raise Failed(f"{what}: {counted.lost} events lost, {counted.double} applied twice")


def wal(n: int) -> list[Figure]:
    """WAL of the whole job over a whole checkpoint cycle, with full-page writes.

    On a server of its own: elsewhere what was measured before is being vacuumed, and logged too.
    """
    with serving() as place:
        url = loop.run(place.fresh)
        loop.run(lambda: gate.prepare(url, "rows", place.folder))  # its end is a CHECKPOINT
        before = loop.run(place.wal_position)
        out = gate.through(url, "rows", place.folder, n)
        loop.run(place.checkpoint)
        written = loop.run(place.wal_position) - before
    _valid("wal", out.count)
    new = len(ids(gate.everything(n)))
    how = f"declared rows, {n} deliveries of {new} events; CHECKPOINT before and after"
    return [
        Figure("wal_bytes_per_event", round(written / new), "bytes", how),
        Figure("wal_bytes_per_delivery", round(written / n), "bytes", how),
    ]


def _quicker_than(name: str, taken: list[float], how: str) -> list[Figure]:
    return [
        Figure(f"{name}_p{share}", round(percentile(taken, share / 100) * 1e3, 2), "ms", how)
        for share in (50, 99)
    ]


def light(place: Place, n: int) -> list[Figure]:
    """From before the call to the committed effect, 50 events a second, beside the bare loop.

    Round after round, each beside a bare loop of its own: the multiple is that of the middle round.
    """
    n = min(n, int(LIGHT_SECONDS * latency.PER_SECOND)) // LIGHT_ROUNDS
    how = f"{LIGHT_ROUNDS} rounds of {n} deliveries, {latency.PER_SECOND:g} a second"
    base: list[float] = []
    ours: dict[str, list[float]] = {"latency": [], "one_process_latency": []}
    multiples: dict[str, list[float]] = {name: [] for name in ours}

    async def alone() -> list[float]:
        return await bare.light(await place.fresh(), events(n, "l"), latency.PER_SECOND)

    for _ in range(LIGHT_ROUNDS):
        beside = loop.run(alone)
        base += beside
        for name, taken in ours.items():
            url, one = loop.run(place.fresh), name.startswith("one")
            now, counted = latency.measure(url, place.folder, n, one_process=one)
            _valid(name, counted)
            taken.extend(now)
            multiples[name].append(percentile(now, 0.5) / percentile(beside, 0.5))
    figures = _quicker_than("bare_latency", base, how)
    for name, taken in ours.items():
        figures += _quicker_than(name, taken, how)
        multiple = round(median(multiples[name]), 2)
        figures.append(Figure(f"{name}_p50_multiple", multiple, "×", how))
    return figures


Measured = tuple[list[Row], list[Figure]]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is asked for."""

    n: int
    reps: int
    files: int
    large_bytes: int


# What has a yardstick of its own, or none.
APART: dict[str, Callable[[Place, Size], Measured]] = {
    "wal": lambda _, size: ([], wal(size.n)),
    "latency": lambda place, size: ([], light(place, size.n)),
    "small_files": lambda place, size: files.small(place, size.reps, size.files),
    "large_file": lambda place, size: files.large(place, size.reps, size.large_bytes),
    "backfill": lambda place, size: backfill.cost(place, size.reps, size.n, size.files),
    "catalog": lambda place, size: catalog.cost(place, size.reps, size.files),
    "catalog_rebuild": lambda place, size: ([], catalog.rebuilt(place, catalog.ITEMS)),
    "sqs": lambda place, size: queue.drained(place, size.reps),
    "operation": lambda place, size: ([], operation.figures(place, size.reps)),
    "telemetry": lambda place, size: (telemetry.cost(place, size.reps, size.n), []),
    "import": lambda place, size: ([], starting.import_figures()),
    "parse": lambda place, size: ([], reading.figures()),
    "stac_search": lambda place, size: ([], stac_search.figures(place)),
    "lists": lambda place, size: ([], lists.figures(place)),
    "readers": lambda place, size: ([], readers.figures(place, size.n)),
    "reconcile": lambda place, size: ([], reconcile.figures(place)),
    "help": lambda place, size: ([], starting.help_figures()),
    "embedded": lambda place, size: ([], starting.embedded_figures(size.reps)),
}
BESIDE = HEADGATE | PEERS
