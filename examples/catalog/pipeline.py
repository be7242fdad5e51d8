"""Fields on a map become items of a catalog, with the place that their files say."""

import json
from typing import Any

import headgate as hg

fields = hg.Directory("fields/", pattern="*.geojson")
soil = hg.Pipeline(
    "soil",
    sources=[fields],
    store="lake/",
    dataset=hg.Dataset("soil", title="Soil of some fields", license="CC-BY-4.0"),
)


@soil.item
def describe(item: dict[str, Any], obj: hg.Object) -> None:
    said = json.loads(obj.read())["properties"]
    item["id"] = said["field"]
    item["properties"]["datetime"] = said["sampled"]
    item["properties"]["soil:depth_cm"] = said["depth"]
