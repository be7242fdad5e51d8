"""Everything in one process, without a supervisor: notebooks, tests, `headgate try`.

The lease is renewed by the process itself. A handler that kills it takes the beat with it; that is
what `headgate up` is for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from headgate.errors import LedgerUnavailable
from headgate.ledger import gate, redrive, replay
from headgate.ledger import worker as workers
from headgate.model.pipeline import Pipeline
from headgate.net.guard import Guard, install
from headgate.pg import Database

from . import station
from .hear import Listener, listeners
from .patience import Patience
from .placed import lay_out
from .project import Projector, is_behind
from .sweep import Sweeper
from .tuning import Tuning
from .work import Worker


async def run(
    db: Database, pipelines: Sequence[Pipeline], tuning: Tuning, *, until_idle: bool
) -> list[gate.Resting]:
    """Watch, work and sweep here; what stays when there is nothing left to do."""
    install(Guard(tuning.egress_allow))
    station.check_sources(pipelines)
    await lay_out(db, tuning)
    opened = await station.paths(db, pipelines, tuning)
    hearing = [h for path in opened for h in listeners(db, path.declared, path.at, tuning)]
    worker = Worker(db, opened, tuning, name="inline")
    sweeper = Sweeper(db, tuning)
    catalogued = {path.declared.name for path in opened if path.declared.collection is not None}
    projector = Projector(db, tuning, catalogued)
    working = asyncio.create_task(worker.run())
    beside: list[asyncio.Task[object]] = [asyncio.create_task(h.run()) for h in hearing]
    beside.append(asyncio.create_task(sweeper.run()))
    if catalogued:
        beside.append(asyncio.create_task(projector.run()))
    beside.append(asyncio.create_task(_beat(db, worker, tuning)))
    try:
        if until_idle:
            ours = {path.declared.name for path in opened}
            waiting = asyncio.create_task(
                _until_idle(db, ours, hearing, tuning, catalogued, projector, worker.pinned)
            )
            beside.append(waiting)
            await asyncio.wait({working, *beside}, return_when=asyncio.FIRST_COMPLETED)
            _raise_from(working, *beside)
            return await waiting
        await asyncio.wait({working, *beside}, return_when=asyncio.FIRST_COMPLETED)
        _raise_from(working, *beside)
        return []
    finally:
        for task in beside:
            task.cancel()
        worker.stop()
        await asyncio.gather(working, *beside, return_exceptions=True)
        await sweeper.leave()


def _raise_from(*tasks: asyncio.Task[object]) -> None:
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def _beat(db: Database, worker: Worker, tuning: Tuning) -> None:
    while True:
        try:
            if worker.id:
                await workers.beat(db, [worker.id], tuning.lease_seconds)
        except LedgerUnavailable:
            pass  # the worker's own loops report it
        await asyncio.sleep(tuning.heartbeat_seconds)


async def _until_idle(
    db: Database,
    ours: Collection[str],
    hearing: Sequence[Listener],
    tuning: Tuning,
    catalogued: Collection[str],
    projector: Projector,
    pinned: Collection[bytes],
) -> list[gate.Resting]:
    patience = Patience(tuning.max_wait_seconds)
    while True:
        # In this order: what a source admits after we asked it would show in the ledger.
        quiet: bool | None = all(h.quiet.scanned and not h.quiet.unsettled for h in hearing)
        failing = next((h.quiet.failing for h in hearing if h.quiet.failing), None)
        behind = False
        try:
            replays = await replay.left(db, pinned)
            left = await gate.resting(db, tuning.max_wait_seconds)
            busy = any(r.ready or r.leased or r.soon for r in left if r.pipeline in ours)
            busy = busy or await redrive.is_busy(db, ours)
            busy = busy or any(replays.get(name) for name in ours)
            if quiet and not busy:
                behind = await is_behind(db, catalogued)
                failing = projector.failing
        except LedgerUnavailable:
            quiet, left, busy = None, [], False
        if quiet and not busy and not behind:
            return left
        patience.wait(None if busy or quiet is None else failing)
        await asyncio.sleep(0.05)
