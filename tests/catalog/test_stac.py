"""STAC: what catalogs show, checked by pystac with the schemas of core and extensions, offline."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pystac
import pytest
from pystac.validation.stac_validator import JsonSchemaSTACValidator
from tests.catalog import public, some

from headgate.catalog import hrefs as layout
from headgate.catalog import stac
from headgate.catalog.hrefs import StaticHrefs
from headgate.catalog.render import dump
from headgate.catalog.stac import Extent
from headgate.errors import UsageError
from headgate.model.dataset import Dataset
from headgate.model.facts import Facts

HREFS = StaticHrefs()
SOIL = Dataset.restore(some.DATASET)
ITEMS: dict[str, dict[str, Any]] = {
    name: stac.item([facts], HREFS) for name, facts in some.PUBLICATIONS.items()
}
ITEMS["several parts"] = stac.item(some.PARTS, HREFS)
ITEMS["old"] = stac.old_version(some.OLD, HREFS)
ITEMS["older"] = stac.old_version(some.OLD, HREFS, successor=2)
ITEMS["gone"] = stac.old_version(some.OLD, HREFS, gone=True)
OTHERS = {
    "root": stac.root([SOIL, "air"], HREFS),
    "empty root": stac.root([], HREFS),
    "bare collection": stac.collection(Dataset("soil"), Extent(), HREFS),
    "collection": stac.collection(
        SOIL, Extent((5.0, 59.0, 6.0, 60.0), some.DAY, some.NOW), HREFS, shards=["3f", "00"]
    ),
    "shard": stac.shard("soil", "3f", ["oslo", "bergen"], HREFS),
}


@cache
def validator() -> JsonSchemaSTACValidator:
    """pystac's own, with every schema at hand: one that it has to fetch fails the test."""
    made = JsonSchemaSTACValidator()
    for name in ("file", "processing", "version"):
        found = public.schema(f"stac/{name}.json")
        made.schema_cache[found["$id"].rstrip("#")] = found
    return made


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any, source: Any, *args: Any, **more: Any) -> str:
        raise AssertionError(f"{source} would have been fetched")

    monkeypatch.setattr(pystac.stac_io.DefaultStacIO, "read_text", refuse)


def links(document: Mapping[str, Any]) -> dict[str, str]:
    return {link["rel"]: link["href"] for link in document["links"]}


@public.NEEDED
@pytest.mark.parametrize("document", ITEMS.values(), ids=ITEMS)
def test_every_item_is_valid(document: dict[str, Any]) -> None:
    """Core and every extension that it declares."""
    validator().validate(
        document,
        pystac.STACObjectType.ITEM,
        document["stac_version"],
        document["stac_extensions"],
    )


@pytest.mark.parametrize("document", ITEMS.values(), ids=ITEMS)
def test_pystac_reads_every_item(document: dict[str, Any]) -> None:
    """Nothing is lost on the way through pystac, and the core schemas hold."""
    read = pystac.Item.from_dict(document)
    JsonSchemaSTACValidator().validate_core(document, pystac.STACObjectType.ITEM, "1.1.0")
    assert read.to_dict(include_self_link=False, transform_hrefs=False) == document


@pytest.mark.parametrize("document", OTHERS.values(), ids=OTHERS)
def test_collections_and_catalogs_are_valid(document: dict[str, Any]) -> None:
    kind = pystac.STACObjectType(document["type"])
    JsonSchemaSTACValidator().validate_core(document, kind, document["stac_version"])


@public.NEEDED
@pytest.mark.parametrize(
    ("field", "value"), [("file:checksum", "no hex"), ("file:size", -1), ("processing:level", 3)]
)
def test_an_invalid_item_would_be_noticed(field: str, value: object) -> None:
    broken = stac.item([some.FIRST], HREFS)
    broken["assets"]["data"][field] = value
    with pytest.raises(pystac.STACValidationError):
        validator().validate(broken, pystac.STACObjectType.ITEM, "1.1.0", broken["stac_extensions"])


@pytest.mark.parametrize("document", ITEMS.values(), ids=ITEMS)
def test_every_field_with_a_prefix_is_declared_or_ours(document: dict[str, Any]) -> None:
    """Nobody has to guess what a field means."""
    known = {"file", "processing", "checksum", "kfm", "headgate", "eo"}
    said = [*document["properties"], *(f for a in document["assets"].values() for f in a)]
    assert {field.partition(":")[0] for field in said if ":" in field} <= known


def test_a_checksum_is_said_in_both_ways() -> None:
    """As a multihash for STAC's extension, and as the seed says it."""
    made = stac.item([some.FIRST], HREFS)
    digest = some.version().content
    assert made["assets"]["data"]["file:checksum"] == f"1220{digest}"
    assert made["assets"]["data"]["file:size"] == 61
    assert made["properties"]["checksum:sha256"] == f"sha256:{digest}"
    assert made["properties"]["kfm:change_detection:detector"] == "event"
    assert made["properties"]["kfm:change_detection:received_at"] == "2026-03-01T11:59:57.250000Z"


def test_versions_are_linked() -> None:
    """From what readers see back to what they saw, and forward again."""
    head, old = stac.item([some.SECOND], HREFS), stac.old_version(some.OLD, HREFS)
    assert (head["id"], head["properties"]["version"]) == ("oslo", "2")
    assert links(head)["predecessor-version"] == "./oslo.v1.json"
    assert (old["id"], old["properties"]["deprecated"]) == ("oslo.v1", True)
    assert links(old)["latest-version"] == links(old)["successor-version"] == "./oslo.json"
    assert links(ITEMS["older"])["successor-version"] == "./oslo.v2.json"
    assert "latest-version" not in links(ITEMS["gone"])


def test_a_tombstone_is_not_linked() -> None:
    """A version that says that the object was gone has no document."""
    back = some.facts(some.version(3, 3), replace(some.version(2, 2), removed=True))
    assert "predecessor-version" not in links(stac.item([back], HREFS))


def test_retired_is_deprecated_and_still_there() -> None:
    made = stac.item([some.RETIRED], HREFS)
    assert made["properties"]["deprecated"] is True
    assert "data" in made["assets"]


def test_a_place_or_none() -> None:
    """An item without a place says so, and has no box."""
    made = stac.item([some.NOWHERE], HREFS)
    assert made["geometry"] is None
    assert "bbox" not in made


def test_a_period_has_a_start_and_an_end() -> None:
    said = stac.item([some.PERIOD], HREFS)["properties"]
    assert said["datetime"] is None
    assert said["start_datetime"] == "2026-02-28T00:00:00Z"
    assert said["end_datetime"] == "2026-03-01T12:00:00.250000Z"


def test_a_handler_adds_and_cannot_take_away() -> None:
    """Titles and roles are the author's; where the bytes are and what they are is not."""
    made = stac.item([some.AMENDED], HREFS)
    data = made["assets"]["data"]
    assert (data["title"], data["roles"]) == ("As it came", ["source"])
    assert data["href"].startswith("../../../staging/sha256/")
    assert made["assets"]["page"]["href"] == "https://example.org/oslo"
    assert made["properties"]["eo:cloud_cover"] == 3.5
    assert made["properties"]["version"] == "1"
    assert links(made)["about"] == "https://example.org/about"


def test_several_parts_are_one_item() -> None:
    """Files of all, the sum of their versions, the time and the place of all together."""
    made = ITEMS["several parts"]
    assert set(made["assets"]) == {
        "b02.tif/data",
        "b02.tif/tidy.parquet",
        "b02.tif/provenance",
        "b02.tif/qa",
        "b03.tif/data",
        "b03.tif/provenance",
        "b03.tif/qa",
    }
    assert made["properties"]["version"] == "4"
    assert made["properties"]["headgate:rows"] == {"reading": 4}
    assert made["bbox"] == [5.0, 59.0, 9.0, 61.0]
    assert "predecessor-version" not in links(made)
    assert made["properties"]["end_datetime"] > made["properties"]["start_datetime"]


def test_parts_of_one_name_have_keys_of_their_own() -> None:
    parts = [
        some.facts(some.version(entry=n), envelope=some.envelope(f"s3://in/{n}/x.csv"))
        for n in (1, 2)
    ]
    made = stac.item(parts, HREFS)
    assert {"x.csv-1/data", "x.csv-2/data"} <= set(made["assets"])


def test_what_came_inside_its_message_has_no_file() -> None:
    """Its checksum and its rows are told; a link to bytes that no store has would be a lie."""
    made = stac.item([some.INLINE], HREFS)
    assert set(made["assets"]) == {"provenance", "qa"}
    assert made["properties"]["checksum:sha256"]


def test_an_artifact_does_not_hide_the_provenance() -> None:
    odd = some.version(
        artifacts=(some.File("qa", some.sha("q"), 1), some.File("x", some.sha("x"), 1))
    )
    made = stac.item([some.facts(odd)], HREFS)
    assert made["assets"]["qa"]["roles"] == ["qa"]
    assert made["assets"]["artifact-qa"]["file:checksum"] == f"1220{some.sha('q')}"


def test_a_collection_says_whose_it_is() -> None:
    made = OTHERS["collection"]
    assert (made["license"], made["keywords"]) == ("CC-BY-4.0", ["soil", "moisture"])
    assert made["providers"][0]["name"] == "The Soil Survey"
    assert made["extent"]["spatial"]["bbox"] == [[5.0, 59.0, 6.0, 60.0]]
    shards = [link["href"] for link in made["links"] if link["rel"] == "child"]
    assert shards == ["./00/catalog.json", "./3f/catalog.json"]


@pytest.mark.parametrize("facts", some.ODD, ids=some.ODD_URIS)
def test_odd_names_become_proper_links(facts: Facts) -> None:
    """Whatever a source calls its objects, every link is an address, without secrets."""
    for link in stac.item([facts], HREFS)["links"]:
        assert re.fullmatch(r"[A-Za-z0-9\-._~!$&'()*+,;=:@/?#%\[\]]+", link["href"]), link
        assert some.SECRET not in link["href"]


def test_ids_that_clash_with_the_layout_do_not() -> None:
    """An item called `catalog`, one that looks like a version, one longer than a name may be."""
    ids = ["catalog", "oslo", "oslo.v1", "a/b", "a%2Fb", "x" * 300, "x" * 301]
    named = {layout.item_name("soil", id).rpartition("/")[2] for id in ids}
    assert len(named | {"catalog.json", "oslo.v1.json"}) == len(ids) + 2
    assert max(map(len, named)) <= 255


def test_what_is_not_catalogued_says_how_it_would_be() -> None:
    with pytest.raises(UsageError, match="not catalogued"):
        stac.item([replace(some.FIRST, item=None)], HREFS)


def test_links_of_a_static_catalog_meet(tmp_path: Any) -> None:
    """pystac walks from the root to every item, by relative links alone."""
    shard = layout.shard("oslo")
    written = {
        layout.ROOT: stac.root([SOIL], HREFS),
        layout.collection_name("soil"): stac.collection(SOIL, Extent(), HREFS, shards=[shard]),
        layout.shard_name("soil", shard): stac.shard("soil", shard, ["oslo"], HREFS),
        layout.item_name("soil", "oslo"): stac.item([some.SECOND], HREFS),
        layout.version_name("soil", "oslo", 1): stac.old_version(some.OLD, HREFS),
    }
    for name, document in written.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(dump(document))
    io = Local()
    root = pystac.Catalog.from_file(str(tmp_path / layout.ROOT), stac_io=io)
    (found,) = root.get_items(recursive=True)
    assert found.id == "oslo"
    older = found.get_single_link("predecessor-version")
    assert older is not None
    target = older.resolve_stac_object(root=root).target
    assert isinstance(target, pystac.Item)
    assert target.id == "oslo.v1"
    provenance = found.assets["provenance"].get_absolute_href()
    assert provenance == str(tmp_path / "runs/2-1/provenance.prov.jsonld")


class Local(pystac.StacIO):
    """Files of this machine, and nothing else."""

    def read_text(self, source: Any, *args: Any, **kwargs: Any) -> str:
        with open(source) as opened:
            return opened.read()

    def write_text(self, dest: Any, txt: str, *args: Any, **kwargs: Any) -> None:
        raise AssertionError("only read")
