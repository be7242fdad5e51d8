"""DCAT: what portals harvest, checked against DCAT-AP and against shapes of our own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from rdflib import DCAT, DCTERMS, Graph, URIRef
from tests.catalog import public, rdf, some

from headgate.catalog import dcat
from headgate.catalog.hrefs import StaticHrefs, dataset_name, series_name
from headgate.catalog.stac import Extent
from headgate.model.dataset import Dataset
from headgate.model.facts import Facts

OWN = public.SHAPES / "dcat.ttl"
DCAT_AP = public.SHARED / "dcat" / "dcat-ap-SHACL.ttl"
SOIL = Dataset.restore(some.DATASET)
ITEMS: dict[str, Sequence[Facts]] = {name: [f] for name, f in some.PUBLICATIONS.items()}
ITEMS["several parts"] = some.PARTS
SERIES = {
    "bare": (Dataset("soil"), Extent()),
    "full": (SOIL, Extent((5.0, 59.0, 6.0, 60.0), some.DAY, some.NOW)),
    "own licence": (Dataset("soil", license_url="https://x.example/terms"), Extent()),
}


def item(parts: Sequence[Facts]) -> Graph:
    shown = parts[0].item
    assert shown is not None
    name = dataset_name(shown.collection, shown.id)
    return rdf.graph(dcat.dataset(parts, StaticHrefs()), name)


def series(dataset: Dataset, extent: Extent) -> Graph:
    return rdf.graph(dcat.series(dataset, extent, StaticHrefs()), series_name(dataset.name))


@public.NEEDED
@pytest.mark.parametrize("parts", ITEMS.values(), ids=ITEMS)
def test_an_item_is_a_dataset_that_portals_take(parts: Sequence[Facts]) -> None:
    """Every item validates against the shapes of DCAT-AP 3."""
    rdf.check(item(parts), DCAT_AP)


@public.NEEDED
@pytest.mark.parametrize("given", SERIES.values(), ids=SERIES)
def test_a_collection_is_a_series_that_portals_take(given: tuple[Dataset, Extent]) -> None:
    """Every collection validates against the shapes of DCAT-AP 3."""
    rdf.check(series(*given), DCAT_AP)


@pytest.mark.parametrize("parts", ITEMS.values(), ids=ITEMS)
def test_an_item_says_what_it_is(parts: Sequence[Facts]) -> None:
    """Checksum, media type, version, source and rights are there, by shapes of our own."""
    rdf.check(item(parts), OWN)


@pytest.mark.parametrize(
    "broken",
    ["dct:source", "dcat:version", "dct:accessRights", "dct:modified", "dcat:hasCurrentVersion"],
)
def test_our_shapes_notice_what_is_missing(broken: str) -> None:
    """A shape that finds nothing wrong with anything would be no check."""
    document = dcat.dataset([some.FIRST], StaticHrefs())
    del document[broken]
    with pytest.raises(AssertionError):
        rdf.check(rdf.graph(document, "x"), OWN)


def test_downloads_resolve_to_the_objects_of_the_store() -> None:
    """Links are relative, so that a copied store still works."""
    made = item([some.FIRST])
    digest = some.version().content
    there = URIRef(f"{rdf.HERE}staging/sha256/{digest[:2]}/{digest}")
    assert (None, DCAT.downloadURL, there) in made


def test_access_and_licence_are_authorities_own() -> None:
    """Rights are said in the terms that portals compare."""
    made = series(*SERIES["full"])
    me = URIRef("urn:headgate:dataset:soil")
    assert str(made.value(me, DCTERMS.accessRights)).endswith("access-right/RESTRICTED")
    assert str(made.value(me, DCTERMS.license)) == "https://spdx.org/licenses/CC-BY-4.0"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("text/csv", "text/csv"),
        ("image/tiff; application=geotiff", "image/tiff"),
        ("Text/CSV;charset=utf-8", "text/csv"),
    ],
)
def test_media_types_are_addresses_of_their_register(text: str, address: str) -> None:
    assert dcat.media_type(text) == f"https://www.iana.org/assignments/media-types/{address}"


def test_what_came_inside_its_message_is_not_offered_for_download() -> None:
    """A link to bytes that no store has would be a lie."""
    document: dict[str, Any] = dcat.dataset([some.INLINE], StaticHrefs())
    assert document["dcat:distribution"] == []
