"""Readings are checked before anything is made of them: by a contract, and by a function."""

import json
from collections.abc import Iterator
from typing import TypedDict

import headgate as hg

incoming = hg.Directory("incoming/", pattern="*.ndjson")
soil = hg.Pipeline("soil", sources=[incoming], store="lake/", dataset="soil")


class Reading(TypedDict):
    plot: str
    day: str
    moisture: float


soil.validate(hg.JsonSchema("soil.schema.json", each="line"))


@soil.validate
def plots_are_known(obj: hg.Object) -> Iterator[hg.Check]:
    for reading in readings(obj):
        known = str(reading.get("plot", "")).startswith("north-")
        yield hg.Check("plots", known, reason="unknown_plot", examined=1, failed=int(not known))


@soil.rows("soil_reading", key=("plot", "day"), schema=Reading)
def rows(obj: hg.Object):
    yield from readings(obj)


def readings(obj: hg.Object) -> Iterator[dict]:
    for line in obj.lines():
        yield json.loads(line)
