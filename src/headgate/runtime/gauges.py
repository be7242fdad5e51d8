"""Gauges: what the ledger holds, shown by whoever sweeps. Nothing of it is counted along the way.

A gauge keeps its last value: where there is nothing any more, it has to say so.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from headgate.ledger import flow, operation, quarantine, replay, watermark
from headgate.model.signal import ASIDE, BACKLOG, DEAD, OLDEST, REPLAYED, REWRITES, WATERMARK, emit
from headgate.pg import Database

# By pipeline and class.
Totals = dict[tuple[str, str], int]


class Gauges:
    """Reads the ledger and says how it stands."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._aside: Totals = {}
        self._dead: dict[str, dict[str, int]] = {}
        self._replayed: Totals = {}
        self._decisions: tuple[int, datetime] | None = None

    async def show(self) -> None:
        """One round of everything."""
        aside = await quarantine.totals(self._db)
        await self._show_backlog()
        await self._show_quarantine(aside)
        for stream in await watermark.streams(self._db):
            if stream.watermark is not None:
                emit(WATERMARK, stream.watermark.timestamp(), stream=stream.name)
        self._replayed = dict.fromkeys(self._replayed, 0) | await replay.ends(self._db)
        for (pipeline, outcome), replays in self._replayed.items():
            emit(REPLAYED, replays, pipeline=pipeline, outcome=outcome)
        await self._show_rewrites()

    async def _show_backlog(self) -> None:
        for stream in await flow.now(self._db):
            pipeline = stream.pipeline
            emit(BACKLOG, stream.ready, pipeline=pipeline, status="ready")
            emit(BACKLOG, stream.claimed, pipeline=pipeline, status="leased")
            emit(BACKLOG, stream.waiting, pipeline=pipeline, status="waiting")
            emit(OLDEST, stream.oldest_seconds or 0.0, pipeline=pipeline)

    async def _show_quarantine(self, aside: Totals) -> None:
        for (pipeline, classed), entries in aside.items():
            emit(ASIDE, entries, pipeline=pipeline, classed=classed)
        dead = Counter[str]()  # sources of several pipelines may have the same name
        for pipeline, sources in (await quarantine.sources(self._db)).items():
            dead.update(await self._by_source(pipeline, sources, aside))
        for queue, entries in dead.items():
            emit(DEAD, entries, queue=queue)
        self._aside = aside

    async def _by_source(self, pipeline: str, sources: list[str], aside: Totals) -> dict[str, int]:
        """How many of a pipeline, by who told them. Only who has several sources is asked, and
        only when something came or went: it looks at every entry there is.
        """
        if len(sources) == 1:
            return {sources[0]: sum(n for (of, _), n in aside.items() if of == pipeline)}
        same = all(self._aside.get(key) == n for key, n in aside.items() if key[0] == pipeline)
        if not same or pipeline not in self._dead:
            found = await quarantine.by_source(self._db, pipeline)
            gone = dict.fromkeys([*self._dead.get(pipeline, ()), *sources], 0)
            self._dead[pipeline] = gone | found
        return self._dead[pipeline]

    async def _show_rewrites(self) -> None:
        """Whoever resets an operation may do so in a process that nobody scrapes."""
        before, self._decisions = self._decisions, await operation.decisions(self._db)
        if before is None:
            return
        for row in await operation.rewritten(self._db, *before):
            emit(
                REWRITES,
                row["times"],
                pipeline=row["pipeline"],
                task=row["task"],
                dataset_id=row["dataset"],
                operation_type=row["operation"],
                sovereignty_event=str(row["sovereign"]).lower(),
            )
