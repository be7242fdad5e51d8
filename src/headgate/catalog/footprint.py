"""Footprints: where on the earth the data of a file lies, found in the file itself.

    GeoJSON      its coordinates, read up to `WHOLE_BYTES`; of larger ones the `bbox` it says
    GeoParquet   the bounding box in its metadata, else in the statistics of its covering
    GeoTIFF      its grid

What a file is, its media type or the ending of its name tells. Nothing is asked over the network,
and no more is read than is needed. A file without a place has no footprint; one that is damaged has
none either, and the note says why: a footprint is told about the data, it is no check of it.
"""

# rasterio and pyarrow have no types.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import orjson

from headgate.model.facts import TYPES, File, ending

from . import place
from .place import Box, Geometry, Misplaced

WHOLE_BYTES = 8 << 20
# Of a larger GeoJSON, how much is read at each end.
_END_BYTES = 64 << 10
_DECIMALS = 7  # a centimetre


class Located(NamedTuple):
    """A file of a publication, what it was called where it came from, and how to get its bytes."""

    file: File
    uri: str
    open: Callable[[], BinaryIO]
    path: Callable[[], Path]

    @property
    def name(self) -> str:
        return self.file.name


class Footprint(NamedTuple):
    """A place, or why there is none. Without a note nobody expected one."""

    geometry: Geometry | None = None
    bbox: Box | None = None
    note: str | None = None


NOWHERE = Footprint()


def footprint(files: Sequence[Located]) -> Footprint:
    """The footprint of the first of these files that has one. Never raises."""
    notes: list[str] = []
    for file in files:
        found = _of(file)
        if found.bbox is not None:
            return found
        if found.note is not None:
            notes.append(found.note)
    return Footprint(note="; ".join(notes)) if notes else NOWHERE


def _of(file: Located) -> Footprint:
    read = _reader(file)
    if read is None:
        return NOWHERE
    try:
        return read(file)
    except Misplaced as error:
        return Footprint(note=f"none: {file.name}: {error}")
    except Exception as error:  # bytes may be anything, and what reads them may raise anything
        what = type(error).__name__
        return Footprint(note=f"none: {file.name} cannot be read as what it is named ({what})")


def _reader(file: Located) -> Callable[[Located], Footprint] | None:
    said = file.file.media_type.partition(";")[0].strip()
    # Many senders call everything text or bytes: then the name tells.
    named = TYPES.get(ending(file.uri), "").partition(";")[0]
    return _READERS.get(said) or _READERS.get(named)


def _geojson(file: Located) -> Footprint:
    if (file.file.size or 0) > WHOLE_BYTES:
        return _said_at_an_end(file)
    with file.open() as stream:
        document: Any = orjson.loads(stream.read())
    geometries = list(_geometries(document))
    crs = _legacy_crs(document)
    if crs is not None:
        return _elsewhere(_plain_bounds(geometries), crs)
    box = place.bounds(geometries)
    if box is None:
        return NOWHERE
    if len(geometries) == 1 and all(abs(p[0]) <= 180 for p in place.positions(geometries[0])):
        return Footprint(place.flat(geometries[0]), box)
    return Footprint(place.outline(box), box)


def _geometries(document: Any) -> Iterator[Mapping[str, Any]]:
    """The geometries in any GeoJSON object."""
    if document is None:  # a feature without a place
        return
    match document["type"]:
        case "FeatureCollection":
            for feature in document["features"]:
                yield from _geometries(feature)
        case "Feature":
            yield from _geometries(document["geometry"])
        case "GeometryCollection":
            for geometry in document["geometries"]:
                yield from _geometries(geometry)
        case _:
            yield document


# A bounding box as the first thing of a document, after nothing but plain members, or as the last.
_TEXT = rb'"(?:[^"\\]|\\.)*"'
_PLAIN = rb"(?:" + _TEXT + rb"|[-+\w.]+)"
_BBOX = rb'"bbox"\s*:\s*(\[[^][{}"]*\])'
_FIRST = re.compile(rb"\s*\{\s*(?:" + _TEXT + rb"\s*:\s*" + _PLAIN + rb"\s*,\s*){0,20}" + _BBOX)
_LAST = re.compile(_BBOX + rb"\s*\}\s*\Z")


def _said_at_an_end(file: Located) -> Footprint:
    with file.open() as stream:
        head = stream.read(_END_BYTES)
        stream.seek(-_END_BYTES, 2)
        tail = stream.read()
    said = _FIRST.match(head) or _LAST.search(tail)
    if said is None or b'"crs"' in head + tail:
        most = WHOLE_BYTES >> 20
        return Footprint(note=f"none: {file.name} is larger than {most} MiB and says no bbox")
    box = place.check(orjson.loads(said[1]))
    return Footprint(place.outline(box), box)


def _legacy_crs(document: Any) -> str | None:
    """What GeoJSON before RFC 7946 could say: coordinates that are no degrees."""
    crs = document.get("crs")
    name = "" if crs is None else str(crs["properties"]["name"])
    return name if name and not name.endswith(("CRS84", "EPSG::4326", "EPSG:4326")) else None


def _plain_bounds(geometries: list[Mapping[str, Any]]) -> Sequence[float] | None:
    positions = [p for g in geometries for p in place.positions(g)]
    if not positions:
        return None
    xs, ys = [p[0] for p in positions], [p[1] for p in positions]
    return min(xs), min(ys), max(xs), max(ys)


def _geoparquet(file: Located) -> Footprint:
    try:
        from pyarrow import parquet
    except ImportError:
        return NOWHERE
    with file.open() as stream:
        footer: Any = cast("Any", parquet).read_metadata(stream)
        said: dict[bytes, bytes] = footer.metadata or {}
        if b"geo" not in said:  # an ordinary table
            return NOWHERE
        geo = orjson.loads(said[b"geo"])
        column = geo["columns"][geo["primary_column"]]
        box = column.get("bbox") or _covering(footer, column)
    if "crs" not in column or _is_degrees(column["crs"]):
        if box is None:
            return Footprint(note=f"none: {file.name} says no bbox")
        box = place.check(box)
        return Footprint(place.outline(box), box)
    if column["crs"] is None:
        return Footprint(note=f"none: {file.name} does not say what its coordinates are")
    return _elsewhere(box, column["crs"])


def _covering(footer: Any, column: Mapping[str, Any]) -> Sequence[float] | None:
    """The box around the boxes of all rows, by the statistics of the columns that hold them."""
    covering: dict[str, list[str]] = column.get("covering", {}).get("bbox", {})
    paths = {".".join(path): name for name, path in covering.items()}
    seen: dict[str, list[float]] = {}
    for n in range(footer.num_row_groups):
        group = footer.row_group(n)
        for c in range(group.num_columns):
            chunk = group.column(c)
            name = paths.get(chunk.path_in_schema)
            if name is None:
                continue
            if not chunk.is_stats_set or not chunk.statistics.has_min_max:
                return None
            seen.setdefault(name, []).extend((chunk.statistics.min, chunk.statistics.max))
    if not {"xmin", "ymin", "xmax", "ymax"} <= seen.keys():
        return None
    return min(seen["xmin"]), min(seen["ymin"]), max(seen["xmax"]), max(seen["ymax"])


def _is_degrees(crs: Any) -> bool:
    """Longitude and latitude of WGS 84, by the name it goes by."""
    said: dict[str, Any] = crs.get("id", {}) if crs else {}
    return (said.get("authority"), str(said.get("code"))) in {("OGC", "CRS84"), ("EPSG", "4326")}


def _elsewhere(box: Sequence[float] | None, crs: Any) -> Footprint:
    """A box of other coordinates, brought to degrees where rasterio is there to do it."""
    if box is None:
        return NOWHERE
    try:
        from rasterio import warp
        from rasterio.crs import CRS
    except ImportError:
        return Footprint(
            note="none: its coordinates are no degrees, and headgate[raster] is not there"
        )
    half = len(box) // 2
    sides = (box[0], box[1], box[half], box[half + 1])
    known = cast("Any", CRS).from_user_input(crs)
    turned = place.check([
        round(side, _DECIMALS) for side in cast("Any", warp).transform_bounds(known, WGS84, *sides)
    ])  # fmt: skip
    return Footprint(place.outline(turned), turned)


def _geotiff(file: Located) -> Footprint:
    try:
        import rasterio
    except ImportError:
        return NOWHERE
    # By this driver alone, and with nothing beside the file: others follow addresses.
    with (
        cast("Any", rasterio).Env(GDAL_DISABLE_READDIR_ON_OPEN="EMPTY_DIR", GDAL_PAM_ENABLED="NO"),
        cast("Any", rasterio).open(file.path(), driver="GTiff") as image,
    ):
        if image.crs is None:
            return Footprint(note=f"none: {file.name} does not say what its coordinates are")
        return _grid(image)


def _grid(image: Any) -> Footprint:
    from rasterio import warp

    found = _elsewhere(image.bounds, image.crs)
    if found.bbox is None or found.bbox[0] > found.bbox[2]:
        return found
    # Its own corners: a tile of another grid stands askew between the meridians.
    corners = [(0, 0), (0, image.height), (image.width, image.height), (image.width, 0)]
    xs, ys = zip(*(image.transform @ corner for corner in corners), strict=True)
    longitudes, latitudes = cast("Any", warp).transform(image.crs, WGS84, xs, ys)
    ring = [
        [round(x, _DECIMALS), round(y, _DECIMALS)]
        for x, y in zip(longitudes, latitudes, strict=True)
    ]
    box = place.check(found.bbox)
    return Footprint({"type": "Polygon", "coordinates": [[*ring, ring[0]]]}, box)


WGS84 = "EPSG:4326"
_READERS: dict[str, Callable[[Located], Footprint]] = {
    "application/geo+json": _geojson,
    "application/vnd.geo+json": _geojson,
    "application/vnd.apache.parquet": _geoparquet,
    "application/x-parquet": _geoparquet,
    "application/parquet": _geoparquet,
    "image/tiff": _geotiff,
}
