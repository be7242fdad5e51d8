"""Two files on a web server become rows of the table `station`, each version once."""

import csv
import os
from collections.abc import Iterator
from typing import TypedDict

import headgate as hg

# In production this is somebody's server, as in "https://data.example". Here it is our own.
SITE = os.environ.get("SITE", "http://127.0.0.1:8421")
COUNTRIES = ("norway", "switzerland")

lists = hg.Http([f"{SITE}/{country}.csv" for country in COUNTRIES], name="lists", every="1s")
stations = hg.Pipeline("stations", sources=[lists], store="lake/", version="1", removed="remove")


class Station(TypedDict):
    name: str
    height: int


@stations.rows("station", key="name", schema=Station)
def station(obj: hg.Object) -> Iterator[dict[str, str]]:
    yield from csv.DictReader(obj.lines())
