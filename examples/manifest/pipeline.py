"""The files that a manifest names become rows of the table `station`."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import headgate as hg

# In production this is where the publisher keeps it, as in "https://data.example/manifest.csv".
HERE = Path(__file__).resolve().parent
LIST = os.environ.get("LIST", str(HERE / "lists" / "manifest.csv"))

stations = hg.Pipeline(
    "stations", sources=[hg.Manifest(LIST, every="1s")], store="lake/", removed="remove"
)


class Station(TypedDict):
    name: str
    height: int


@stations.rows("station", key="name", schema=Station)
def station(obj: hg.Object) -> Iterator[dict[str, Any]]:
    yield json.loads(obj.text())
