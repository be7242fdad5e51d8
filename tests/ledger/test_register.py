"""A pipeline is made known at every start of every process."""

from __future__ import annotations

import asyncio

from tests.world import World

import headgate as hg
from headgate.runtime import station

NUMBERS = "SELECT last_value FROM {}"
SEQUENCES = ("headgate.pipeline_id_seq", "headgate.store_id_seq")


async def test_starting_again_uses_up_no_numbers(world: World) -> None:
    """There are 32,767 of them, and a process may start every minute for years."""
    rain = hg.Pipeline("rain", store=str(world.lake))
    first = await station.register(world.db, rain)
    before = [await world.db.fetchval(NUMBERS.format(name)) for name in SEQUENCES]
    for _ in range(3):
        assert (await station.register(world.db, rain)) == first
    assert [await world.db.fetchval(NUMBERS.format(name)) for name in SEQUENCES] == before


async def test_processes_that_start_together_agree(world: World) -> None:
    """Ten register a new pipeline at once: it has one number."""
    rain = hg.Pipeline("rain", store=str(world.lake))
    found = await asyncio.gather(*(station.register(world.db, rain) for _ in range(10)))
    assert len({(at.pipeline, at.store, at.deployment) for at in found}) == 1
