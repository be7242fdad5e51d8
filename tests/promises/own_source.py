"""A source of the user's own, through the ledger: told by looks, one effect for each change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.world import World

import headgate as hg
from headgate.runtime.watch import Watcher


class Stations:
    """What an API would answer: revision and content by name."""

    def __init__(self, p: hg.Pipeline, **declared: object) -> None:
        self.there: dict[str, tuple[int, bytes]] = {}
        self.failing = False
        self.read: list[str] = []

        @p.source(every="6h", **declared)  # type: ignore[arg-type]
        def stations() -> Iterator[hg.Change]:
            for name, (revision, _) in self.there.items():
                yield hg.Change(f"stations://{name}", version=revision, item=name)
            if self.failing:
                raise OSError("the line went dead")

        @stations.fetch
        def read(change: hg.Change) -> bytes:
            self.read.append(f"{change.item}@{change.version}")
            return self.there[str(change.item)][1]


async def test_each_version_is_read_once(world: World):
    """Two looks at the same things read nothing twice; a new version is read, and A → B → A too."""
    p = world.pipeline()
    stations = Stations(p)
    stations.there = {"oslo": (1, b"A"), "bern": (1, b"x")}
    await world.run(p)
    await world.run(p)
    assert sorted(stations.read) == ["bern@1", "oslo@1"]
    for revision, content in ((2, b"B"), (3, b"A")):
        stations.there["oslo"] = (revision, content)
        await world.run(p)
    assert stations.read[2:] == ["oslo@2", "oslo@3"]
    assert await world.outcomes() == {"finalized": 4}


async def test_two_watchers_of_one_function_admit_a_change_once(world: World):
    """The same pipeline in two processes does not double work."""
    pipelines = [world.pipeline(), world.pipeline()]
    for p in pipelines:
        Stations(p).there = {f"s{n}": (1, b"%d" % n) for n in range(30)}
    at = await world.register(pipelines[0])
    looks = [await Watcher(world.db, at, p.sources[0]).look() for p in pipelines]  # type: ignore[arg-type]
    assert looks == [30, 0]
    assert await world.count("headgate.entry") == 30


async def test_a_function_that_fails_half_way_loses_and_deletes_nothing(world: World):
    """What it said before it failed does not count, and neither does what it did not say."""
    p = world.pipeline(removed="remove")
    stations = Stations(p, complete=True)
    stations.there = {"oslo": (1, b"A"), "bern": (1, b"B"), "rome": (1, b"C")}
    await world.run(p)
    watcher = Watcher(world.db, await world.register(p), p.sources[0])  # type: ignore[arg-type]
    stations.failing = True
    del stations.there["rome"]
    with pytest.raises(hg.Unavailable, match="OSError: the line went dead"):
        await watcher.look()
    assert len(await world.heads()) == 3
    stations.failing = False
    await world.run(p)
    assert await world.outcomes() == {"finalized": 4}
    assert len(await world.heads()) == 2


async def test_bytes_that_come_with_the_change_are_not_fetched(world: World):
    """`data` is the object; the item is in its envelope."""
    p = world.pipeline()
    seen: list[tuple[str, bytes, str | None]] = []

    @p.source(every="6h")
    async def readings() -> list[hg.Change]:
        return [hg.Change("readings://1", data=b"12 mm", item="oslo")]

    @p.validate
    def look(obj: hg.Object) -> None:
        seen.append((obj.uri, obj.read(), obj.envelope.item))

    await world.run(p)
    await world.run(p)
    assert seen == [("readings://1", b"12 mm", "oslo")]
