"""Records as RDF: read without a network, and checked against shapes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyshacl
from rdflib import Graph

from headgate.catalog.render import dump

HERE = "https://lake.example/"


@cache
def shapes(path: Path) -> Graph:
    return Graph().parse(path)


def graph(document: Mapping[str, Any], name: str) -> Graph:
    """The document as a graph, read as if its store were served from `HERE`."""
    assert isinstance(document["@context"], dict), "a context that must be fetched"
    return Graph().parse(data=dump(document), format="json-ld", publicID=HERE + name)


def check(made: Graph, path: Path) -> None:
    """Fails with the report of what the shapes found."""
    conforms, _, report = pyshacl.validate(made, shacl_graph=shapes(path))
    assert conforms, report
