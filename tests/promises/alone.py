"""An entry that is settled by itself leaves what many that are settled together leave."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, TypedDict

import pytest
from tests.world import World, change, until

import headgate as hg
from headgate.ledger import worker as workers
from headgate.model.verdict import Release

SAID = """
    SELECT j.outcome::text, j.fence, j.attempt, j.reason, regexp_replace(j.steps, ':\\d+', '', 'g'),
           replace(convert_from(j.doc, 'UTF8'), l.name, 'p'), length(j.hash), p.version, p.removed,
           p.content, length(p.effect), p.successor IS NULL, p.artifacts::text
    FROM headgate.journal j JOIN headgate.entry e ON e.id = j.entry
    JOIN headgate.publication p ON p.entry = e.id JOIN headgate.pipeline l ON l.id = e.pipeline
    WHERE l.name = $1 ORDER BY e.uri, e.id
"""
TOGETHER = """
    SELECT array_agg(c.n ORDER BY c.pos) FROM headgate.commit c
    JOIN headgate.pipeline l ON l.id = c.pipeline WHERE l.name = $1
"""
WORDS = {"a": "plain", "b": 'it\'s \\ "quoted"; -- {}', "c": "ünïcödé 🌧 \u2028"}


class Reading(TypedDict):
    name: str
    note: str


def readings(world: World, name: str = "p", **declared: Any) -> hg.Pipeline:
    p = world.pipeline(name, **declared)

    @p.rows(f"reading_{name}", key="name", schema=Reading)
    def rows(obj: hg.Object) -> Iterator[Reading]:
        yield {"name": obj.uri[-1], "note": obj.text()}

    @p.transform
    def copy(obj: hg.Object) -> dict[str, bytes]:
        return {"copy": obj.read()}

    return p


async def _left(world: World, name: str, at_once: int) -> tuple[list[tuple[Any, ...]], ...]:
    """What two versions of three objects leave, when so many are settled at once."""
    p = readings(world, name)
    path, worker = await world.path(p), await world.worker()
    for minute, version in enumerate(("", " again")):
        told = [change(k, v + version, minute=minute) for k, v in WORDS.items()]
        await world.receive(p, *told)
        for _ in range(0, len(told), at_once):
            await world.finish(path, await world.claim(path, worker, at_once))
    assert await world.val(TOGETHER, name) == [at_once] * (6 // at_once)
    rows = f"SELECT name, note, _headgate_at FROM reading_{name} ORDER BY name"
    return await world.rows(SAID, name), await world.rows(rows)


async def test_one_alone_is_written_as_many_are(world: World) -> None:
    """Rows, versions and journal of a lone change are those of a change among others."""
    together = await _left(world, "many", 3)
    assert [len(part) for part in together] == [6, 3]
    assert [note for _, note, _ in together[1]] == [f"{word} again" for word in WORDS.values()]
    assert await _left(world, "lone", 1) == together
    await world.audit()


async def test_who_was_buried_leaves_nothing_before_anybody_took_over(world: World) -> None:
    """The fence is still the same then; but the entry is nobody's, and may be anybody's soon."""
    p = readings(world)
    path, worker = await world.path(p), await world.worker()
    await world.receive(p, change("a", "text"))
    claims = await world.claim(path, worker)
    await workers.bury(world.db, worker, "stopped", running=(), innocent=True)
    (lost,) = await world.finish(path, claims)
    assert lost.lost
    assert await world.count("reading_p") == 0
    await world.run(p)
    assert await world.count("reading_p") == 1


@pytest.mark.parametrize("alone", [True, False])
async def test_a_head_that_moved_since_the_claim_stays(world: World, alone: bool) -> None:
    """Two changes of one object, by two subjects: the slower one does not overwrite the other."""
    p = readings(world)
    path, worker = await world.path(p), await world.worker()
    await world.receive(p, change("a", "first"))
    await world.finish(path, await world.claim(path, worker))
    await world.receive(p, change("a", "second", minute=1, subject="one"))
    await world.receive(p, change("a", "third", minute=2, subject="two"))
    others = [] if alone else [change("b", "b", minute=3)]
    await world.receive(p, *others)
    claims = await world.claim(path, worker, 3)
    assert len(claims) == 2 + len(others)
    late, quick = claims[0], claims[1]
    await world.finish(path, [quick])
    (behind, *_) = await world.finish(path, [late, *claims[2:]])
    assert behind.verdict == Release("raced")
    assert (await world.heads())["a"][0] == 2
    await world.run(p)
    assert await world.val("SELECT note FROM reading_p WHERE name = 'a'") == "third"
    await world.audit()


async def test_a_partition_is_counted_before_any_row_is_locked(world: World) -> None:
    """A lone entry that waits for a row holds its partition: nobody waits for it the other way."""
    p = readings(world, "p", per_partition=2)
    path, worker = await world.path(p), await world.worker()
    await world.receive(p, change("a", "text"))
    claims = await world.claim(path, worker)
    async with world.db.connection() as stranger:
        await stranger.execute("BEGIN")
        await stranger.execute("INSERT INTO reading_p VALUES ('a', 'mine', 0, now())")
        settling = asyncio.create_task(world.finish(path, claims))

        async def it_waits() -> bool:
            return await world.val("SELECT count(*) > 0 FROM pg_locks WHERE NOT granted")

        await until(it_waits)
        free = "SELECT count(*) FROM (SELECT FROM headgate.part FOR UPDATE SKIP LOCKED) AS unlocked"
        assert await world.val(free) == 0
        await stranger.execute("ROLLBACK")
    await settling
    assert await world.val(free) == 1
    assert await world.outcomes() == {"finalized": 1}
