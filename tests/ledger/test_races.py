"""Two things happen to one worker at once."""

from __future__ import annotations

import asyncio

from tests.world import World, change

from headgate.ledger import gate
from headgate.ledger import worker as workers


async def test_a_worker_buried_in_the_middle_of_its_claim_leaves_nothing_behind(world: World):
    """Its process died while the claim was under way: what the claim took is free again."""
    pipeline = world.pipeline()
    await world.receive(pipeline, change("a"), change("b"))
    at = await world.register(pipeline)
    worker = await world.worker()
    async with world.db.transaction() as link:
        taken = await link.fetch(gate.CLAIM, at.pipeline, worker, 10, 0, False)
        burial = asyncio.create_task(
            workers.bury(world.db, worker, "process died", running=(), innocent=True)
        )
        done, _ = await asyncio.wait({burial}, timeout=0.3)
        assert not done, "the undertaker did not wait for the claim"
    assert len(taken) == 2
    assert await burial
    assert await world.val("SELECT count(*) FROM headgate.work WHERE worker IS NOT NULL") == 0
    assert await world.val("SELECT sum(attempts) FROM headgate.work") == 0
