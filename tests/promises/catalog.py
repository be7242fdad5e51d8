"""The files beside the data: whatever happens meanwhile, they end up as the ledger is."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tests.promises.processes import Place
from tests.world import World, change, until

import headgate as hg
from headgate.errors import Unavailable
from headgate.ledger import projection, revert
from headgate.model.entry import Point
from headgate.model.layout import PLAIN
from headgate.model.signal import LAG, listen
from headgate.pg import Database
from headgate.runtime import project
from headgate.runtime.project import Projector, Writer
from headgate.runtime.rebuild import rebuild
from headgate.stores import FileStore

PROJECTED = [f"{Point.PROJECTED}#{n}" for n in (1, 2, 3)]


def files(lake: Path) -> dict[str, bytes]:
    """Every file of the catalog, by name."""
    found = [f for folder in PLAIN.folders for f in (lake / folder).rglob("*") if f.is_file()]
    return {str(f.relative_to(lake)): f.read_bytes() for f in found}


def wipe(lake: Path) -> None:
    for folder in PLAIN.folders:
        shutil.rmtree(lake / folder, ignore_errors=True)


def items(lake: Path, collection: str = "soil") -> dict[str, Any]:
    """The items of a collection as a reader finds them: by following links from the root."""
    found: dict[str, Any] = {}
    root = json.loads((lake / "stac/catalog.json").read_bytes())
    for link in (x for x in root["links"] if x["rel"] == "child"):
        at = (lake / "stac" / link["href"]).resolve()
        about = json.loads(at.read_bytes())
        if about["id"] != collection:
            continue
        for shard in (x["href"] for x in about["links"] if x["rel"] == "child"):
            below = (at.parent / shard).resolve()
            listed = json.loads(below.read_bytes())
            for one in (x for x in listed["links"] if x["rel"] == "item"):
                item = (below.parent / one["href"]).resolve()
                found[one["title"]] = json.loads(item.read_bytes()) | {"_at": item}
    return found


def linked(item: dict[str, Any], rel: str) -> Path | None:
    """The file that an item's link leads to."""
    return next(((item["_at"].parent / x["href"]).resolve() for x in item["links"]
                 if x["rel"] == rel), None)  # fmt: skip


async def same_as_rebuilt(world: World) -> None:
    """What is there is to the byte what comes out of the ledger when nothing is there."""
    written = files(world.lake)
    (world.lake / "prov").mkdir(exist_ok=True)
    (world.lake / "prov" / "stray.prov.jsonld").write_text("left by somebody")
    shutil.rmtree(world.lake / "stac", ignore_errors=True)
    await rebuild(world.db, world.tuning, runs=True)
    made = files(world.lake)
    assert sorted(made) == sorted(written)
    assert [name for name in made if made[name] != written[name]] == []


def soil(world: World, **declared: Any) -> hg.Pipeline:
    p = world.pipeline("soil", **{"dataset": "soil", **declared})

    @p.validate
    def readable(obj: hg.Object) -> None:
        if obj.read().startswith(b"poison"):
            raise hg.Permanent("poison")

    return p


async def lived(world: World) -> hg.Pipeline:
    """A catalog with a past: versions, failures, what was removed, reverted, brought back."""
    p = soil(world, removed="remove")
    both = world.pipeline("both", dataset="both", removed="remove")

    @both.item(item=lambda obj: "one")
    def described(item: dict[str, Any], obj: hg.Object) -> None:
        item["properties"]["parts"] = True

    for minute, told in enumerate(
        [
            [change("a", b"1"), change("b", b"1"), change("c", b"1"), change("bad", b"poison")],
            [change("a", b"2"), change("b", removed=True)],
            [change("a", b"3"), change("b", b"again")],
            [change("a", b"4"), change("c", removed=True)],
        ]
    ):
        for one in told:
            await world.receive(p, _at(one, minute))
        await world.run(p)
    for minute, one in enumerate(
        [change("x", b"1"), change("x", b"2"), change("y", b"1"), change("x", removed=True)]
    ):
        await world.receive(both, _at(one, minute))
        await world.run(both)
    head = await world.val(
        "SELECT entry FROM headgate.publication WHERE uri = 'test://a' AND successor IS NULL"
    )
    await revert.ask(world.db, head, because="wrong station")
    await world.run(p, both)
    return p


def _at(one: hg.Envelope, minute: int) -> hg.Envelope:
    from datetime import timedelta

    import msgspec

    return msgspec.structs.replace(one, event_time=one.event_time + timedelta(minutes=minute))


async def test_a_rebuild_makes_what_the_loop_wrote(world: World) -> None:
    """Versions, failures, removals, reverts: from nothing come the same files, to the byte."""
    await lived(world)
    found = items(world.lake)
    assert sorted(name.partition("-")[0] for name in found) == ["a", "b"]
    names = set(files(world.lake))
    assert sum(name.startswith("runs/") and name.endswith("qa.json") for name in names) == 15
    assert sum(name.startswith("prov/") for name in names) == 15
    await same_as_rebuilt(world)


async def test_links_between_versions_lead_somewhere(world: World) -> None:
    """From what readers see, every older version is found by its links, back and forth."""
    await lived(world)
    (head,) = [item for name, item in items(world.lake).items() if name.startswith("a-")]
    assert head["properties"]["version"] == "5"
    seen, here = [], linked(head, "predecessor-version")
    while here is not None:
        old = json.loads(here.read_bytes()) | {"_at": here}
        seen.append(old["properties"]["version"])
        assert old["properties"]["deprecated"]
        assert linked(old, "latest-version") == head["_at"]
        after = linked(old, "successor-version")
        assert after is not None
        assert json.loads(after.read_bytes())["properties"]["version"] == str(int(seen[-1]) + 1)
        here = linked(old, "predecessor-version")
    assert seen == ["4", "3", "2", "1"]


async def test_objects_that_form_one_item_are_one_file(world: World) -> None:
    """Parts come and go; the item has the files of those that are there, and older versions only
    where a single object is left.
    """
    p = world.pipeline("both", dataset="both", removed="remove", sources=[world.directory()])

    @p.item(item=lambda obj: "one")
    def described(item: dict[str, Any]) -> None:
        pass

    world.put("x", b"1")
    await world.run(p)
    world.put("x", b"2")
    await world.run(p)
    assert linked(items(world.lake, "both")["one"], "predecessor-version") is not None
    world.put("y", b"1")
    await world.run(p)
    item = items(world.lake, "both")["one"]
    assert item["properties"]["version"] == "3"
    assert linked(item, "predecessor-version") is None
    assert not list((world.lake / "stac").rglob("*.v*.json"))
    (world.incoming / "y").unlink()
    await world.run(p)
    before = linked(items(world.lake, "both")["one"], "predecessor-version")
    assert before is not None
    assert before.exists()
    await same_as_rebuilt(world)


@pytest.mark.parametrize("policy", ["keep", "retire", "remove"])
async def test_what_its_source_takes_away(world: World, policy: str) -> None:
    """Kept, it stays as it is; retired, it stays and says so; removed, it and its past are gone."""
    p = soil(world, removed=policy, sources=[world.directory()])
    for text in (b"1", b"2"):
        world.put("a", text)
        await world.run(p)
    (world.incoming / "a").unlink()
    await world.run(p)
    found = list(items(world.lake).values())
    assert [i["properties"]["deprecated"] for i in found] == {
        "keep": [False], "retire": [True], "remove": [],
    }[policy]  # fmt: skip
    kept = [n for n in files(world.lake) if n.startswith(("stac/soil/", "catalog/dcat/soil/"))]
    if policy == "remove":
        assert kept == ["stac/soil/collection.json"]
    await same_as_rebuilt(world)


async def test_a_rebuild_writes_the_files_of_runs_that_were_never_written(world: World) -> None:
    """It goes past changes that the projection has not come to: nobody else would write these."""
    p = await lived(world)
    before = {path.name for path in (world.lake / "runs").iterdir()}
    await world.receive(p, change("late", b"1"))
    await world.work(p, workers=1)
    await rebuild(world.db, world.tuning)
    (run,) = {path.name for path in (world.lake / "runs").iterdir()} - before
    assert (world.lake / "runs" / run / "delta_manifest.json").exists()


@pytest.mark.parametrize("how", ["again", "one by one", "backwards"])
async def test_pages_repeated_cut_or_shuffled_give_the_same_files(
    world: World, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """However often and in whatever order the journal is read, the same files come of it."""
    await lived(world)
    written = files(world.lake)
    if how != "again":
        wipe(world.lake)
        monkeypatch.setattr(project, "LINES", 1)
    if how == "backwards":
        windows = projection.windows

        async def backwards(
            db: Database, place: projection.Place, after: int, lines: int, most: int, *last: int
        ) -> list[tuple[int, int]]:
            found = await windows(db, place, after, lines, 1000, *last)
            return [*reversed(found[:-1]), *found[-1:]]

        monkeypatch.setattr(projection, "windows", backwards)
    await world.db.execute("DELETE FROM headgate.projection")
    await Projector(world.db, world.tuning).round()
    assert files(world.lake) == written


async def test_two_at_once_do_no_harm(world: World) -> None:
    """Several projectors follow one journal while it grows: one file of each, as the ledger is."""
    p = soil(world)
    crew = [asyncio.create_task(Projector(world.db, world.tuning).run()) for _ in range(3)]
    for minute in range(8):
        await world.receive(p, *(change(f"{n}", f"{minute}", minute=minute) for n in range(5)))
        await world.run(p)
    for task in crew:
        task.cancel()
    await asyncio.gather(*crew, return_exceptions=True)
    assert len(items(world.lake)) == 5
    await same_as_rebuilt(world)


async def test_a_reader_never_sees_half(world: World) -> None:
    """Who reads while versions are published finds whole documents, and the data of each."""
    p = soil(world, sources=[world.directory()])
    for n in range(3):
        world.put(f"{n}", f"{n}")
    await world.run(p)
    done = Event()
    reading = asyncio.create_task(asyncio.to_thread(_read_on, world.lake, done.is_set))
    for version in range(10):
        for n in range(3):
            world.put(f"{n}", f"{n} {version}")
        await world.run(p)
    done.set()
    assert await reading > 10
    await same_as_rebuilt(world)


def _read_on(lake: Path, done: Callable[[], bool]) -> int:
    reads = 0
    while not done():
        for item in items(lake).values():
            assert (item["_at"].parent / item["assets"]["data"]["href"]).resolve().is_file()
            assert (item["_at"].parent / item["assets"]["qa"]["href"]).resolve().is_file()
            reads += 1
        for file in lake.glob("catalog/dcat/*/*/*"):
            json.loads(file.read_bytes())
    return reads


async def test_a_store_that_is_away_delays_only_the_files(world: World) -> None:
    """What is published is published. The files wait, that shows, and they come when it is back."""
    p = soil(world)
    (world.lake / "stac").parent.mkdir(parents=True, exist_ok=True)
    (world.lake / "stac").write_text("in the way")
    lags: list[float] = []
    stop = listen(lambda signal, value, labels: lags.append(value) if signal is LAG else None)
    await world.receive(p, change("a", b"1"))
    with pytest.raises(Unavailable, match="catalog of store"):
        await world.run(p, max_wait_seconds=1)
    stop()
    assert await world.outcomes() == {"finalized": 1}
    assert max(lags) > 0.5
    (world.lake / "stac").unlink()
    await world.run(p)
    assert len(items(world.lake)) == 1
    await same_as_rebuilt(world)


async def test_a_new_title_is_written_without_a_new_publication(world: World) -> None:
    """A deployment describes the dataset anew: the catalog says so as soon as it runs."""
    await world.receive(soil(world), change("a", b"1"))
    await world.run(soil(world))
    again = soil(world, dataset=hg.Dataset("soil", title="Soil moisture"))
    running = asyncio.create_task(Projector(world.db, world.tuning).run())
    await world.register(again)

    async def renamed() -> bool:
        about = json.loads((world.lake / "stac/soil/collection.json").read_bytes())
        return about["title"] == "Soil moisture"

    await until(renamed)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_the_wal_says_where_the_files_are(world: World) -> None:
    """A tool that reads the view `wal` finds the delta manifest and the provenance in the store."""
    p = soil(world)
    await world.receive(p, change("a", b"1"))
    await world.receive(p, change("bad", b"poison"))
    await world.receive(world.pipeline("plain"), change("b", b"1"))
    await world.run(p, world.pipeline("plain"))
    told = await world.rows(
        "SELECT pipeline, status, delta_manifest_ref, prov_ref FROM headgate.wal ORDER BY entry"
    )
    store = f"file://{world.lake}"
    assert sorted(told) == [
        ("plain", "finalized", None, None),
        ("soil", "failed", None, f"{store}/prov/2-1.prov.jsonld"),
        ("soil", "finalized", f"{store}/runs/1-1/delta_manifest.json",
         f"{store}/prov/1-1.prov.jsonld"),
    ]  # fmt: skip
    refs = [ref for row in told for ref in row[2:] if ref is not None]
    assert all(Path(ref.removeprefix("file://")).is_file() for ref in refs)


async def test_a_pipeline_without_a_dataset_leaves_no_files(world: World) -> None:
    """Nobody has a catalog who did not ask for one; not even next to one who did."""
    plain, p = world.pipeline("plain"), soil(world)
    await world.receive(plain, change("a", b"1"))
    await world.run(plain)
    assert files(world.lake) == {}
    await world.receive(p, change("a", b"1"))
    await world.run(plain, p)
    assert {n.split("/")[1] for n in files(world.lake) if n.startswith("runs/")} == {"2-1"}


@pytest.mark.parametrize("point", [*PROJECTED, Point.BEFORE_PROJECT, Point.AFTER_PROJECT])
def test_a_projector_killed_anywhere_is_followed_by_another(place: Place, point: str) -> None:
    """kill -9 between any two steps: the next one writes what is missing, and nobody can tell."""
    place.declare(dataset="load")
    place.put("a-1", "a-2")
    place.put("poison-1", text="poison")
    up = place.up(crash_at=point)
    up.ends()
    assert up.died_children() == ["project"], up.said()
    place.verifies()


async def test_what_is_written_twice_ends_as_it_was_written_last(tmp_path: Path) -> None:
    """Portions are written side by side, but a slow one never hides what a later one says."""
    first_is_slow = Event()

    class Slow(FileStore):
        def project(self, files: Mapping[str, bytes]) -> None:
            if files.get("stac/a.json") == b"1":
                first_is_slow.wait(0.2)
            super().project(files)

    lake = tmp_path / "lake"
    async with Writer(Slow(lake)) as writer:
        await writer.write({"stac/a.json": b"1"})
        await writer.write({"stac/b.json": b"1"})
        await writer.write({"stac/a.json": b"2"})
        await writer.settle()
        assert files(lake) == {"stac/a.json": b"2", "stac/b.json": b"1"}
