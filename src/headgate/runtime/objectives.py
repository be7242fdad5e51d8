"""Objectives: how the work stands against what is promised, as gauges for Prometheus."""

from __future__ import annotations

import asyncio

from headgate.ledger import slo, worker
from headgate.model.signal import (
    SLO_ALLOWED,
    SLO_BAD,
    SLO_BUDGET,
    SLO_BURN,
    SLO_EVENTS,
    TOOK,
    WORKERS,
    emit,
)
from headgate.model.slo import SLOS, Targets
from headgate.pg import Database

EVERY_SECONDS = 10.0


class Objectives:
    """Says how each pipeline stands, every few seconds."""

    def __init__(self, db: Database, targets: Targets) -> None:
        self._db = db
        self._targets = targets
        self._due = 0.0

    async def show(self) -> None:
        """Emit the gauges, if it is time."""
        now = asyncio.get_running_loop().time()
        if now < self._due:
            return
        self._due = now + EVERY_SECONDS
        # All is asked before any is said: a scrape must not find half of it.
        standing = await slo.standing(self._db, self._targets)
        took = await slo.took(self._db)
        alive = await worker.alive(self._db)
        for promise in SLOS:
            emit(SLO_ALLOWED, self._targets.allowed(promise), slo=promise)
        for s in standing:
            emit(SLO_EVENTS, s.total, slo=s.slo, pipeline=s.pipeline)
            emit(SLO_BAD, s.bad, slo=s.slo, pipeline=s.pipeline)
            emit(SLO_BUDGET, s.budget_left, slo=s.slo, pipeline=s.pipeline)
            for window, rate in s.burn.items():
                emit(SLO_BURN, rate, slo=s.slo, pipeline=s.pipeline, window=window)
        for t in took:
            for share, seconds in t.seconds.items():
                emit(TOOK, seconds, pipeline=t.pipeline, quantile=f"{share:g}")
        emit(WORKERS, alive)
