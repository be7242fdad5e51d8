"""Service levels by the ledger: what happened in each window, held against what is promised.

It reads the sums of `flow`, so it costs the same on any ledger, and is as old as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate.model.flow import Latency, quantile, within
from headgate.model.slo import BURN_WINDOWS, SLOS, Counted, Slo, SloStanding, Targets, stand
from headgate.pg import Database, Record, queries

Q = queries.load(__file__)

WHOLE = ""
DEFAULTS = Targets()
QUANTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Took:
    """How long the entries of a pipeline took in the last hour, by quantile."""

    pipeline: str
    seconds: Mapping[float, float]


async def standing(
    db: Database, targets: Targets = DEFAULTS, *, pipeline: str | None = None
) -> list[SloStanding]:
    """Each pipeline against each promise, by pipeline and in the order of the promises."""
    counted, latencies = await _windows(db, targets.window_seconds)
    return [
        _stand(slo, name, targets, counted[name], latencies.get(name, {}))
        for name in counted
        if pipeline in (None, name)
        for slo in SLOS
    ]


async def took(db: Database) -> list[Took]:
    """How long entries took in the last hour; pipelines in which none ended are left out."""
    _, latencies = await _windows(db, 3600.0)
    found: list[Took] = []
    for name, windows in latencies.items():
        if latency := windows.get("1h"):
            at = {share: quantile(latency, share) or 0.0 for share in QUANTILES}
            found.append(Took(name, at))
    return found


Windows = dict[str, dict[str, Record]]
Latencies = dict[str, dict[str, dict[int, int]]]


async def _windows(db: Database, seconds: float) -> tuple[Windows, Latencies]:
    """Sums by pipeline and window."""
    asked = seconds, list(BURN_WINDOWS), list(BURN_WINDOWS.values())
    counted: Windows = {}
    latencies: Latencies = {}
    async with db.connection() as link:
        for row in await link.fetch(Q.windows, *asked):
            counted.setdefault(row["pipeline"], {})[row["window_"]] = row
        for window, name, bucket, n in await link.fetch(Q.latencies, *asked):
            latencies.setdefault(name, {}).setdefault(window, {})[bucket] = n
    return counted, latencies


def _stand(
    slo: Slo,
    pipeline: str,
    targets: Targets,
    rows: Mapping[str, Record],
    latencies: Mapping[str, Latency],
) -> SloStanding:
    def counted(window: str) -> Counted:
        return _counted(slo, targets, rows[window], latencies.get(window, {}))

    p95 = quantile(latencies.get(WHOLE, {}), 0.95) if slo == "latency" else None
    recent = {window: counted(window) for window in BURN_WINDOWS}
    return stand(slo, pipeline, targets, counted(WHOLE), recent, p95)


def _counted(slo: Slo, targets: Targets, row: Record, latency: Latency) -> Counted:
    match slo:
        case "duplicates":
            return Counted(row["received"], row["duplicate"])
        case "double_applies":
            return Counted(row["finalized"], row["doubled"])
        case "latency":
            total = sum(latency.values())
            return Counted(total, total - within(latency, targets.latency_seconds))
        case "dead_letters":
            ended = row["finalized"] + row["skipped"] + row["quarantined"]
            return Counted(ended, row["quarantined"])


def worst(standing: Sequence[SloStanding]) -> list[SloStanding]:
    """What is wrong first: spent budgets, then those that burn, then the least that is left."""
    order = {"spent": 0, "burning": 1, "ok": 2, "no data": 3}
    return sorted(standing, key=lambda s: (order[s.state], s.budget_left, s.pipeline, s.slo))
