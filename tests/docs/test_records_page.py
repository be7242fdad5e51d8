"""What the pages say about records is what records are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from scripts import provenance_graph
from tests.catalog import public, some
from tests.catalog.test_openlineage import facets

from headgate.catalog import dcat, names, openlineage, prov, run, stac
from headgate.catalog.hrefs import StaticHrefs
from headgate.catalog.stac import Extent
from headgate.model.dataset import Dataset

DOCS = public.ROOT / "docs"
PAGE = (DOCS / "reference" / "records.md").read_text()
PICTURE = DOCS / "images" / "provenance.svg"


def fields() -> Iterator[tuple[str, str]]:
    """Every field of every document, with the document's name."""
    hrefs = StaticHrefs()
    for facts in some.EVERY.values():
        for name, text in run.files(facts).items():
            if name.endswith(".json") and name != "detector.json":
                yield from ((name, field) for field in json.loads(text))
        for node in prov.bundle(facts)["@graph"]:
            yield from (("PROV", field) for field in node if field[0] != "@")
        for event in openlineage.events(facts):
            yield from (("OpenLineage", name) for name, _ in facets(event))
    for facts in some.PUBLICATIONS.values():
        item = stac.item([facts], hrefs)
        own = {*item["properties"]} - {"title", "eo:cloud_cover"}
        yield from (("STAC", field) for field in own)
        made: dict[str, Any] = dcat.dataset([facts], hrefs)
        for node in (made, *made["dcat:distribution"]):
            yield from (("DCAT", field) for field in node if field[0] != "@")
    series = dcat.series(Dataset.restore(some.DATASET), Extent(), hrefs)
    yield from (("DCAT", field) for field in series if field[0] != "@")


def test_every_field_is_on_the_page() -> None:
    """Nobody has to read code to know what a field means."""
    missing = {f"{document}: {field}" for document, field in fields() if f"`{field}`" not in PAGE}
    assert not missing


def test_the_picture_is_up_to_date() -> None:
    assert PICTURE.read_text() == provenance_graph.drawing(), (
        f"run: .venv/bin/python scripts/provenance_graph.py > {PICTURE.relative_to(public.ROOT)}"
    )


def triples() -> set[tuple[str, str, str]]:
    """What the bundles of the two runs in the picture say, without what they say by literals."""
    found: set[tuple[str, str, str]] = set()
    for facts in (some.SECOND, some.REVERTED):
        for node in prov.bundle(facts)["@graph"]:
            plan = node.get("prov:qualifiedAssociation", {})
            for name, said in {**node, **plan}.items():
                for one in said if isinstance(said, list) else [said]:
                    if isinstance(one, dict) and "@id" in one and "@id" in node:
                        found.add((node["@id"], name.removeprefix("prov:"), one["@id"]))
    return found


@pytest.mark.parametrize("edge", provenance_graph.EDGES, ids=lambda e: f"{e.start}-{e.end}")
def test_every_arrow_is_what_a_bundle_says(edge: provenance_graph.Edge) -> None:
    """The picture shows nothing that records do not say."""
    second = some.SECOND
    called = {
        "plan": names.plan(second),
        "pipeline": names.of(second, "pipeline", "soil"),
        "worker": names.of(second, "worker", "work-1"),
        "source": names.of(second, "change", second.key),
        "message": names.of(second, "message", 2),
        "run": names.run(second),
        "first": names.publication(second, 1),
        "second": names.publication(second, 2),
        "file": names.publication(second, 2, "file", "data"),
        "rows": names.publication(second, 2, "rows", "reading"),
        "revert": names.run(some.REVERTED),
        "person": names.of(second, "person", "anna"),
        "third": names.publication(second, 3),
    }
    assert (called[edge.start], edge.relation, called[edge.end]) in triples()
