"""STAC 1.1: items, their older versions, collections and the root catalog, as plain documents.

An item is what readers see now of one object, or of several that form one. Its id stays the same;
what it was before has the id `<id>.v<number>`. What the source said about the change stands under
`kfm:change_detection:`, what Headgate did with it under `headgate:`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headgate.errors import UsageError
from headgate.model.dataset import Dataset
from headgate.model.facts import Facts, Item, Version

from . import hrefs as layout
from .assets import assets
from .detection import change_detection
from .hrefs import Hrefs
from .render import iri, moment, said
from .together import together

STAC = "1.1.0"
FILE = "https://stac-extensions.github.io/file/v2.1.0/schema.json"
PROCESSING = "https://stac-extensions.github.io/processing/v1.2.0/schema.json"
VERSION = "https://stac-extensions.github.io/version/v1.2.0/schema.json"
EXTENSIONS = (FILE, PROCESSING, VERSION)

JSON = "application/json"
GEOJSON = "application/geo+json"
EVERYWHERE = (-180.0, -90.0, 180.0, 90.0)

Document = dict[str, Any]
Link = dict[str, str]


@dataclass(frozen=True, slots=True)
class Extent:
    """Where and when the items of a collection are. None: not known, or without an end."""

    bbox: tuple[float, ...] | None = None
    start: datetime | None = None
    end: datetime | None = None


def item(parts: Sequence[Facts], hrefs: Hrefs) -> Document:
    """What readers see now: an item of one object, or of several, sorted by uri."""
    first = shown_item(parts[0])
    at = hrefs.seen_from(layout.item_name(first.collection, first.id))
    number = sum(shown_version(part).number for part in parts)
    made = _feature(parts, first.id, number, at)
    made["links"] += _own(at, at.item(first.collection, first.id), GEOJSON)
    before = parts[0].before
    if len(parts) == 1 and before is not None and not before.removed:
        older = at.version(first.collection, first.id, before.number)
        made["links"].append(_link("predecessor-version", older, GEOJSON))
    return made


def old_version(
    facts: Facts, hrefs: Hrefs, *, successor: int | None = None, gone: bool = False
) -> Document:
    """A version that readers saw once.

    `successor` is the number of the version that followed, where that one is old by now too; None:
    it is what readers see. `gone` says that readers see nothing of it any more.
    """
    shown, version = shown_item(facts), shown_version(facts)
    collection, id = shown.collection, shown.id
    at = hrefs.seen_from(layout.version_name(collection, id, version.number))
    made = _feature([facts], f"{id}.v{version.number}", version.number, at)
    made["properties"]["deprecated"] = True
    links = made["links"]
    links += _own(at, at.version(collection, id, version.number), GEOJSON)
    if facts.before is not None and not facts.before.removed:
        older = at.version(collection, id, facts.before.number)
        links.append(_link("predecessor-version", older, GEOJSON))
    if successor is not None:
        newer = at.version(collection, id, successor)
        links.append(_link("successor-version", newer, GEOJSON))
    if not gone:
        latest = at.item(collection, id)
        if successor is None:
            links.append(_link("successor-version", latest, GEOJSON))
        links.append(_link("latest-version", latest, GEOJSON))
    return made


def collection(
    dataset: Dataset,
    extent: Extent,
    hrefs: Hrefs,
    *,
    name: str | None = None,
    shards: Iterable[str] = (),
) -> Document:
    """The collection of a dataset's items. A static one consists of folders, its `shards`."""
    name = name or dataset.name
    at = hrefs.seen_from(layout.collection_name(name))
    links = [_link("root", at.root(), JSON), _link("parent", at.root(), JSON)]
    links += _own(at, at.collection(name), JSON)
    if (items := at.items(name)) is not None:
        links.append(_link("items", items, GEOJSON))
    links += [_link("child", f"./{shard}/catalog.json", JSON, shard) for shard in sorted(shards)]
    if dataset.license_url:
        links.append(_link("license", iri(dataset.license_url)))
    interval = [None if when is None else moment(when) for when in (extent.start, extent.end)]
    made: Document = {
        "type": "Collection",
        "stac_version": STAC,
        "id": name,
        "title": title_of(dataset),
        "description": description_of(dataset),
        "license": dataset.license or "other",
        "extent": {
            "spatial": {"bbox": [list(extent.bbox or EVERYWHERE)]},
            "temporal": {"interval": [interval]},
        },
        "links": links,
    }
    if dataset.keywords:
        made["keywords"] = list(dataset.keywords)
    if dataset.publisher:
        made["providers"] = [{"name": dataset.publisher, "roles": ["producer", "licensor"]}]
    return made


def shard(collection: str, shard: str, items: Iterable[str], hrefs: Hrefs) -> Document:
    """One folder of a static collection, with the ids of the items in it."""
    at = hrefs.seen_from(layout.shard_name(collection, shard))
    above = at.collection(collection)
    links = [_link("root", at.root(), JSON), _link("parent", above, JSON)]
    links += [_link("item", at.item(collection, id), GEOJSON, id) for id in sorted(items)]
    return {
        "type": "Catalog",
        "stac_version": STAC,
        "id": f"{collection}-{shard}",
        "description": f"Items of {collection} whose ids have a SHA-256 that begins with {shard}",
        "links": links,
    }


def root(collections: Iterable[Dataset | str], hrefs: Hrefs) -> Document:
    """The catalog of everything: its collections, by name."""
    at = hrefs.seen_from(layout.ROOT)
    titles = {
        c if isinstance(c, str) else c.name: c if isinstance(c, str) else title_of(c)
        for c in collections
    }
    links = [_link("root", at.root(), JSON), *_own(at, at.root(), JSON)]
    links += [
        _link("child", at.collection(name), JSON, title) for name, title in sorted(titles.items())
    ]
    return {
        "type": "Catalog",
        "stac_version": STAC,
        "id": "headgate",
        "title": "Headgate",
        "description": "What Headgate has published here",
        "links": links,
    }


def title_of(dataset: Dataset) -> str:
    return dataset.title or dataset.name


def description_of(dataset: Dataset) -> str:
    return dataset.description or dataset.title or f"The dataset {dataset.name}"


def shown_item(facts: Facts) -> Item:
    """What its catalog shows. Raises `UsageError` where there is no catalog."""
    if facts.item is None:
        raise UsageError(
            f"run {facts.run} of pipeline {facts.pipeline} is not catalogued",
            hint='give the pipeline a dataset, as in hg.Pipeline(…, dataset="soil")',
        )
    return facts.item


def shown_version(facts: Facts) -> Version:
    if facts.version is None:
        raise UsageError(
            f"run {facts.run} published nothing",
            hint=f"See how it ended: headgate entry explain {facts.entry}",
        )
    return facts.version


def _feature(parts: Sequence[Facts], id: str, number: int, hrefs: Hrefs) -> Document:
    items = [shown_item(part) for part in parts]
    geometry, bbox = together(items)
    first = items[0]
    made: Document = {
        "type": "Feature",
        "stac_version": STAC,
        "stac_extensions": sorted({*EXTENSIONS, *(e for i in items for e in i.extensions)}),
        "id": id,
        "collection": first.collection,
        "geometry": geometry,
        "properties": _properties(parts, items, number),
        "assets": assets(parts, hrefs),
        "links": [
            _link("root", hrefs.root(), JSON),
            _link("parent", hrefs.parent(first.collection, first.id), JSON),
            _link("collection", hrefs.collection(first.collection), JSON),
            *(_link("derived_from", iri(part.envelope.uri)) for part in parts),
            *_others(items),
        ],
    }
    if bbox is not None:
        made["bbox"] = list(bbox)
    return made


def _properties(parts: Sequence[Facts], items: Sequence[Item], number: int) -> Document:
    newest = max(parts, key=lambda part: (part.position, part.entry))
    starts, ends = min(i.start for i in items), max(i.end for i in items)
    added: Document = {}
    for shown in items:
        added |= shown.properties
    retired = any(shown_version(part).retired for part in parts)
    made: Document = {
        **{name: value for name, value in added.items() if name not in _TIMES},
        "datetime": moment(starts) if starts == ends else _nominal(items),
        "updated": moment(newest.at),
        "version": str(number),
        "deprecated": retired,
        "processing:datetime": moment(newest.at),
        "processing:software": {part.pipeline: part.pipeline_version for part in parts},
        **change_detection(newest),
        **_told(parts, newest),
    }
    if starts != ends:
        made |= {"start_datetime": moment(starts), "end_datetime": moment(ends)}
    if len(parts) == 1:
        made["checksum:sha256"] = f"sha256:{shown_version(newest).content}"
    return made


def _nominal(items: Sequence[Item]) -> str | None:
    """The one time that stands for a period, where a handler gave it."""
    return items[0].properties.get("datetime") if len(items) == 1 else None


_TIMES = frozenset({"datetime", "start_datetime", "end_datetime"})


def _told(parts: Sequence[Facts], newest: Facts) -> Document:
    """What Headgate did: enough to find the run, and to ask for more."""
    rows: dict[str, int] = {}
    for part in parts:
        for table, count in shown_version(part).rows.items():
            rows[table] = rows.get(table, 0) + count
    return said(
        **{
            "headgate:publication": newest.entry,
            "headgate:run": newest.run,
            "headgate:pipeline": newest.pipeline,
            "headgate:code": newest.code,
            "headgate:rows": rows,
            "headgate:reverts": newest.reverts,
            "headgate:restores": newest.restores,
        }
    )


def _others(items: Sequence[Item]) -> list[dict[str, Any]]:
    """The links that handlers added, each once."""
    unique: list[dict[str, Any]] = []
    for link in (dict(link) for item in items for link in item.links):
        if link not in unique:
            unique.append(link)
    return unique


def _own(hrefs: Hrefs, href: str, kind: str) -> list[Link]:
    # Who copies a static catalog must not be sent back to where it was.
    return [_link("self", href, kind)] if hrefs.absolute else []


def _link(rel: str, href: str, kind: str | None = None, title: str | None = None) -> Link:
    return said(rel=rel, href=href, type=kind, title=title)
