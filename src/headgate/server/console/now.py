"""*Now*: what is wrong first, then how everything flows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import attrgetter

from fastapi import Request
from starlette.responses import Response

from headgate.ledger import flow, slo, worker, wrong
from headgate.ledger.flow import Point, SourceNow, StreamNow
from headgate.model.flow import merged, quantile
from headgate.model.role import Principal
from headgate.model.slo import Slo, SloStanding
from headgate.server.doors import Serving, ledger

from . import draw
from .draw import Chart, Series
from .once import Once
from .page import asker, pages, render
from .words import many
from .wrong import Told, told

router = pages()
MINUTES = 60
# A page is fetched again at most every second or two by each who looks: one read serves them all.
FRESH_SECONDS = 1.0
# So many streams have a chart of their own; the rest have their line in the table.
CHARTS = 12
SLO_NAMES: dict[Slo, str] = {
    "duplicates": "Duplicates",
    "double_applies": "Double applies",
    "latency": "Latency",
    "dead_letters": "Dead letters",
}
_PIPELINE = attrgetter("pipeline")


@dataclass(frozen=True, slots=True)
class Stream:
    """One pipeline: its last hour as a chart, and where it stands."""

    now: StreamNow
    chart: Chart
    came: list[Series]
    ended: list[Series]
    received: int
    p95_seconds: float | None
    levels: list[SloStanding]
    wrong: bool

    @property
    def said(self) -> str:
        """The chart in words."""
        told = ", ".join(f"{s.total:,.0f} {s.name}" for s in (*self.came, *self.ended) if s.total)
        return f"{self.now.pipeline}, the last hour: {told or 'nothing'}"

    @property
    def dated(self) -> list[SourceNow]:
        """Its sources that have a watermark, or will."""
        return [s for s in self.now.sources if s.watermark is not None or s.late or s.idle]


@dataclass(frozen=True, slots=True)
class Now:
    """Where everything stands."""

    streams: list[Stream]
    wrongs: list[Told]
    workers: int
    rolled_at: datetime

    @property
    def lead(self) -> str:
        """It in one sentence."""
        bad = sum(w.wrong.severity == "bad" for w in self.wrongs)
        if bad:
            return f"{many(bad, 'thing needs', 'things need')} you now."
        if self.wrongs:
            looks = many(len(self.wrongs), "thing is", "things are")
            return f"Nothing is broken. {looks} worth a look."
        return "Nothing needs you." if self.streams else ""

    def for_(self, by: Principal) -> Now:
        """What one may see who is limited to some pipelines."""
        if by.pipelines is None:
            return self
        return Now(
            [s for s in self.streams if by.sees(s.now.pipeline)],
            [w for w in self.wrongs if all(map(by.sees, w.wrong.whose))],
            self.workers,
            self.rolled_at,
        )


@router.get("/")
async def now(request: Request) -> Response:
    """The first page."""
    state = request.app.state
    if not hasattr(state, "now"):
        state.now = Once[Now](FRESH_SECONDS)
    once: Once[Now] = state.now
    view = (await once.ask(lambda: _look(state.serving))).for_(asker(request))
    return render(
        request,
        "now.html",
        "Now",
        here="now",
        live=True,
        view=view,
        charts=CHARTS,
        slos=SLO_NAMES,
        targets=state.serving.tuning.targets,
    )


async def _look(serving: Serving) -> Now:
    db = serving.db
    async with serving.readers, ledger():
        standing = await flow.now(db)
        series = await flow.series(db, MINUTES)
        workers = await worker.alive(db)
        window = serving.tuning.error_budget_seconds
        targets = serving.tuning.targets
        levels = await slo.standing(db, targets)
        clock = await flow.clock(db)
        found = await wrong.look(db, standing, levels, clock, workers, targets, window)
    named = {name for w in found for name in w.whose}
    of = groupby(sorted(levels, key=_PIPELINE), key=_PIPELINE)
    by_pipeline = {name: list(some) for name, some in of}
    streams = [
        _stream(
            one,
            series.pipelines.get(one.pipeline, []),
            by_pipeline.get(one.pipeline, []),
            one.pipeline in named,
        )
        for one in standing
    ]
    # What is wrong first, then what is busy.
    streams.sort(key=lambda s: (not s.wrong, -s.received, s.now.pipeline))
    return Now(streams, [told(w) for w in found], workers, series.rolled_at)


def _stream(
    one: StreamNow, points: Sequence[Point], levels: list[SloStanding], is_wrong: bool
) -> Stream:
    came = [
        Series("new", "new", [p.new for p in points]),
        Series("duplicate", "duplicate", [p.duplicate for p in points]),
        Series("conflict", "conflict", [p.conflict for p in points]),
    ]
    ended = [
        Series("finalized", "finalized", [p.finalized for p in points]),
        Series("skipped", "skipped", [p.skipped for p in points]),
        Series("to be retried", "waiting", [p.waiting for p in points]),
        Series("quarantined", "quarantined", [p.quarantined for p in points]),
    ]
    return Stream(
        one,
        draw.chart(came, ended, height=120),
        came,
        ended,
        sum(p.received for p in points),
        quantile(merged(*(p.latency for p in points)), 0.95),
        levels,
        is_wrong,
    )
