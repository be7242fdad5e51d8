"""The whole scene at one look: what is wrong first, then how everything flows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import show
from .slo import left

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from headgate.ledger.flow import Clock, Point, Series, StreamNow
    from headgate.ledger.redrive import Redrive
    from headgate.ledger.replays import Standing as Replay
    from headgate.ledger.worker import Living
    from headgate.ledger.wrong import Wrong
    from headgate.model.slo import SloStanding
    from headgate.pg import Database
    from headgate.settings import Settings

MINUTES = 30
_BARS = "▁▂▃▄▅▆▇█"
_MOST = 6
_SHORT = {
    "duplicates": "repeats",
    "double_applies": "twice",
    "latency": "latency",
    "dead_letters": "set aside",
}


@dataclass(frozen=True, slots=True)
class Running:
    """Something that a person started and may watch: a redrive or a replay."""

    what: str
    id: int
    state: str
    done: int
    of: int
    left_seconds: float | None


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that `top` shows, as of one look."""

    clock: Clock
    wrong: list[Wrong]
    streams: list[StreamNow]
    series: Series
    slos: list[SloStanding]
    workers: list[Living]
    running: list[Running]


async def look(db: Database, settings: Settings) -> Scene:
    """Ask the ledger for all of it; a few milliseconds, however long it is."""
    from headgate.ledger import flow, redrive, replays, slo, worker, wrong

    targets = settings.tuning().targets
    streams = await flow.now(db)
    series = await flow.series(db, MINUTES)
    slos = await slo.standing(db, targets)
    workers = await worker.living(db)
    clock = await flow.clock(db)
    budget_seconds = settings.error_budget_seconds
    found = await wrong.look(db, streams, slos, clock, len(workers), targets, budget_seconds)
    running = [
        *_redrives(await redrive.redrives(db, limit=10)),
        *_replays(await replays.replays(db, limit=10)),
    ]
    return Scene(clock, found, streams, series, slos, workers, running)


def _redrives(plans: Sequence[Redrive]) -> Iterator[Running]:
    for plan in plans:
        if plan.state not in ("done", "stopped"):
            p = plan.progress
            done = p.passed + p.failed + p.gone
            yield Running("redrive", plan.id, plan.state, done, p.total, plan.left_seconds)


def _replays(found: Sequence[Replay]) -> Iterator[Running]:
    for r in found:
        if r.state == "running":
            yield Running(f"replay ({r.mode})", r.id, r.state, r.done, r.inputs, r.eta_seconds)


def document(scene: Scene) -> dict[str, object]:
    """The scene for programs; the series is left to `/v1/flow`."""
    return {
        "now": scene.clock.now,
        "behind_commits": scene.clock.behind,
        "wrong": scene.wrong,
        "streams": scene.streams,
        "slos": scene.slos,
        "workers": scene.workers,
        "running": scene.running,
    }


def drawn(scene: Scene) -> list[RenderableType]:
    """The scene for people, part by part."""
    parts: list[RenderableType] = [*_wrong(scene), _flow(scene)]
    if any(s.total for s in scene.slos):
        parts += ["", _levels(scene.slos)]
    parts += [*_running(scene.running), "", _workers(scene.workers)]
    return parts


def _wrong(scene: Scene) -> Iterator[RenderableType]:
    if not scene.wrong:
        yield show.text("Nothing is wrong.", "green")
    for one in scene.wrong[:_MOST]:
        word, style = ("act", "bold red") if one.severity == "bad" else ("look", "yellow")
        line = show.text(word, style)
        line.append("   " if one.severity == "bad" else "  ")
        since = f", since {show.ago(one.since, scene.clock.now)}" if one.since else ""
        line.append_text(show.text(f"{one.what}{since}"))
        yield line
        if one.run:
            yield show.indented(show.indented(show.indented(show.text(one.run, "dim"))))
    if len(scene.wrong) > _MOST:
        yield show.text(f"… and {len(scene.wrong) - _MOST} more", "dim")
    yield ""


FLOW = (
    "pipeline", "in/s", "new/s", "done/s", f"done, {MINUTES} min", "to do", "retry", "aside",
    "oldest", "behind",
)  # fmt: skip


def _flow(scene: Scene) -> RenderableType:
    rows: list[list[object]] = []
    for s in scene.streams:
        behind = None if s.lag_seconds is None else show.span(max(s.lag_seconds, 0.0))
        oldest = None if s.oldest_seconds is None else show.span(s.oldest_seconds)
        rows.append(
            [
                s.pipeline,
                _rate(s.received_per_second),
                _rate(s.new_per_second),
                _rate(s.finalized_per_second),
                show.text(spark(scene.series.pipelines.get(s.pipeline, [])), "green"),
                _count(s.ready + s.claimed),
                _count(s.waiting, "yellow"),
                _count(s.quarantined, "red"),
                oldest,
                behind,
            ]
        )
    if not rows:
        return show.text("No pipeline has run on this ledger yet.")
    return show.table(FLOW, rows, right=(*FLOW[1:4], *FLOW[5:]), gap=1)


def spark(points: Sequence[Point]) -> str:
    """What was finalized, minute by minute, as a row of bars; two minutes share one."""
    values = [p.finalized + p.skipped for p in points]
    pairs = [sum(values[n : n + 2]) for n in range(0, len(values), 2)]
    most = max(pairs, default=0)
    return "".join(_BARS[(n * 8 - 1) // most] if n else "·" for n in pairs)


def _rate(value: float) -> Text:
    said = f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
    return show.text(said, "dim" if not value else "none")


def _count(value: int, style: str = "none") -> Text:
    return show.text(f"{value:,}", style if value else "dim")


def _levels(standing: Sequence[SloStanding]) -> RenderableType:
    """How much of each budget is left, a line for each pipeline."""
    rows: dict[str, list[object]] = {}
    for s in standing:
        rows.setdefault(s.pipeline, [s.pipeline]).append(left(s))
    for s in standing:
        if s.slo == "latency":
            p95 = "–" if s.p95_seconds is None else f"{s.p95_seconds:.3g} s"
            rows[s.pipeline].append(p95)
    columns = ("budget left", *_SHORT.values(), "p95")
    return show.table(columns, rows.values(), right=columns[1:], gap=2)


def _running(running: Sequence[Running]) -> Iterator[RenderableType]:
    if running:
        yield ""
    for one in running[:_MOST]:
        share = one.done / one.of if one.of else 1.0
        bar = "█" * round(20 * share) + "░" * (20 - round(20 * share))
        rest = "" if one.left_seconds is None else f", {show.span(one.left_seconds)} left"
        yield show.text(
            f"{one.what} {one.id}  {bar} {one.done:,} of {one.of:,}, {one.state}{rest}", "cyan"
        )


def _workers(workers: Sequence[Living]) -> RenderableType:
    if not workers:
        return show.text("No worker is alive.", "yellow")
    names = ", ".join(w.name for w in workers[:_MOST])
    more = f" and {len(workers) - _MOST} more" if len(workers) > _MOST else ""
    return show.text(f"{show.many(len(workers), 'worker')}: {names}{more}", "dim")
