"""A catalog for tests: small things with a place and a time, published by the real path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import headgate as hg

# A body says where and when it is; whoever publishes it keeps the body beside it.
SHELF = """
import json
import headgate as hg

def shelf(name, store, **declared):
    p = hg.Pipeline(name, store=store, **declared)

    @p.transform
    def keep(obj, run):
        return {"copy.json": obj.read()}

    @p.item
    def where(item, obj):
        said = json.loads(obj.read())
        item["id"] = said.get("id") or item["id"]
        if said.get("geometry"):
            item["geometry"] = said["geometry"]
            item.pop("bbox", None)
        if said.get("at"):
            item["properties"]["datetime"] = said["at"]
        item["properties"]["said"] = said.get("said")

    return p
"""


def shelf(name: str, store: Path | str, **declared: Any) -> hg.Pipeline:
    """A pipeline whose objects say where and when they are."""
    made: dict[str, Any] = {}
    exec(SHELF, made)
    return made["shelf"](name, str(store), **{"dataset": name, **declared})


def thing(
    geometry: dict[str, Any] | None = None, at: str | None = None, said: Any = None, id: str = ""
) -> bytes:
    """An object of a shelf."""
    return json.dumps({"geometry": geometry, "at": at, "said": said, "id": id}).encode()


def point(x: float, y: float) -> dict[str, Any]:
    return {"type": "Point", "coordinates": [x, y]}


def square(west: float, south: float, east: float, north: float) -> dict[str, Any]:
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {"type": "Polygon", "coordinates": [ring]}
