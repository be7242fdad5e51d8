"""Items: what a catalogued pipeline publishes can be found by name, time and place, at once."""

from __future__ import annotations

import hashlib
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pystac
import pytest
from rasterio.io import MemoryFile
from rasterio.transform import from_origin
from tests.promises.processes import Place
from tests.world import NOON, World, change

import headgate as hg
from headgate.ledger import facts, revert
from headgate.model.entry import Point
from headgate.model.facts import Item

ZURICH = {"type": "Point", "coordinates": [8.55, 47.37]}
BERN = {"type": "Point", "coordinates": [7.45, 46.95]}


def geojson(geometry: Any) -> str:
    return json.dumps({"type": "Feature", "properties": {}, "geometry": geometry})


def geoparquet() -> bytes:
    column = {"encoding": "WKB", "bbox": [5.9, 45.8, 10.5, 47.8]}
    said = {"version": "1.1.0", "primary_column": "geom", "columns": {"geom": column}}
    sink = io.BytesIO()
    table = pa.table({"geom": [b""]}).replace_schema_metadata({"geo": json.dumps(said)})
    pq.write_table(table, sink)
    return sink.getvalue()


def geotiff() -> bytes:
    place: dict[str, Any] = {"crs": "EPSG:4326", "transform": from_origin(8, 48, 0.25, 0.25)}
    with MemoryFile() as memory:
        with memory.open(
            driver="GTiff", width=4, height=4, count=1, dtype="uint8", **place
        ) as image:
            image.write(np.zeros((1, 4, 4), "uint8"))
        return memory.read()


async def rows(world: World) -> dict[str, tuple[Any, ...]]:
    """What a search finds: collection, bounding box and version, by the item's name."""
    found = await world.rows(
        "SELECT i.item, i.collection, i.bbox::text, p.version FROM headgate.item i"
        " JOIN headgate.publication p USING (entry) ORDER BY i.entry"
    )
    return {name: (collection, bbox, version) for name, collection, bbox, version in found}


async def number(world: World, pipeline: hg.Pipeline) -> int:
    return (await world.register(pipeline)).pipeline


async def items(world: World) -> list[Item]:
    """What the heads say they are, in the order of their entries."""
    heads = await facts.heads(world.db, 1, 0, 100)
    return [f.item for f in heads if f.item is not None]


async def test_files_with_a_place_are_found_there(world: World) -> None:
    """GeoJSON, GeoParquet and GeoTIFF say where they lie; a table has a name and a time only."""
    p = world.pipeline(dataset="soil", sources=[world.directory()])
    world.put("zurich.geojson", geojson(ZURICH))
    world.put("swiss.parquet", geoparquet())
    world.put("tile.tif", geotiff())
    world.put("readings.csv", "a,b\n")
    await world.run(p)
    found = {name[: name.rindex("-")]: row for name, row in (await rows(world)).items()}
    assert found == {
        "zurich.geojson": ("soil", "(8.55,47.37),(8.55,47.37)", 1),
        "swiss.parquet": ("soil", "(10.5,47.8),(5.9,45.8)", 1),
        "tile.tif": ("soil", "(9,48),(8,47)", 1),
        "readings.csv": ("soil", None, 1),
    }
    by_name = {i.id.partition("-")[0]: i for i in await items(world)}
    assert by_name["zurich.geojson"].geometry == ZURICH
    assert by_name["readings.csv"].geometry is None
    at = datetime.fromtimestamp((world.incoming / "tile.tif").stat().st_mtime, UTC)
    assert abs(by_name["tile.tif"].start - at) < timedelta(milliseconds=1)


async def test_a_pipeline_without_a_dataset_has_no_items(world: World) -> None:
    """Who asks for no catalog pays for none."""
    p = world.pipeline()
    await world.receive(p, change("a.geojson", geojson(ZURICH)))
    await world.run(p)
    assert await items(world) == []
    assert await world.count("headgate.item") == 0


async def test_a_new_version_takes_its_items_place(world: World) -> None:
    """The name stays, the place moves, and the older version is found no more."""
    p = world.pipeline(dataset="soil")
    await world.receive(p, change("a.geojson", geojson(ZURICH), minute=1))
    await world.run(p)
    ((name, first),) = (await rows(world)).items()
    await world.receive(p, change("a.geojson", geojson(BERN), minute=2))
    await world.run(p)
    assert (first[1], first[2]) == ("(8.55,47.37),(8.55,47.37)", 1)
    assert await rows(world) == {name: ("soil", "(7.45,46.95),(7.45,46.95)", 2)}


async def test_what_is_removed_is_found_no_more_and_what_is_retired_still_is(world: World) -> None:
    """A removal says which item it was; a retired item stays, and says that it is retired."""
    for removed in ("remove", "retire"):
        p = world.pipeline(removed, dataset="soil", removed=removed)
        await world.receive(p, change(removed, geojson(ZURICH), minute=1))
        await world.run(p)
        await world.receive(p, change(removed, removed=True, minute=2))
        await world.run(p)
        before, after = await facts.page(world.db, [await number(world, p)], 0, 100)
        assert after.item == before.item is not None
        assert after.version is not None
        assert (after.version.removed, after.version.retired) == (True, removed == "retire")
    kept = await world.rows("SELECT item, retired FROM headgate.item")
    assert [(name.partition("-")[0], retired) for name, retired in kept] == [("retire", True)]


async def test_a_revert_brings_back_the_item_as_it_was(world: World) -> None:
    """Readers see what they saw, although the handler would say something else by now."""
    p = world.pipeline(dataset="soil")

    @p.item
    def describe(item: dict[str, Any], obj: hg.Object) -> None:
        item["properties"]["said"] = said

    said = "then"
    await world.receive(p, change("a.geojson", geojson(ZURICH), minute=1))
    await world.run(p)
    ((name, first),) = (await rows(world)).items()
    said = "now"
    await world.receive(p, change("a.geojson", geojson(BERN), minute=2))
    await world.run(p)
    _, reverted = await facts.page(world.db, [1], 0, 100)
    await revert.ask(world.db, reverted.entry, because="wrong place")
    await world.run(p)
    assert await rows(world) == {name: (*first[:2], 3)}
    (item,) = await items(world)
    assert (item.properties, item.geometry) == ({"said": "then"}, ZURICH)


async def test_a_catalog_that_is_given_up_leaves_nothing_behind(world: World) -> None:
    """The dataset is dropped from the declaration: the next version of an object has no item."""
    await world.receive(p := world.pipeline(dataset="soil"), change("a", "1", minute=1))
    await world.run(p)
    assert await world.count("headgate.item") == 1
    await world.receive(p := world.pipeline(), change("a", "2", minute=2))
    await world.run(p)
    assert await world.count("headgate.item") == 0


# The handler


async def test_a_handler_may_amend_a_pystac_item(world: World) -> None:
    """It is handed what was found, and whatever it changes there counts."""
    p = world.pipeline()
    seen: list[pystac.Item] = []

    @p.transform
    def upper(obj: hg.Object) -> dict[str, bytes]:
        return {"upper.txt": obj.read().upper()}

    @p.item(collection="soil")
    def describe(item: pystac.Item, obj: hg.Object, run: hg.Run) -> None:
        seen.append(item.clone())
        item.properties["soil:depth_cm"] = 30
        item.datetime = NOON - timedelta(days=1)
        item.assets["data"].title = "As it came"
        item.add_asset("photo", pystac.Asset("https://example.org/a.jpg", media_type="image/jpeg"))
        item.add_link(pystac.Link("license", "https://example.org/license"))
        item.stac_extensions.append("https://example.org/soil/v1.0.0/schema.json")

    await world.receive(p, change("a.geojson", geojson(ZURICH)))
    await world.run(p)
    assert await world.quarantined() == []
    (made,) = seen
    assert (made.collection_id, made.bbox) == ("soil", [8.55, 47.37, 8.55, 47.37])
    upper_digest = hashlib.sha256(geojson(ZURICH).upper().encode()).hexdigest()
    assert made.assets["upper.txt"].to_dict()["checksum:sha256"] == upper_digest
    (item,) = await items(world)
    assert item.geometry == ZURICH
    assert item.start == item.end == NOON - timedelta(days=1)
    assert item.properties == {"soil:depth_cm": 30}
    assert item.assets == {
        "data": {"title": "As it came"},
        "photo": {"href": "https://example.org/a.jpg", "type": "image/jpeg"},
    }
    assert [link["rel"] for link in item.links] == ["license"]
    assert item.extensions == ("https://example.org/soil/v1.0.0/schema.json",)


async def test_a_handler_may_return_an_item_of_its_own(world: World) -> None:
    """A `pystac.Item` from wherever, or a dict that says only what it wants said."""
    p = world.pipeline(dataset="soil")
    start, end = NOON, NOON + timedelta(hours=1)

    @p.item
    async def describe(item: dict[str, Any], obj: hg.Object) -> Any:
        if obj.name == "whole":
            square = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
            times: dict[str, Any] = {"start_datetime": start, "end_datetime": end}
            return pystac.Item("field-7", square, None, None, {"a": 1}, **times)
        return {"bbox": [178, -20, -178, -15], "properties": {"b": 2}}

    await world.receive(p, change("whole", "1"), change("part", "2"))
    await world.run(p)
    assert await world.quarantined() == []
    whole, part = sorted(await items(world), key=lambda i: i.id)
    assert (whole.id, whole.start, whole.end) == ("field-7", start, end)
    assert (whole.bbox, whole.properties) == ((0, 0, 1, 1), {"a": 1})
    assert (part.id.partition("-")[0], part.start, part.properties) == ("part", NOON, {"b": 2})
    assert part.geometry is not None
    assert part.geometry["type"] == "MultiPolygon"
    # A box of Postgres has no antimeridian: it goes on to the east.
    assert (await rows(world))[part.id][1] == "(182,-15),(178,-20)"


REFUSED: list[tuple[Any, str]] = [
    (7, "returned a int"),
    ({"id": "a/b"}, "cannot be called 'a/b'"),
    ({"id": "field.v2"}, "cannot be called 'field.v2'"),
    ({"collection": "clay"}, "says collection 'clay', and it is in 'soil'"),
    ({"geometry": {"type": "Point", "coordinates": [2600000, 1200000]}}, "are no degrees"),
    ({"geometry": {"type": "Circle"}}, "geometry or bbox cannot be used"),
    ({"bbox": [1, 2, 3]}, "four numbers"),
    ({"properties": {"datetime": "yesterday"}}, "datetime is 'yesterday'"),
    ({"properties": {"start_datetime": "2026-01-01T00:00:00Z"}}, "half a time"),
    ({"properties": {"a": object()}}, "cannot be written as JSON"),
    ({"properties": None}, "properties is a NoneType"),
    ({"properties": {"a": "x" * 2_000_000}}, "1024 KiB is the most"),
    ({"assets": {"photo": {}}}, "asset 'photo' has no href"),
    ({"links": ["https://example.org"]}, "link is a str"),
    (ValueError("no such field"), "ValueError: no such field"),
]


async def test_an_item_that_cannot_be_shown_is_refused(world: World) -> None:
    """Nothing is published, and the reason says what to mend."""
    p = world.pipeline(dataset="soil")

    @p.item
    def describe(item: dict[str, Any], obj: hg.Object) -> Any:
        given, _ = REFUSED[int(obj.name)]
        if isinstance(given, Exception):
            raise given
        return given

    await world.receive(p, *(change(f"x/{n}", "1", minute=n) for n in range(len(REFUSED))))
    await world.run(p)
    found = await world.rows(
        "SELECT e.uri, q.class, q.reason, q.error FROM headgate.quarantine q"
        " JOIN headgate.entry e ON e.id = q.entry"
    )
    assert {(classed, reason) for _, classed, reason, _ in found} == {("schema", "item")}
    errors = {int(uri.rpartition("/")[2]): error for uri, _, _, error in found}
    assert [says for n, (_, says) in enumerate(REFUSED) if says not in errors.get(n, "")] == []
    assert await world.count("headgate.publication") == await world.count("headgate.item") == 0


async def test_a_geometry_too_large_to_show_becomes_its_box(world: World) -> None:
    """It is found where it lies; the exact outline is in the data, and the item says so."""
    p = world.pipeline(dataset="soil")
    line = {"type": "LineString", "coordinates": [[n / 1e4, 47.123456] for n in range(9000)]}
    await world.receive(p, change("a.geojson", geojson(line)))
    await world.run(p)
    (item,) = await items(world)
    assert item.bbox == (0, 47.123456, 0.8999, 47.123456)
    assert item.geometry == {
        "type": "LineString", "coordinates": [[0, 47.123456], [0.8999, 47.123456]],
    }  # fmt: skip
    assert item.properties["headgate:footprint"].startswith("its bounding box: the geometry takes")


async def test_a_damaged_file_is_published_without_a_place(world: World) -> None:
    """Whether it is good enough is for validators to say; the item says why it lies nowhere."""
    p = world.pipeline(dataset="soil")
    await world.receive(p, change("a.geojson", '{"type": "Feature", "geo'))
    await world.run(p)
    (item,) = await items(world)
    assert item.geometry is None
    assert item.properties["headgate:footprint"].startswith("none: data cannot be read")
    assert [row[1] for row in (await rows(world)).values()] == [None]


# Several objects, one item


async def test_several_objects_form_one_item(world: World) -> None:
    """By a function, by what the source says, or by the handler's own word: the name is shared."""
    for way in ("function", "source", "handler"):
        p = world.pipeline(way, dataset=way)

        def by_scene(obj: hg.Object) -> str:
            return obj.uri.rpartition("/")[0].rpartition("/")[2]

        @p.item(item=by_scene if way == "function" else None)
        def describe(item: dict[str, Any], obj: hg.Object, run: hg.Run) -> None:
            if run.pipeline == "handler":
                item["id"] = by_scene(obj)

        changes = [change(f"{way}/scene-7/b{n}", f"{n}") for n in (2, 3)]
        if way == "source":
            changes = [msgspec.structs.replace(c, item="scene 7") for c in changes]
        await world.receive(p, *changes)
        await world.run(p)
        found = await world.rows("SELECT item FROM headgate.item WHERE collection = $1", way)
        named = hashlib.sha256(b"scene 7").hexdigest()[:12]
        name = f"scene-7-{named}" if way == "source" else "scene-7"
        assert found == [(name,), (name,)]


async def test_a_name_is_the_same_for_every_version_and_no_other_object(world: World) -> None:
    """Readable, fit for addresses and file names, and apart from others of the same last part."""
    p = world.pipeline(dataset="soil")
    odd = ["x/a.csv", "y/a.csv", "über uns?q=1", "f/" + "n" * 300, "..", "scene.v2", "z/"]
    await world.receive(p, *(change(name, name, minute=1) for name in odd))
    await world.run(p)
    names = set(await rows(world))
    assert len(names) == len(odd)
    assert all(len(name) <= 80 for name in names)
    assert all(c.isascii() and (c.isalnum() or c in "._-") for name in names for c in name)
    await world.receive(p, *(change(name, name + "!", minute=2) for name in odd))
    await world.run(p)
    assert set(await rows(world)) == names


# Always in step with the heads


@pytest.mark.parametrize("point", [Point.PROMOTED, Point.BEFORE_FINALIZE, Point.AFTER_FINALIZE])
def test_a_crash_in_the_commit_leaves_items_and_heads_in_step(place: Place, point: Point) -> None:
    """Either both versions of the story have the old item or both have the new one."""
    place.declare(dataset="load")
    place.put("a.geojson", "b", text=geojson(ZURICH))
    place.run()
    place.put("a.geojson", text=geojson(BERN))
    up = place.up(crash_at=point)
    up.ends()
    assert up.died_children() == ["work"], up.said()
    found = place.query(
        "SELECT split_part(i.item, '-', 1), p.version FROM headgate.item i"
        " JOIN headgate.publication p USING (entry) WHERE p.successor IS NULL ORDER BY 1"
    )
    assert found == [("a.geojson", 2), ("b", 1)]
    place.verifies()


async def test_two_workers_leave_one_item_for_each_object(world: World) -> None:
    """They race for versions of the same objects; each object ends with one item, its newest."""
    p = world.pipeline(dataset="soil")
    changes = [
        change(f"{n}.geojson", geojson(BERN if minute % 2 else ZURICH)[:-1] + f', "m": {minute}}}',
               minute=minute, subject=f"{n} {minute}")
        for n in range(20) for minute in range(4)
    ]  # fmt: skip
    await world.receive(p, *changes)
    await world.work(p, workers=2)
    found = await world.rows(
        "SELECT count(*), count(DISTINCT item), count(*) FILTER (WHERE bbox ~= box '(7.45,46.95),"
        "(7.45,46.95)') FROM headgate.item"
    )
    assert found == [(20, 20, 20)]
