"""A worker claims and handles while it settles what came before; it gives back what it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypedDict

import pytest
from tests.world import World, change

import headgate as hg
from headgate.model.signal import BATCH, Signal, listen
from headgate.runtime import lane, station
from headgate.runtime.work import Worker

CHANGES = 600
BATCH_MAX = 50


class Reading(TypedDict):
    name: str


def counted(world: World) -> hg.Pipeline:
    p = world.pipeline()

    @p.rows("reading", key="name", schema=Reading)
    def rows(obj: hg.Object) -> Iterator[Reading]:
        yield {"name": obj.text()}

    return p


async def started(world: World, p: hg.Pipeline) -> Worker:
    await world.receive(p, *(change(f"{n:04d}", f"{n:04d}") for n in range(CHANGES)))
    tuning = replace(world.tuning, batch_max=BATCH_MAX)
    return Worker(world.db, await station.paths(world.db, [p], tuning), tuning, name="ahead")


@pytest.mark.parametrize("after", [3, 5, 8])
async def test_a_worker_that_stops_gives_back_what_it_claimed_ahead(
    world: World, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Uncharged and at once, however far ahead of its commits it was. Another one does the rest."""
    monkeypatch.setattr(lane, "QUICK_SLICE", 1)  # so that it is stopped between two of them
    p = counted(world)
    worker = await started(world, p)
    settled, most = 0, 0

    def hear(signal: Signal, value: float, labels: Mapping[str, str]) -> None:
        nonlocal settled, most
        if signal is BATCH:
            settled, most = settled + 1, max(most, worker.holds)
            if settled == after:
                worker.stop()

    deaf = listen(hear)
    assert await worker.run()
    deaf()
    assert BATCH_MAX < most <= 3 * BATCH_MAX, "it was ahead, and not further than it may be"
    left = await world.rows("SELECT worker, attempts FROM headgate.work")
    assert 0 < len(left) < CHANGES
    assert set(left) == {(None, 0)}
    await world.work(p, workers=1)
    assert await world.count("reading") == CHANGES
    assert await world.count("headgate.publication") == CHANGES


async def test_a_worker_whose_handling_breaks_does_not_go_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of ours is no entry's fault: the worker ends with it, and does not wait for ever."""

    class OursError(Exception):
        pass

    def broken(*_: object) -> None:
        raise OursError

    p = counted(world)
    worker = await started(world, p)
    monkeypatch.setattr(lane.Lane, "_handle_one", broken)
    with pytest.raises(OursError):
        await asyncio.wait_for(worker.run(), 30)
    await world.db.execute("UPDATE headgate.worker SET alive_until = now() - interval '1 second'")
    monkeypatch.undo()
    await world.run(p)
    assert await world.count("reading") == CHANGES
