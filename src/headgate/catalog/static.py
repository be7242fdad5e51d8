"""The static catalog: records as files of a store, by name. Pure, like the records themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.model.dataset import Dataset
from headgate.model.facts import Facts

from . import dcat, hrefs, prov, run, stac
from .hrefs import StaticHrefs
from .render import dump
from .stac import Extent

Files = dict[str, bytes]

LINKS = StaticHrefs()
PROVENANCE = "provenance.prov.jsonld"
# Every folder of a store that holds these files and nothing else.
FOLDERS = ("stac", "catalog/dcat", "prov", "runs")


def run_files(facts: Facts) -> Files:
    """What is told about one run."""
    made = run.files(facts)
    files = {hrefs.run_name(facts.run, name): content for name, content in made.items()}
    files[hrefs.prov_name(facts.run)] = made[PROVENANCE]
    return files


def prov_file(facts: Facts) -> Files:
    """Of what is told about one run, where its outcome came from."""
    return {hrefs.prov_name(facts.run): dump(prov.bundle(facts))}


def item_files(parts: Sequence[Facts]) -> Files:
    """An item as readers see it now, from the publications that form it."""
    item = stac.shown_item(parts[0])
    return {
        hrefs.item_name(item.collection, item.id): dump(stac.item(parts, LINKS)),
        hrefs.dataset_name(item.collection, item.id): dump(dcat.dataset(parts, LINKS)),
    }


def item_names(collection: str, item: str) -> list[str]:
    """The files of an item."""
    return [hrefs.item_name(collection, item), hrefs.dataset_name(collection, item)]


def version_file(facts: Facts, successor: int | None) -> Files:
    """A version that readers saw once; `successor` is the next one, if it is old too."""
    item, version = stac.shown_item(facts), stac.shown_version(facts)
    name = hrefs.version_name(item.collection, item.id, version.number)
    return {name: dump(stac.old_version(facts, LINKS, successor=successor))}


def shard_file(collection: str, shard: str, items: Iterable[str]) -> Files:
    """The list of the items in one folder."""
    made = stac.shard(collection, shard, items, LINKS)
    return {hrefs.shard_name(collection, shard): dump(made)}


def collection_files(dataset: Dataset, extent: Extent, shards: Iterable[str]) -> Files:
    """What is told about a collection."""
    name = dataset.name
    return {
        hrefs.collection_name(name): dump(stac.collection(dataset, extent, LINKS, shards=shards)),
        hrefs.series_name(name): dump(dcat.series(dataset, extent, LINKS)),
    }


def collection_names(name: str) -> list[str]:
    """The files of a collection itself."""
    return [hrefs.collection_name(name), hrefs.series_name(name)]


def root_file(datasets: Iterable[Dataset]) -> Files:
    """The list of all collections."""
    return {hrefs.ROOT: dump(stac.root(datasets, LINKS))}
