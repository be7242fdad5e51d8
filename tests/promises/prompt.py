"""Work begins when it is admitted, not when somebody happens to ask again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

from tests.world import World, change, until

import headgate as hg
from headgate.pg import Database
from headgate.runtime import station
from headgate.runtime.work import Worker

AN_HOUR = 3600.0


def _pipeline(world: World) -> hg.Pipeline:
    p = world.pipeline()

    @p.transform
    def same(obj: hg.Object) -> dict[str, bytes]:
        return {"same": obj.read()}

    return p


@asynccontextmanager
async def _working(world: World, p: hg.Pipeline) -> AsyncGenerator[None]:
    """A worker beside the test that hardly ever asks by itself."""
    tuning = replace(world.tuning, poll_seconds=AN_HOUR)
    worker = Worker(world.db, await station.paths(world.db, [p], tuning), tuning, name="patient")
    working = asyncio.create_task(worker.run())
    try:
        await until(lambda: _is_listening(world), seconds=30)
        yield
    finally:
        worker.stop()
        assert await working


async def _is_listening(world: World) -> bool:
    listening = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    return await world.val(f"{listening} AND query LIKE 'LISTEN%'") > 0


async def _tell(world: World, p: hg.Pipeline, name: str) -> None:
    """As another process does: it shares no connection with the worker, and cannot hand over."""
    async with await Database.open(world.url) as elsewhere:
        await world.receive(p, change(name, name), db=elsewhere)


async def _is_finalized(world: World, name: str) -> bool:
    return name in await world.heads()


async def test_an_idle_worker_is_told_of_a_change(world: World) -> None:
    """A worker that asks once an hour finishes a change as soon as it is admitted."""
    p = _pipeline(world)
    async with _working(world, p):
        for name in ("first", "second"):
            await _tell(world, p, name)
            await until(lambda name=name: _is_finalized(world, name), seconds=30)


async def test_a_bell_that_was_cut_off_rings_again(world: World) -> None:
    """Whatever was admitted while the worker could not listen is found when it can again."""
    p = _pipeline(world)
    async with _working(world, p):
        await until(lambda: _is_listening(world), seconds=30)
        await world.db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        )
        await _tell(world, p, "meanwhile")
        await until(lambda: _is_finalized(world, "meanwhile"), seconds=30)
