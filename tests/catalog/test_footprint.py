"""Footprints: a place is found where the file says one, and nothing breaks where it does not."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rasterio
from hypothesis import example, given
from hypothesis import strategies as st
from rasterio.crs import CRS
from rasterio.transform import from_origin

from headgate.catalog import footprint as footprints
from headgate.catalog import place
from headgate.catalog.footprint import Footprint, Located, footprint
from headgate.model.facts import File, media_type

SQUARE = {"type": "Polygon", "coordinates": [[[8, 47], [9, 47], [9, 48], [8, 48], [8, 47]]]}
UTM = "EPSG:32632"


def located(content: bytes, uri: str, content_type: str | None = None, folder: Path | None = None):
    """A file of these bytes, as the path hands it in."""

    def path() -> Path:
        assert folder is not None, "nobody should want a file of this"
        file = folder / "spooled"
        file.write_bytes(content)
        return file

    file = File("data", "00", len(content), media_type(uri, content_type))
    return Located(file, uri, lambda: io.BytesIO(content), path)


def of(document: Any, uri: str = "file:///a.geojson", content_type: str | None = None) -> Footprint:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return footprint([located(text, uri, content_type)])


def feature(geometry: Any) -> dict[str, Any]:
    return {"type": "Feature", "properties": {}, "geometry": geometry}


def features(*geometries: Any) -> dict[str, Any]:
    return {"type": "FeatureCollection", "features": [feature(g) for g in geometries]}


def collection(*geometries: Any) -> dict[str, Any]:
    return {"type": "GeometryCollection", "geometries": list(geometries)}


def point(*coordinates: float) -> dict[str, Any]:
    return {"type": "Point", "coordinates": list(coordinates)}


# GeoJSON


@pytest.mark.parametrize(
    ("document", "geometry", "bbox"),
    [
        (SQUARE, SQUARE, (8, 47, 9, 48)),
        (feature(SQUARE), SQUARE, (8, 47, 9, 48)),
        (features(SQUARE), SQUARE, (8, 47, 9, 48)),
        (features(SQUARE, point(10, 46)), None, (8, 46, 10, 48)),
        (
            collection(SQUARE, point(7, 47)),
            None,
            (7, 47, 9, 48),
        ),
        (features(point(8, 47), point(8, 47)), point(8, 47), (8, 47, 8, 47)),
        (feature(point(8.5, 47.4, 408)), point(8.5, 47.4), (8.5, 47.4, 8.5, 47.4)),
        (feature(None), None, None),
        (features(), None, None),
        (features(None, SQUARE), SQUARE, (8, 47, 9, 48)),
    ],
)
def test_any_geojson_object_has_the_place_of_its_coordinates(
    document: Any, geometry: Any, bbox: Any
) -> None:
    """One geometry is shown as it is, flat; several as the box around them."""
    found = of(document)
    assert found.bbox == bbox
    assert found.note is None
    if geometry is not None:
        assert found.geometry == geometry
    elif bbox is not None:
        assert found.geometry == place.outline(bbox)


@pytest.mark.parametrize(
    ("longitudes", "west", "east"),
    [
        ([(170, 180), (-180, -170)], 170, -170),  # split at the antimeridian, as it should be
        ([(178, 178), (-178, -178)], 178, -178),
        ([(-10, 10)], -10, 10),
        ([(-180, 180)], -180, 180),
        ([(-120, -60), (60, 120)], -120, 120),  # no half of the world without them
        ([(170, 190)], 170, -170),  # counted on
        ([(190, 200)], -170, -160),
        ([(350, 359)], -10, -1),
        ([(0, 360)], -180, 180),
        ([(180, 180), (170, 175)], 170, 180),
    ],
)
def test_a_box_crosses_the_antimeridian_where_the_data_does(
    longitudes: list[tuple[float, float]], west: float, east: float
) -> None:
    """Islands on both sides of it are neighbours, not the ends of a belt around the world."""
    lines = [{"type": "LineString", "coordinates": [[a, 1], [b, 2]]} for a, b in longitudes]
    found = of(features(*lines))
    assert found.bbox == (west, 1, east, 2)
    assert found.geometry is not None
    crosses = west > east
    assert (found.geometry["type"] == "MultiPolygon") is (crosses and len(lines) > 1) or crosses
    assert all(abs(p[0]) <= 180 for p in place.positions(found.geometry))


POSITIONS = st.tuples(st.floats(-180, 180), st.floats(-90, 90)).map(list)
GEOMETRIES = st.one_of(
    POSITIONS.map(lambda p: {"type": "Point", "coordinates": p}),
    st.lists(POSITIONS, min_size=1).map(lambda c: {"type": "MultiPoint", "coordinates": c}),
    st.lists(POSITIONS, min_size=2).map(lambda c: {"type": "LineString", "coordinates": c}),
    st.lists(POSITIONS, min_size=3).map(lambda c: {"type": "Polygon", "coordinates": [[*c, c[0]]]}),
)


@given(st.lists(GEOMETRIES, min_size=1, max_size=6))
@example([{"type": "MultiPoint", "coordinates": [[math.nextafter(180, 0), 0.0], [-1.0, 0.0]]}])
def test_a_box_is_around_everything(geometries: list[dict[str, Any]]) -> None:
    """Whatever the coordinates, none of them is outside of the box, in either half of the world."""
    found = of(features(*geometries))
    assert found.bbox is not None
    west, south, east, north = found.bbox
    assert south <= north
    for x, y in _each(geometries):
        assert south <= y <= north
        inside = west <= x <= east if west <= east else (x >= west or x <= east)
        assert inside or abs(x) == 180
    assert found.geometry is not None
    assert place.bounds([found.geometry]) is not None


def _each(geometries: Iterable[dict[str, Any]]) -> Iterable[tuple[float, float]]:
    return ((p[0], p[1]) for g in geometries for p in place.positions(g))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from(["type", "coordinates", "features", "geometry", "geometries", "crs"]), inner
    ),
)  # fmt: skip
KINDS = st.sampled_from([*place.DEPTHS, "Feature", "FeatureCollection", "GeometryCollection"])


@given(st.one_of(
    st.binary(),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.builds(
        lambda kind, inner: json.dumps(
            {"type": kind, "coordinates": inner, "features": inner, "geometries": inner}
        ).encode(), KINDS, JSON,
    ),
))  # fmt: skip
def test_bytes_that_are_no_geojson_have_no_place_and_break_nothing(content: bytes) -> None:
    """Whatever a file called .geojson holds, it is published; if it has a place, that is a box."""
    found = of(content)
    if found.bbox is not None:
        assert all(map(math.isfinite, found.bbox))


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (b'{"type": "Feature", "geometry": {"type": "Poi', "none: data cannot be read as what it"),
        (b"", "none: data cannot be read"),
        (json.dumps(point(2_600_000, 1_200_000)).encode(), "no degrees"),
        (json.dumps(point(8, 91)).encode(), "no degrees"),
        (b'{"type": "Point", "coordinates": ["8", "47"]}', "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
    ],
)
def test_a_damaged_file_says_why_it_has_no_place(content: bytes, note: str) -> None:
    """A footprint is told about the data; it is no check of it."""
    found = of(content)
    assert found.bbox is None
    assert found.note is not None
    assert note in found.note


def test_other_coordinates_are_brought_to_degrees() -> None:
    """What GeoJSON could say before RFC 7946."""
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32632"}}
    found = of({**features(point(500_000, 5_300_000), point(510_000, 5_310_000)), "crs": crs})
    assert found.bbox == pytest.approx((9.0, 47.85, 9.13, 47.94), abs=0.01)
    degrees = {"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}
    assert of({**SQUARE, "crs": degrees}).bbox == (8, 47, 9, 48)


def test_a_large_geojson_is_not_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own bbox counts, where it stands at the beginning or the end; else there is none."""
    monkeypatch.setattr(footprints, "WHOLE_BYTES", 200_000)
    many = json.dumps([feature(point(1, 2))] * 5000)

    def large(head: str, tail: str) -> Footprint:
        return of(f'{{"type": "FeatureCollection", {head}"features": {many}{tail}}}'.encode())

    bbox = '"bbox": [5, 45, 0, 10, 48, 900]'
    assert large(f'"name": "a \\"b\\"", {bbox}, ', "").bbox == (5, 45, 10, 48)
    assert large("", f', "numberMatched": 5000, {bbox}\n').bbox == (5, 45, 10, 48)
    assert large(f'"properties": {{{bbox}}}, ', "").bbox is None
    none = large("", "")
    assert (none.bbox, none.note) == (None, "none: data is larger than 0 MiB and says no bbox")


@pytest.mark.parametrize(
    ("uri", "content_type", "found"),
    [
        ("https://x/a", "application/geo+json; charset=utf-8", True),
        ("s3://b/a.GEOJSON?versionId=3", "binary/octet-stream", True),
        ("file:///a.geojson", "text/plain", True),
        ("file:///a.json", None, False),
        ("file:///a.csv", "text/csv", False),
    ],
)
def test_the_media_type_or_the_name_tells_what_a_file_is(
    uri: str, content_type: str | None, found: bool
) -> None:
    """Nothing else is opened: a place is not worth reading every file."""
    assert (of(SQUARE, uri, content_type).bbox is not None) is found


# GeoParquet


def parquet(geo: dict[str, Any] | None, table: pa.Table | None = None) -> Footprint:
    written = table or pa.table({"geometry": [b"x", b"y"]})
    if geo is not None:
        written = written.replace_schema_metadata({"geo": json.dumps(geo)})
    sink = io.BytesIO()
    pq.write_table(written, sink)
    return footprint([located(sink.getvalue(), "file:///a.parquet")])


def geo(**column: Any) -> dict[str, Any]:
    return {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}}


def test_geoparquet_has_the_box_of_its_metadata() -> None:
    """Only the footer is read; a table without places has none."""
    assert parquet(geo(encoding="WKB", bbox=[8, 47, 9, 48])).bbox == (8, 47, 9, 48)
    assert parquet(geo(bbox=[8, 47, 0, 9, 48, 900])).bbox == (8, 47, 9, 48)
    assert parquet(geo(bbox=[178, -20, -178, -15])).bbox == (178, -20, -178, -15)
    assert parquet(None) == Footprint()


def test_geoparquet_without_a_box_is_measured_by_its_covering() -> None:
    """The boxes of its rows have statistics; without those there is no place, and it says so."""
    rows = [{"xmin": x, "ymin": 1.0, "xmax": x + 1, "ymax": 2.0} for x in (5.0, 7.0)]
    covering = {name: ["bbox", name] for name in ("xmin", "ymin", "xmax", "ymax")}
    table = pa.table({"geometry": [b"x", b"y"], "bbox": rows})
    assert parquet(geo(covering={"bbox": covering}), table).bbox == (5, 1, 8, 2)
    assert parquet(geo()).note == "none: data says no bbox"


def test_geoparquet_of_other_coordinates() -> None:
    """They are brought to degrees where it says what they are."""
    utm = json.loads(json.dumps(CRS.from_string(UTM).to_dict(projjson=True)))
    found = parquet(geo(crs=utm, bbox=[500_000, 5_300_000, 510_000, 5_310_000]))
    assert found.bbox == pytest.approx((9.0, 47.85, 9.13, 47.94), abs=0.01)
    crs84 = {"id": {"authority": "OGC", "code": "CRS84"}}
    assert parquet(geo(crs=crs84, bbox=[8, 47, 9, 48])).bbox == (8, 47, 9, 48)
    unknown = parquet(geo(crs=None, bbox=[8, 47, 9, 48]))
    assert unknown.note == "none: data does not say what its coordinates are"


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"x" * 100 + b"PAR1"])
def test_a_damaged_parquet_has_no_place(content: bytes) -> None:
    """As with any other file."""
    found = footprint([located(content, "file:///a.parquet")])
    assert found.bbox is None
    assert "cannot be read as what it is named" in (found.note or "")


# GeoTIFF


def tiff(folder: Path, crs: str | None, west: float, north: float, pixel: float) -> Footprint:
    file = folder / "a.tif"
    profile: dict[str, Any] = {"driver": "GTiff", "width": 10, "height": 10, "count": 1}
    if crs is not None:
        profile |= {"crs": crs, "transform": from_origin(west, north, pixel, pixel)}
    with rasterio.open(file, "w", dtype="uint8", **profile) as image:
        image.write(np.zeros((1, 10, 10), "uint8"))
    return footprint([located(file.read_bytes(), "s3://b/a.tif", None, folder)])


def test_a_geotiff_has_the_place_of_its_grid(tmp_path: Path) -> None:
    """In degrees as it is; of another grid as its four corners."""
    assert tiff(tmp_path, "EPSG:4326", 8, 48, 0.1).bbox == pytest.approx((8, 47, 9, 48))
    askew = tiff(tmp_path, UTM, 600_000, 5_300_000, 1000)
    assert askew.bbox == pytest.approx((10.33, 47.75, 10.47, 47.85), abs=0.01)
    assert askew.geometry is not None
    ring = askew.geometry["coordinates"][0]
    assert len(ring) == 5
    assert len({p[0] for p in ring}) == 4, "it stands askew"


def test_a_tile_on_the_antimeridian_crosses_it(tmp_path: Path) -> None:
    """Fiji is not a belt around the world."""
    found = tiff(tmp_path, "EPSG:32701", 100_000, 8_000_000, 10_000)
    assert found.bbox == pytest.approx((179.2, -18.94, -179.82, -18.05), abs=0.1)
    assert found.geometry is not None
    assert found.geometry["type"] == "MultiPolygon"


def test_an_image_without_a_place_says_so(tmp_path: Path) -> None:
    """A photograph is published like anything else."""
    found = tiff(tmp_path, None, 0, 0, 1)
    assert found.note == "none: data does not say what its coordinates are"
    broken = footprint([located(b"II*\0junk", "file:///a.tif", None, tmp_path)])
    assert "cannot be read" in (broken.note or "")


def test_a_raster_that_names_an_address_is_not_followed(tmp_path: Path) -> None:
    """Only one format is read, whatever the bytes pretend to be."""
    vrt = (
        b'<VRTDataset rasterXSize="4" rasterYSize="4"><SRS>EPSG:4326</SRS>'
        b"<GeoTransform>8, 0.25, 0, 48, 0, -0.25</GeoTransform>"
        b'<VRTRasterBand dataType="Byte" band="1"/></VRTDataset>'
    )
    disguised = footprint([located(vrt, "file:///a.tif", None, tmp_path)])
    assert disguised.bbox is None
    assert "cannot be read" in (disguised.note or "")


def test_the_first_file_with_a_place_counts() -> None:
    """The object itself, else what was made of it."""
    csv = located(b"a,b", "file:///a.csv")
    broken = located(b"{", "file:///a.geojson")
    good = located(json.dumps(SQUARE).encode(), "out.geojson")
    assert footprint([csv, good]).bbox == footprint([broken, good]).bbox == (8, 47, 9, 48)
    assert footprint([csv, broken]).note is not None
    assert footprint([csv]) == Footprint()
