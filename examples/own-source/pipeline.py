"""A source of one's own: a catalogue says which stations there are, and in which revision.

The catalogue is a file here. In yours, `stations` and `read` would call an API.
"""

import json
from pathlib import Path
from typing import TypedDict

import headgate as hg

stations_of = Path("stations")
weather = hg.Pipeline("weather", store="lake/", version="1", removed="remove")


@weather.source(every="6h", complete=True)
def stations():
    for name, revision in json.loads((stations_of / "catalogue.json").read_text()).items():
        yield hg.Change(f"stations://{name}", version=revision, item=name)


@stations.fetch
def read(change: hg.Change) -> bytes:
    return (stations_of / f"{change.item}.json").read_bytes()


class Station(TypedDict):
    name: str
    height: int


@weather.rows("station", key="name", schema=Station)
def rows(obj: hg.Object):
    yield obj.json()
