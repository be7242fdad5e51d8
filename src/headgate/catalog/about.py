"""Describing: what a catalog shows of an object, found by Headgate and amended by its author.

An item has a name that stays the same over the object's versions, a place where one can be found, a
time, and whatever the pipeline's `item` handler adds. The handler is given a STAC item as far as it
is known, as a plain document or as a `pystac.Item`; what it leaves behind or returns counts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import orjson

from headgate.errors import SchemaError
from headgate.model.facts import File, Item

from . import place
from .footprint import Footprint
from .place import Geometry, Misplaced

GEOMETRY_BYTES = 64 << 10
ITEM_BYTES = 1 << 20
# Why an item has no place, or a coarser one than its data.
NOTE = "headgate:footprint"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}")
_OLD_VERSION = re.compile(r".*\.v\d+")
_OTHER = re.compile(r"[^A-Za-z0-9._-]+")
_SLUG, _HASH = 60, 12
_TIMES = ("datetime", "start_datetime", "end_datetime")
# Who links an item to its catalog and its versions is the catalog.
_OURS = frozenset({
    "self", "root", "parent", "collection", "item",
    "predecessor-version", "successor-version", "latest-version", "version-history",
})  # fmt: skip


def name_of(uri: str) -> str:
    """An item's name by default: readable, and the same for every version of the object."""
    return _named(uri.rstrip("/").rpartition("/")[2], uri)


def name_as_said(said: object, by: str) -> str:
    """The name of an item that several objects form, from what a source or `item=` calls it."""
    if not isinstance(said, str) or not said:
        raise refused(f"{by} gave {said!r}", "give the item's name, as text that is not empty")
    return said if is_name(said) else _named(said, said)


def is_name(text: str) -> bool:
    """Can it be an item's name, in addresses and as a file? Older versions end in `.v1`."""
    return _NAME.fullmatch(text) is not None and not _OLD_VERSION.fullmatch(text)


def found(collection: str, name: str, at: datetime, footprint: Footprint) -> Item:
    """The item as far as it can be found without its author."""
    properties = {} if footprint.note is None else {NOTE: footprint.note}
    item = Item(name, collection, at, at, footprint.geometry, footprint.bbox, properties)
    return _bounded(item)


def offered(item: Item, uri: str, files: Sequence[File]) -> dict[str, Any]:
    """The item as a handler gets it: a STAC document of its own to change."""
    document: dict[str, Any] = {
        "type": "Feature",
        "stac_version": "1.1.0",
        "stac_extensions": [],
        "id": item.id,
        "collection": item.collection,
        "geometry": deepcopy(item.geometry),
        "properties": {"datetime": _text(item.start), **item.properties},
        "assets": {f.name: _asset(f, uri if n == 0 else f.name) for n, f in enumerate(files)},
        "links": [],
    }
    if item.bbox is not None:
        document["bbox"] = list(item.bbox)
    return document


def as_pystac(document: dict[str, Any]) -> Any:
    """The same as a `pystac.Item`."""
    import pystac

    return pystac.Item.from_dict(document)


def amended(item: Item, before: Mapping[str, Any], given: object) -> Item:
    """The item after its handler: `before` is what was offered, `given` what is there now."""
    said = _plain(given)
    whole = {**before, **said}
    properties = _mapping(whole, "properties")
    for link in whole["links"]:
        _mapping({"link": link}, "link")
    start, end = _when(properties, item)
    geometry, bbox = _where(item, said)
    kept = {k: v for k, v in properties.items() if k not in (*_TIMES, NOTE)}
    if geometry is None and item.geometry is None and NOTE in item.properties:
        kept[NOTE] = item.properties[NOTE]
    if start != end and properties.get("datetime") is not None:
        kept["datetime"] = properties["datetime"]
    amended = replace(
        item,
        id=_id(whole),
        start=start,
        end=end,
        geometry=geometry,
        bbox=bbox,
        properties=kept,
        assets=_assets(_mapping(whole, "assets"), before["assets"]),
        links=tuple(link for link in whole["links"] if link.get("rel") not in _OURS),
        extensions=tuple(whole["stac_extensions"] or ()),
    )
    if whole["collection"] not in (None, item.collection):
        raise refused(
            f"the item says collection {whole['collection']!r}, and it is in {item.collection!r}",
            "give the pipeline's collection once: @pipeline.item(collection=...)",
        )
    return _bounded(amended)


def refused(text: str, hint: str) -> SchemaError:
    """What a handler gave cannot be shown."""
    return SchemaError(text, reason="item", hint=hint)


def _named(text: str, hashed: str) -> str:
    slug = _OTHER.sub("-", text).strip("-._")[:_SLUG].rstrip("-._")
    digest = hashlib.sha256(hashed.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{slug}-{digest}" if slug else digest


def _bounded(item: Item) -> Item:
    """An item of a size that a ledger and a page of results can hold."""
    size = len(orjson.dumps(item.geometry)) if item.geometry is not None else 0
    if size > GEOMETRY_BYTES and item.bbox is not None:
        note = f"its bounding box: the geometry takes {size >> 10} KiB"
        item = replace(
            item,
            geometry=place.outline(place.check(item.bbox)),
            properties={**item.properties, NOTE: note},
        )
    added = (item.properties, item.assets, item.links, item.extensions)
    if any(added) and (size := len(orjson.dumps(added))) > ITEM_BYTES:
        raise refused(
            f"the item says {size >> 10} KiB, and {ITEM_BYTES >> 10} KiB is the most",
            "put large things into an artifact: @pipeline.transform",
        )
    return item


def _asset(file: File, href: str) -> dict[str, Any]:
    said = {"href": href, "type": file.media_type, "checksum:sha256": file.digest}
    return said if file.size is None else {**said, "file:size": file.size}


def _plain(given: object) -> dict[str, Any]:
    """What a handler gave, as JSON would say it."""
    if not isinstance(given, dict):
        if not hasattr(given, "to_dict"):
            raise refused(
                f"the handler returned a {type(given).__name__}",
                "return a pystac.Item or a dict of the same shape, or amend the one handed in",
            )
        given = cast("Any", given).to_dict(include_self_link=False, transform_hrefs=False)
    try:
        return orjson.loads(orjson.dumps(given, option=orjson.OPT_SERIALIZE_NUMPY))
    except TypeError as error:
        raise refused(
            f"the item cannot be written as JSON: {error}", "use text, numbers, lists and dicts"
        ) from error


def _mapping(whole: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = whole[name]
    if not isinstance(value, dict):
        raise refused(f"the item's {name} is a {type(value).__name__}", "it is a dict")
    return cast("dict[str, Any]", value)


def _id(whole: Mapping[str, Any]) -> str:
    said = whole["id"]
    if not isinstance(said, str) or not is_name(said):
        raise refused(
            f"the item cannot be called {said!r}",
            "use letters, digits, . _ and - (at most 80), and no .v1 at the end",
        )
    return said


def _assets(said: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """What was added: assets of other names whole, of our own files what was said beyond them."""
    added: dict[str, Any] = {}
    for name in said:
        asset, ours = _mapping(said, name), before.get(name)
        if ours is None:
            if not isinstance(asset.get("href"), str):
                raise refused(f"asset {name!r} has no href", "say where it is: href")
            added[name] = asset
        elif more := {k: v for k, v in asset.items() if k != "href" and ours.get(k) != v}:
            added[name] = more
    return added


def _when(properties: Mapping[str, Any], item: Item) -> tuple[datetime, datetime]:
    at, start, end = (_time(name, properties.get(name)) for name in _TIMES)
    if start is None and end is None:
        at = at or item.start
        return at, at
    if start is None or end is None:
        raise refused("the item has half a time", "give start_datetime and end_datetime")
    if start > end:
        raise refused("the item ends before it starts", "start_datetime is the earlier one")
    return start, end


def _time(name: str, said: object) -> datetime | None:
    if said is None:
        return None
    try:
        at = datetime.fromisoformat(cast("str", said))
    except (TypeError, ValueError):
        raise refused(f"{name} is {said!r}", "a time as in 2026-01-05T06:00:00Z") from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _where(item: Item, said: Mapping[str, Any]) -> tuple[Geometry | None, tuple[float, ...] | None]:
    """Geometry and box. Who gives one of them only gets the other made from it."""
    known = None if item.geometry is None else dict(item.geometry)
    geometry, bbox = said.get("geometry", known), said.get("bbox", item.bbox)
    box = tuple(bbox) if bbox else None  # pystac says [] where there is none
    try:
        if box is not None and box != item.bbox:
            flat = place.check(box)
            if geometry is None or geometry == known:
                return place.outline(flat), box
            return _shape(geometry), box
        if geometry is None:
            return None, None
        if geometry == known:
            return known, item.bbox
        around = place.bounds([geometry])
        if around is None:
            raise Misplaced("the geometry has no position")
        return _shape(geometry), around
    except (Misplaced, TypeError, KeyError, IndexError, AttributeError) as error:
        raise refused(
            f"the item's geometry or bbox cannot be used: {error}",
            "geometry is a GeoJSON geometry in degrees, longitude first; bbox is west, south, "
            "east, north",
        ) from None


def _shape(geometry: Mapping[str, Any]) -> Geometry:
    if place.bounds([geometry]) is None:
        raise Misplaced("the geometry has no position")
    return {"type": geometry["type"], "coordinates": geometry["coordinates"]}


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
