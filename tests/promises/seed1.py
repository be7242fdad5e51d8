"""The six cases that a change detector with an idempotent handler must pass, by their names."""

from __future__ import annotations

import asyncio
import random
from typing import TypedDict

import msgspec
import pytest
from tests.world import World, change

import headgate as hg
from headgate.ledger import worker as workers
from headgate.model import crash
from headgate.model.entry import Point
from headgate.model.listing import Row, canonical, difference


class Reading(TypedDict):
    name: str
    text: str


def readings(world: World) -> hg.Pipeline:
    """A pipeline whose effect can be counted: one row per object."""
    p = world.pipeline()

    @p.validate
    def is_whole(obj: hg.Object) -> None:
        if obj.text() == "broken":
            raise hg.Permanent("half of it is missing")

    @p.rows("reading", key="name", schema=Reading)
    def rows(obj: hg.Object):
        yield {"name": obj.uri, "text": obj.text()}

    return p


async def test_idempotency_the_same_event_delivered_twice_is_a_no_op(world: World):
    """Same event delivered twice → second is no-op."""
    p = readings(world)
    told = change("a", "1")
    await world.receive(p, told)
    await world.run(p)
    receipt = await world.receive(p, told)
    await world.run(p)
    assert (receipt.admitted, receipt.duplicates) == (0, 1)
    assert await world.outcomes() == {"finalized": 1}
    assert await world.count("reading") == 1


async def test_concurrency_two_workers_race_and_one_commits(world: World):
    """Two workers race → one commits; the other exits safely."""
    p = readings(world)
    await world.receive(p, change("a", "1"))
    path = await world.path(p)
    first, second = await world.worker(), await world.worker()
    (ours,) = await world.claim(path, first)
    # It is taken for dead while it works, and does not know.
    await workers.bury(world.db, first, "taken for dead", running=[])
    (theirs,) = await world.claim(path, second)
    await asyncio.gather(world.finish(path, [ours]), world.finish(path, [theirs]))
    assert theirs.fence > ours.fence
    assert await world.count("reading") == 1
    assert (await world.outcomes())["finalized"] == 1


@pytest.mark.parametrize("point", [Point.STAGED, Point.EFFECTS, Point.BEFORE_FINALIZE])
async def test_crash_safety_a_crash_between_stage_and_commit_is_retried_safely(
    world: World, point: Point
):
    """Crash between stage and commit → safe retry."""
    p = readings(world)
    await world.receive(p, change("a", "1"))
    path = await world.path(p)
    worker = await world.worker()
    claims = await world.claim(path, worker)

    class Plug(BaseException):
        pass

    def pull() -> None:
        raise Plug

    crash.arm(point, pull)
    try:
        with pytest.raises(Plug):
            await world.finish(path, claims)
    finally:
        crash.disarm()
    assert await world.heads() == {}
    await workers.bury(world.db, worker, "process died", running=[])
    await world.run(p)
    assert (await world.outcomes())["finalized"] == 1
    assert await world.count("reading") == 1


def test_manifest_diff_stability_a_reordered_listing_has_no_difference():
    """Re-ordered listing only → diff empty."""
    rows = [Row(uri=f"s3://b/{n}", version=str(n), named="etag", place=n) for n in range(1000)]
    shuffled = random.Random(1).sample(rows, len(rows))
    before, after = canonical(rows), canonical(shuffled)
    assert before.hash == after.hash
    assert difference(before.records, after.records).empty


async def test_weak_etag_a_changed_tag_on_the_same_bytes_promotes_nothing(world: World):
    """Weak or changed ETag without content change → the digest gate prevents a false promotion."""
    p = readings(world)
    for tag, strength in (('W/"1"', "weak"), ('W/"2"', "weak"), ('"3"', "strong")):
        told = change("a", "the same bytes")
        told = msgspec.structs.replace(told, etag=tag, version_hint=tag, strength=strength)
        await world.receive(p, told)
        await world.run(p)
    assert await world.outcomes() == {"finalized": 1, "skipped:unchanged": 2}
    assert [version for version, _ in (await world.heads()).values()] == [1]


async def test_rollback_a_failed_validation_rolls_back_once_and_the_wal_says_so(world: World):
    """Validation fail → deterministic rollback + WAL reflects the final failure state."""
    p = readings(world)
    await world.receive(p, change("a", "broken"))
    await world.run(p)
    assert await world.attempts() == ["claimed fetched failed rolled_back quarantined"]
    assert [classed for classed, _, _ in await world.quarantined()] == ["schema"]
    assert await world.heads() == {}
    assert await world.val("SELECT status FROM headgate.wal") == "failed"
    assert await world.count("reading") == 0
