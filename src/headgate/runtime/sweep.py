"""Sweep: what nobody else does. Expired leases, bytes nobody uses, the anchor, the gauges.

It knows nothing of user code: everything it needs is in the ledger. Several may sweep at once.
Bytes are collected beside the rest: a slow store does not keep a dead worker's entries waiting.
So are redrives moved on, sooner than everything else while there is one, and what came and ended is
added up.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Generator
from contextlib import contextmanager
from typing import Any, cast

import orjson

from headgate.errors import HeadgateError, LedgerUnavailable
from headgate.ledger import action_key, anchor, budget, flow, pace, quarantine, redrive
from headgate.ledger import worker as workers
from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.model.ports import Store
from headgate.model.signal import OUTAGE, emit, heard
from headgate.model.verdict import describe
from headgate.pg import Database
from headgate.stores import open_store
from headgate.telemetry.log import get_logger

from . import release
from .collect import Collector
from .gauges import Gauges
from .incident import Hook
from .objectives import Objectives
from .tuning import Tuning

log = get_logger("headgate.sweep")

REDRIVE_SECONDS = 0.5
FLOW_SECONDS = 1.0


class Sweeper:
    """Cleans up after everyone."""

    def __init__(
        self,
        db: Database,
        tuning: Tuning,
        own_workers: Callable[[], Collection[int]] = lambda: (),
    ) -> None:
        self._db = db
        self._own_workers = own_workers
        self._tuning = tuning
        self._stores: dict[str, Store] = {}
        self._collector = Collector(db, tuning, self._store)
        self._hook = Hook(tuning.incident_hook, tuning.incident_seconds, tuning.env)
        self._objectives = Objectives(db, tuning.targets)
        self._gauges = Gauges(db)
        self._anchor_at = 0.0
        self._collect_at = 0.0

    async def run(self) -> None:
        """Sweep every so often, for ever. An outage is waited out."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._every(self._tend))
            both.create_task(self._every(self._collect))
            both.create_task(self._every(self._redrive))
            both.create_task(self._every(self._flow))

    async def sweep(self) -> None:
        """One round of everything."""
        await self._tend()
        await self._collect()
        await redrive.move(self._db)
        await self._flow()

    async def _every(self, task: Callable[[], Awaitable[float | None]]) -> None:
        while True:
            pause = None
            try:
                pause = await task()
            except LedgerUnavailable:
                emit(OUTAGE)
            except Exception as error:  # housekeeping never stops the work
                log.warning("sweep failed", why=describe(error), hint=getattr(error, "hint", ""))
            seconds = self._tuning.sweep_seconds if pause is None else pause
            await asyncio.sleep(seconds * random.uniform(0.8, 1.2))

    async def _tend(self) -> None:
        for worker in await workers.bury_expired(self._db):
            log.warning("worker buried: its lease expired", worker=worker)
        for worker in await workers.bury_dead_here(self._db, self._own_workers()):
            log.warning("worker buried: its process is gone", worker=worker)
        now = asyncio.get_running_loop().time()
        if now >= self._anchor_at:
            self._anchor_at = now + self._tuning.anchor_seconds
            await self.anchor()
        await self._budgets()
        await release.release_late(self._db)
        if heard():
            await self._gauges.show()
            await self._objectives.show()
        await self._hook.tell(self._db)

    async def _collect(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._collect_at:
            self._collect_at = now + min(self._tuning.grace_seconds / 4, 300.0)
            await self._collector.look_if_due()
            await self._sweep_spools()
            await pace.forget(self._db)
            await quarantine.forget_discarded(self._db, self._tuning.retention_days)
            await flow.forget(self._db)
            await action_key.forget(self._db)
        elif not self._collector.found:
            return
        await self._collector.round()

    async def _redrive(self) -> float | None:
        """Move the plans on. While there is one, somebody watches it: come back soon."""
        while await redrive.move(self._db):
            pass
        if await redrive.is_open(self._db):
            return min(REDRIVE_SECONDS, self._tuning.sweep_seconds)
        return None

    async def _flow(self) -> float | None:
        """Add up what came and what ended. While there is something, somebody may be watching."""
        if await flow.roll_up(self._db):
            return min(FLOW_SECONDS, self._tuning.sweep_seconds)
        return None

    async def _budgets(self) -> None:
        tuning = self._tuning
        for turn in await budget.weigh(self._db, tuning.error_budget, tuning.error_budget_seconds):
            if turn.spent_at is None:
                log.info("error budget recovered", pipeline=turn.pipeline)
            else:
                log.warning(
                    "error budget spent: retries slow down",
                    pipeline=turn.pipeline,
                    failed=turn.failed,
                    attempts=turn.attempts,
                )
                self._hook.spent(turn)

    async def leave(self) -> None:
        """What the next one would have to do first: the anchor, and the figures."""
        await self.anchor()
        await flow.roll_up(self._db)

    async def anchor(self) -> None:
        """Write the head of the chain into every store, so that a truncated ledger shows."""
        head = await anchor.head(self._db)
        if head is None:
            return
        for uri in await anchor.stores(self._db):
            with _logged(uri):
                if await asyncio.to_thread(_write_anchor, self._store(uri), head):
                    reached(Point.ANCHORED)

    async def _sweep_spools(self) -> None:
        """Remove what processes that were killed had half-written."""
        for uri in await anchor.stores(self._db):
            with _logged(uri):
                await asyncio.to_thread(self._store(uri).sweep, self._tuning.grace_seconds)

    def _store(self, uri: str) -> Store:
        if uri not in self._stores:
            self._stores[uri] = open_store(uri, self._tuning.local)
        return self._stores[uri]


@contextmanager
def _logged(uri: str) -> Generator[None]:
    """A store that cannot be used now is no reason to leave out the others."""
    try:
        yield
    except HeadgateError as error:
        log.warning("store cannot be swept", store=uri, why=str(error), hint=error.hint)


def _write_anchor(store: Store, head: anchor.Head) -> bool:
    """Move a store's anchor to the head; False when it stays where it is."""
    named = anchor.name(head.ledger)
    before = store.read(named)
    if before is not None:
        pos = _position(before)
        if pos is None:
            # It may be all that is left of a longer chain: a person decides, as `verify` tells.
            log.warning("anchor cannot be read and stays as it is", store=store.uri, file=named)
            return False
        # Another sweeper may be ahead of us: an anchor never moves back.
        if pos >= head.pos:
            return False
    store.project({named: head.document()})
    return True


def _position(document: bytes) -> int | None:
    try:
        return int(cast("dict[str, Any]", orjson.loads(document))["pos"])
    except (ValueError, TypeError, KeyError):
        return None
