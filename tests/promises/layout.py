"""The files of a catalog lie where the operator wants them, and find one another there."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pystac
import pytest
from tests.promises.catalog import lived, soil
from tests.world import World, change, until

from headgate.ledger import changes, projection
from headgate.ledger.projection import Place
from headgate.model.layout import PLAIN, parse
from headgate.runtime import rebuild
from headgate.runtime.placed import lay_out
from headgate.runtime.project import Projector
from headgate.stores import open_store

KFM = ("data/stac", "data/catalog/dcat", "data/prov", "mcp/runs/change-detection")
OWN = "stac=open/stac,dcat=open/dcat,runs=closed/runs"


def there(lake: Path) -> set[str]:
    """Every file of a store that is neither an object nor the ledger's."""
    named = {str(f.relative_to(lake)) for f in lake.rglob("*") if f.is_file()}
    return {name for name in named if name.split("/")[0] not in ("staging", "ledger")}


def follow(lake: Path, root: str) -> int:
    """How many items there are, walking by links; every file that one names has to be there."""
    seen = 0
    catalog = pystac.Catalog.from_file(str(lake / root / "catalog.json"))
    for item in catalog.get_items(recursive=True):
        seen += 1
        for asset in item.assets.values():
            assert Path(str(asset.get_absolute_href())).is_file(), asset.href
        for link in item.links:
            if link.rel in ("predecessor-version", "latest-version", "parent", "collection"):
                assert Path(str(link.get_absolute_href())).is_file(), link
    return seen


@pytest.mark.parametrize("said", ["kfm", OWN])
async def test_files_lie_where_the_layout_has_them_and_find_one_another(
    world: World, said: str
) -> None:
    """Links are followed by pystac, references by hand: all of them lead to a file."""
    world.tuning = replace(world.tuning, layout=said)
    layout = parse(said)
    await lived(world)
    lake = world.lake
    assert all(name.startswith(tuple(f"{f}/" for f in layout.folders)) for name in there(lake))
    assert follow(lake, layout.stac) > 2
    for row in await world.rows("SELECT delta_manifest_ref, prov_ref FROM headgate.wal"):
        for ref in row:
            assert ref is None or Path(unquote(urlsplit(ref).path)).is_file(), ref
    page = await changes.changes(world.db, None, 100)
    told = [c for c in page.changes if c.has_records]
    assert told
    for c in told:
        for ref in (c.delta_manifest_ref, c.prov_ref, c.openlineage_ref):
            assert ref is None or Path(unquote(urlsplit(ref).path)).is_file(), ref
    (place,) = await rebuild.places(world.db, "soil")
    compared = await rebuild.compare(world.db, place, open_store(place.uri), runs=True)
    assert compared is not None
    assert compared.as_it_should_be


async def test_a_rebuild_knows_where_files_are_and_removes_what_is_not_ours(world: World) -> None:
    """What is missing and what is strange is named by the place where it is."""
    world.tuning = replace(world.tuning, layout="kfm")
    await lived(world)
    before = {name: (world.lake / name).read_bytes() for name in there(world.lake)}
    shutil.rmtree(world.lake / "data/stac")
    (world.lake / "data/prov/stray.jsonld").write_text("left by somebody")
    (place,) = await rebuild.places(world.db, "soil")
    compared = await rebuild.compare(world.db, place, open_store(place.uri), runs=True)
    assert compared is not None
    assert compared.stray == ["data/prov/stray.jsonld"]
    assert "data/stac/catalog.json" in compared.missing
    await rebuild.rebuild(world.db, world.tuning, runs=True)
    assert {name: (world.lake / name).read_bytes() for name in there(world.lake)} == before


async def test_a_catalog_that_moves_is_whole_in_its_new_place(world: World) -> None:
    """It is written anew there, with everything that was told before; the old files are left."""
    p = await lived(world)
    plain = {name: (world.lake / name).read_bytes() for name in there(world.lake)}
    world.tuning = replace(world.tuning, layout="kfm")
    await lay_out(world.db, world.tuning)
    await world.receive(p, change("late", b"1"))
    await world.run(p)
    projector = Projector(world.db, world.tuning)
    while await projector.round():
        pass
    layout = parse("kfm")
    now = there(world.lake)
    assert {layout.place(name) for name in plain} <= now
    assert {name: (world.lake / name).read_bytes() for name in plain} == plain
    assert follow(world.lake, "data/stac") == follow(world.lake, "stac") + 1
    # Who is started without a word about it writes where the others do.
    world.tuning = replace(world.tuning, layout="")
    await world.run(p)
    assert there(world.lake) == now


async def test_a_projector_that_began_before_a_move_writes_to_the_new_place(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked where files are, then they were moved: what it writes now lies with the others."""
    p = soil(world)
    await world.receive(p, change("a", b"1"))
    await world.work(p, workers=1)
    projector = Projector(world.db, world.tuning)
    page = Projector._page

    async def moved_before(self: Projector, place: Place) -> Place | None:
        world.tuning = replace(world.tuning, layout="kfm")
        await lay_out(world.db, world.tuning)
        return await page(self, place)

    monkeypatch.setattr(Projector, "_page", moved_before)
    await projector.round()
    assert there(world.lake)
    assert all(name.startswith(tuple(f"{f}/" for f in KFM)) for name in there(world.lake))


async def test_a_move_waits_for_whoever_is_at_work(world: World) -> None:
    """It would write on in the old place. On a ledger without files there is nothing to say."""
    assert not await projection.lay_out(world.db, parse(OWN))
    await lived(world)
    (place, *_) = await projection.stores(world.db)
    async with world.db.transaction() as link:
        assert await projection.hold(link, place)
        moving = asyncio.create_task(projection.lay_out(world.db, PLAIN))

        async def it_waits() -> bool:
            return await world.val("SELECT count(*) > 0 FROM pg_locks WHERE NOT granted")

        await until(it_waits)
        async with world.db.transaction() as other:
            assert not await projection.hold(other, replace(place, id=place.id + 1))
        assert await projection.laid_out(link) == parse(OWN)
    assert await moving
    assert await projection.laid_out(world.db) == PLAIN
    projector = Projector(world.db, world.tuning)
    while await projector.round():
        pass


def test_a_layout_is_said_as_it_is_read() -> None:
    """A preset by its name, anything else in full; the same folders are the same layout."""
    assert parse("plain") is PLAIN
    assert parse("kfm").folders == KFM
    assert parse("runs=runs") is PLAIN
    for said in ("kfm", "plain", OWN):
        assert parse(parse(said).text) == parse(said)
    layout = parse(OWN)
    for name in ("stac/a/b.json", "catalog/dcat/a.jsonld", "prov/1-1.prov.jsonld", "other/x"):
        assert layout.name(layout.place(name)) == name


@pytest.mark.parametrize(
    "said",
    ["", "kmf", "runs", "runs=", "runs=/abs", "runs=a/../b", "runs=.hidden", "runs=staging/x",
     "runs=ledger", "runs=lookups", "runs=a b", "runs=a,runs=b", "logs=a", "runs=stac",
     "runs=stac/runs", "runs=Staging", "runs=STAC/runs", "prov=catalog", "runs=a//b", "runs=a/"],
)  # fmt: skip
def test_a_layout_that_cannot_be_is_refused(said: str) -> None:
    with pytest.raises(ValueError, match=r"cannot hold|is inside of|is not one of"):
        parse(said)
