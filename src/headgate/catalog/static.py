"""The static catalog: records as files of a store, by name. Pure, like the records themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.model.dataset import Dataset
from headgate.model.facts import Facts
from headgate.model.layout import Layout

from . import dcat, hrefs, prov, run, stac
from .hrefs import StaticHrefs
from .render import dump
from .stac import Extent

Files = dict[str, bytes]

PROVENANCE = "provenance.prov.jsonld"


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
    item, links = stac.shown_item(parts[0]), StaticHrefs(parts[0].layout)
    return {
        hrefs.item_name(item.collection, item.id): dump(stac.item(parts, links)),
        hrefs.dataset_name(item.collection, item.id): dump(dcat.dataset(parts, links)),
    }


def item_names(collection: str, item: str) -> list[str]:
    """The files of an item."""
    return [hrefs.item_name(collection, item), hrefs.dataset_name(collection, item)]


def version_file(facts: Facts, successor: int | None) -> Files:
    """A version that readers saw once; `successor` is the next one, if it is old too."""
    item, version = stac.shown_item(facts), stac.shown_version(facts)
    name = hrefs.version_name(item.collection, item.id, version.number)
    links = StaticHrefs(facts.layout)
    return {name: dump(stac.old_version(facts, links, successor=successor))}


def shard_file(layout: Layout, collection: str, shard: str, items: Iterable[str]) -> Files:
    """The list of the items in one folder."""
    made = stac.shard(collection, shard, items, StaticHrefs(layout))
    return {hrefs.shard_name(collection, shard): dump(made)}


def collection_files(
    layout: Layout, dataset: Dataset, extent: Extent, shards: Iterable[str]
) -> Files:
    """What is told about a collection."""
    name, links = dataset.name, StaticHrefs(layout)
    return {
        hrefs.collection_name(name): dump(stac.collection(dataset, extent, links, shards=shards)),
        hrefs.series_name(name): dump(dcat.series(dataset, extent, links)),
    }


def collection_names(name: str) -> list[str]:
    """The files of a collection itself."""
    return [hrefs.collection_name(name), hrefs.series_name(name)]


def root_file(layout: Layout, datasets: Iterable[Dataset]) -> Files:
    """The list of all collections."""
    return {hrefs.ROOT: dump(stac.root(datasets, StaticHrefs(layout)))}
