"""The documents of the API: what the catalog's builders make of facts, with an API's links."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from headgate.catalog import stac
from headgate.ledger.search import Covered, Found, Look, Place
from headgate.model.dataset import Dataset
from headgate.model.facts import Facts

from .asked import Asked, token
from .hrefs import ApiHrefs

JSON = "application/json"
GEOJSON = "application/geo+json"
OPENAPI = "application/vnd.oai.openapi+json;version=3.1"
HTML = "text/html"

CONFORMS = (
    "https://api.stacspec.org/v1.0.0/core",
    "https://api.stacspec.org/v1.0.0/collections",
    "https://api.stacspec.org/v1.0.0/ogcapi-features",
    "https://api.stacspec.org/v1.0.0/item-search",
    "http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/core",
    "http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/geojson",
)
# Whatever is made in one go keeps everybody else waiting.
AT_ONCE = 50

Document = dict[str, Any]


def landing(base: str, collections: Mapping[str, Dataset]) -> Document:
    """The catalog itself, and where everything else is."""
    hrefs = ApiHrefs(base)
    document = stac.root([_named(name, d) for name, d in collections.items()], hrefs)
    document["conformsTo"] = list(CONFORMS)
    document["links"] += [
        _link("data", hrefs.to("collections"), JSON),
        _link("conformance", hrefs.to("conformance"), JSON),
        _link("search", hrefs.to("search"), GEOJSON, method="GET"),
        _link("search", hrefs.to("search"), GEOJSON, method="POST"),
        _link("service-desc", f"{base.removesuffix('/stac')}/openapi.json", OPENAPI),
        _link("service-doc", hrefs.to("api.html"), HTML),
    ]
    return document


def collection(base: str, name: str, dataset: Dataset, covered: Covered | None) -> Document:
    """One collection."""
    return stac.collection(_named(name, dataset), _extent(covered), ApiHrefs(base))


def collections(
    base: str, datasets: Mapping[str, Dataset], covered: Mapping[str, Covered]
) -> Document:
    """All of them."""
    hrefs = ApiHrefs(base)
    return {
        "collections": [collection(base, n, d, covered.get(n)) for n, d in datasets.items()],
        "links": [
            _link("self", hrefs.to("collections"), JSON),
            _link("root", hrefs.root(), JSON),
            _link("parent", hrefs.root(), JSON),
        ],
    }


async def item(look: Look, base: str, collection: str, id: str) -> Document | None:
    """One item as it is now, or an older version of it by `<id>.v<number>`."""
    if parts := await look.parts(collection, id):
        return _item(base, parts)
    named, dot, number = id.rpartition(".v")
    if not dot or not number.isdecimal() or len(number) > 9:
        return None
    heads = await look.parts(collection, named)
    # An item of several objects has no versions of its own.
    found = await look.older(heads[0].entry, int(number)) if len(heads) == 1 else None
    if found is None or not _is_version_of(found[0], collection, named):
        return None
    old, successor = found
    return stac.old_version(old, ApiHrefs(base, [old]), successor=successor)


@dataclass(frozen=True, slots=True)
class Page:
    """Items, and the place to go on from when there are more."""

    items: list[Document]
    after: Place | None


async def page(look: Look, base: str, asked: Asked) -> Page:
    """The next items that match. A page is empty only when there are no more."""
    found: list[Document] = []
    after = asked.after
    while True:
        wanted = asked.limit - len(found)
        rows = await look.search(asked.question, after, wanted + 1)
        more = len(rows) > wanted
        found += await _render(look, base, asked, rows[:wanted])
        if not more:
            return Page(found, None)
        after = rows[wanted - 1].place
        # Bounding boxes may meet where shapes do not: then there is room for others on this page.
        if len(found) == asked.limit:
            return Page(found, after)


async def _render(look: Look, base: str, asked: Asked, rows: Sequence[Found]) -> list[Document]:
    told = {f.entry: f for f in await look.facts([entry for row in rows for entry in row.entries])}
    made: list[Document] = []
    for n, row in enumerate(rows, 1):
        parts = [told[entry] for entry in row.entries]
        if asked.shape is None or asked.shape.meets(parts):
            made.append(_item(base, parts))
        if n % AT_ONCE == 0:
            await asyncio.sleep(0)
    return made


def feature_collection(page: Page, links: list[Document]) -> Document:
    """A page as GeoJSON."""
    return {
        "type": "FeatureCollection",
        "features": page.items,
        "numberReturned": len(page.items),
        "links": links,
    }


def links_by_query(base: str, here: str, asked: Asked, page: Page) -> list[Document]:
    """Where a page is, and the next one."""
    said = dict(asked.given)
    links = [
        _link("root", base, JSON),
        _link("self", _with_query(here, said), GEOJSON),
    ]
    if page.after is not None:
        following = _with_query(here, {**said, "token": token(page.after)})
        links.append(_link("next", following, GEOJSON, method="GET"))
    return links


def links_by_body(base: str, here: str, asked: Asked, page: Page) -> list[Document]:
    """The same where the search is a body: it is sent again, with where to go on."""
    links = [_link("root", base, JSON), _link("self", here, GEOJSON)]
    if page.after is not None:
        body = {**asked.given, "token": token(page.after)}
        links.append(_link("next", here, GEOJSON, method="POST", body=body, merge=False))
    return links


def _item(base: str, parts: Sequence[Facts]) -> Document:
    ordered = sorted(parts, key=lambda part: part.envelope.uri)
    return stac.item(ordered, ApiHrefs(base, ordered))


def _is_version_of(facts: Facts, collection: str, id: str) -> bool:
    item, version = facts.item, facts.version
    if item is None or version is None or (version.removed and not version.retired):
        return False
    return (item.collection, item.id) == (collection, id)


def _named(name: str, dataset: Dataset) -> Dataset:
    return dataset if dataset.name == name else replace(dataset, name=name)


def _extent(covered: Covered | None) -> stac.Extent:
    if covered is None:
        return stac.Extent()
    bounds = covered.bounds
    if bounds is not None and bounds[2] > 180:  # something crosses the antimeridian
        bounds = (-180.0, bounds[1], 180.0, bounds[3])
    return stac.Extent(bounds, covered.starts, covered.ends)


def _with_query(address: str, said: Mapping[str, str]) -> str:
    return f"{address}?{urlencode(said)}" if said else address


def _link(rel: str, href: str, kind: str, **more: Any) -> Document:
    return {"rel": rel, "href": href, "type": kind, **more}
