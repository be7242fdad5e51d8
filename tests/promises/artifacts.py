"""Artifacts: files that a transform made are there, whole, under their digest, or not at all."""

from __future__ import annotations

import hashlib
import io
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.world import World, change

import headgate as hg
from headgate.ledger import object as objects
from headgate.runtime.sweep import Sweeper
from headgate.runtime.tuning import Tuning
from headgate.stores import open_store


async def published(world: World) -> dict[str, bytes]:
    """The artifacts that readers see, read back from the store by their digest."""
    store = open_store(str(world.lake))
    found = await world.rows(
        "SELECT a->>'name', a->>'digest' FROM headgate.publication,"
        " jsonb_array_elements(artifacts) AS a WHERE successor IS NULL"
    )
    there: dict[str, bytes] = {}
    for name, digest in found:
        with store.open(bytes.fromhex(digest)) as stream:
            there[name] = stream.read()
        assert hashlib.sha256(there[name]).hexdigest() == digest
    return there


async def test_a_transform_may_give_back_bytes_text_paths_and_streams(world: World) -> None:
    """Whatever a transform returns or yields, readers find it by name and digest."""
    p = world.pipeline()

    @p.transform
    def several(obj: hg.Object) -> dict[str, Any]:
        file = world.folder / "made"
        file.write_bytes(b"path")
        return {"bytes": b"bytes", "text": "text", "path": file, "stream": io.BytesIO(b"stream")}

    @p.transform
    def one_by_one(obj: hg.Object) -> Iterator[Any]:
        yield hg.Artifact("artifact", b"artifact", "text/plain")
        yield {"yielded": b"yielded"}

    @p.transform
    async def generated(obj: hg.Object) -> AsyncIterator[Any]:
        yield {"awaited": b"awaited"}

    @p.transform
    def nothing(obj: hg.Object) -> None:
        return None

    await world.receive(p, change("a", "x"))
    await world.run(p)
    assert await world.quarantined() == []
    there = await published(world)
    assert {name: content.decode() for name, content in there.items()} == {
        name: name for name in ("bytes", "text", "path", "stream", "artifact", "yielded", "awaited")
    }


async def test_the_same_bytes_under_two_names_are_stored_once(world: World) -> None:
    """Artifacts are addressed by content: names are pointers."""
    p = world.pipeline()

    @p.transform
    def twins(obj: hg.Object) -> dict[str, bytes]:
        return {"one": b"same", "two": b"same", "input": obj.read()}

    await world.receive(p, change("a", "same"), change("b", "same"))
    await world.run(p)
    assert set(await published(world)) == {"one", "two", "input"}
    assert await world.count("headgate.object") == 1


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (7, "returned a int"),
        ({"a": 7}, "'a' is a int"),
        ([{"a": b"1"}, {"a": b"2"}], "two artifacts called 'a'"),
        ([{"data": b"1"}], "an artifact called 'data'"),
    ],
)
async def test_a_transform_that_gives_back_something_else_is_told_so(
    world: World, made: Any, says: str
) -> None:
    """What cannot be an artifact is refused at once, with words, and published is nothing."""
    p = world.pipeline()

    @p.transform
    def wrong(obj: hg.Object) -> Any:
        return made

    await world.receive(p, change("a", "x"))
    await world.run(p)
    ((_, reason, error),) = await world.quarantined()
    assert reason == "effect_refused"
    assert says in error
    assert await world.count("headgate.publication") == 0


async def test_a_failed_transform_publishes_nothing_and_leaves_no_litter(world: World) -> None:
    """The transform fails after its first file: nobody sees it, and the sweep takes its bytes."""
    p = world.pipeline(sources=[world.directory()])

    @p.transform
    def half(obj: hg.Object) -> Iterator[Any]:
        yield {"half": b"half"}
        raise hg.Permanent("the other half is missing")

    world.put("a", b"input")
    await world.run(p)
    ((_, _, error),) = await world.quarantined()
    assert "other half" in error
    assert await published(world) == {}
    await Sweeper(world.db, Tuning(grace_seconds=0)).sweep()
    kept = await world.rows("SELECT state FROM headgate.object")
    assert set(kept) <= {("kept",)}
    # What is quarantined can be run again: its input stays.
    store = open_store(str(world.lake))
    assert hashlib.sha256(b"input").digest() in set(store.digests())
    assert list((world.lake).rglob("*spool*/*")) == []


async def test_bytes_that_nobody_uses_are_collected_and_those_in_use_are_not(world: World) -> None:
    """Staged and never finalized: gone after the grace period. Published: there."""
    p = world.pipeline()

    @p.transform
    def made(obj: hg.Object) -> dict[str, bytes]:
        return {f"made of {obj.text()}": b"made of " + obj.read()}

    path = await world.path(p)
    worker = await world.worker()
    await world.receive(p, change("a", "1"))
    await world.run(p)
    await world.receive(p, change("b", "2"))
    (claim,) = await world.claim(path, worker)
    attempt = path.begin(claim)
    path.prepare(attempt)
    await path.stager.stage([attempt])
    sweeper = Sweeper(world.db, Tuning(grace_seconds=0))
    await sweeper.sweep()
    assert set(open_store(str(world.lake)).digests()) == {hashlib.sha256(b"made of 1").digest()}
    # The attempt wakes up after its bytes were condemned: it may not finalize with them.
    await path.settle([attempt])
    assert await world.outcomes() == {"finalized": 1, "received:raced": 1}
    await world.run(p)
    assert await published(world) == {name: name.encode() for name in ("made of 1", "made of 2")}


async def test_bytes_that_were_announced_anew_are_not_taken_for_the_old_ones(world: World) -> None:
    """Staged bytes were collected; another attempt has announced the same ones: not there yet."""
    p = world.pipeline()

    @p.transform
    def made(obj: hg.Object) -> dict[str, bytes]:
        return {"made": b"made"}

    path = await world.path(p)
    await world.receive(p, change("a", "1"))
    (claim,) = await world.claim(path, await world.worker())
    attempt = path.begin(claim)
    path.prepare(attempt)
    await path.stager.stage([attempt])
    await Sweeper(world.db, Tuning(grace_seconds=0)).sweep()
    await objects.touch(world.db, path.at.store, {hashlib.sha256(b"made").digest(): 4})
    await path.settle([attempt])
    assert await world.outcomes() == {"received:raced": 1}
    await world.run(p)
    assert await published(world) == {"made": b"made"}
