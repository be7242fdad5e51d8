"""Where records are, and how one of them points to another.

The layout in a store, which is also a static catalog that can be browsed:

    stac/catalog.json
    stac/<collection>/collection.json
    stac/<collection>/<shard>/catalog.json
    stac/<collection>/<shard>/<item>.json            older versions: <item>.v<number>.json
    catalog/dcat/<collection>.jsonld
    catalog/dcat/<collection>/<shard>/<item>.jsonld
    prov/<run>.prov.jsonld
    runs/<run>/…
    staging/sha256/<2>/<digest>

That is the plain layout. Files are named by it; in which folders they lie is said by
`model/layout.py`.

Builders ask a `Hrefs` for links. `StaticHrefs` gives relative ones, so that a store can be copied
or served from anywhere; a server gives its own.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from headgate.model.facts import File
from headgate.model.layout import PLAIN, Layout

from .render import quoted

ROOT = "stac/catalog.json"
_VERSION = re.compile(r"\.(?=v\d+\Z)")


class Hrefs(Protocol):
    """How one record points to another."""

    @property
    def absolute(self) -> bool:
        """Can a link be followed by whoever has nothing but the document?"""
        ...

    def seen_from(self, document: str) -> Hrefs:
        """The same places as the document with this name in the layout points to them."""
        ...

    def root(self) -> str: ...
    def collection(self, name: str) -> str: ...
    def items(self, name: str) -> str | None:
        """Where all items of a collection are listed; None where there is no such list."""
        ...

    def parent(self, collection: str, item: str) -> str:
        """What lists this item."""
        ...

    def item(self, collection: str, item: str) -> str: ...
    def version(self, collection: str, item: str, number: int) -> str: ...
    def file(self, store: str, file: File) -> str:
        """Where the bytes are."""
        ...

    def run(self, store: str, run: str, name: str) -> str:
        """A file of a run."""
        ...


@dataclass(frozen=True, slots=True)
class StaticHrefs:
    """Relative links between the files of one store."""

    layout: Layout = PLAIN
    at: str = ROOT
    absolute: bool = False

    def seen_from(self, document: str) -> StaticHrefs:
        return StaticHrefs(self.layout, self.layout.place(document))

    def root(self) -> str:
        return self._to(ROOT)

    def collection(self, name: str) -> str:
        return self._to(collection_name(name))

    def items(self, name: str) -> str | None:
        return None

    def parent(self, collection: str, item: str) -> str:
        return self._to(shard_name(collection, shard(item)))

    def item(self, collection: str, item: str) -> str:
        return self._to(item_name(collection, item))

    def version(self, collection: str, item: str, number: int) -> str:
        return self._to(version_name(collection, item, number))

    def file(self, store: str, file: File) -> str:
        return self._to(object_name(file.digest))

    def run(self, store: str, run: str, name: str) -> str:
        return self._to(run_name(run, name))

    def _to(self, name: str) -> str:
        here, there = self.at, quoted(self.layout.place(name))
        shared = 0
        while (end := there.find("/", shared) + 1) and here.startswith(there[shared:end], shared):
            shared = end
        return ("../" * here.count("/", shared) or "./") + there[shared:]


@lru_cache(1024)
def shard(item: str) -> str:
    """Which of 256 folders an item is in, so that none has more files than one cares to list."""
    return hashlib.sha256(item.encode()).hexdigest()[:2]


def collection_name(collection: str) -> str:
    return f"stac/{collection}/collection.json"


def shard_name(collection: str, shard: str) -> str:
    return f"stac/{collection}/{shard}/catalog.json"


def item_name(collection: str, item: str) -> str:
    return f"stac/{collection}/{shard(item)}/{file_name(item)}.json"


def version_name(collection: str, item: str, number: int) -> str:
    return f"stac/{collection}/{shard(item)}/{file_name(item)}.v{number}.json"


def series_name(collection: str) -> str:
    return f"catalog/dcat/{collection}.jsonld"


def dataset_name(collection: str, item: str) -> str:
    return f"catalog/dcat/{collection}/{shard(item)}/{file_name(item)}.jsonld"


def prov_name(run: str) -> str:
    return f"prov/{run}.prov.jsonld"


def run_name(run: str, name: str) -> str:
    return f"runs/{run}/{name}"


def object_name(digest: str) -> str:
    return f"staging/sha256/{digest[:2]}/{digest}"


def within(store: str, name: str) -> str:
    """The address of a file of a store."""
    return f"{store.rstrip('/')}/{quoted(name)}"


@lru_cache(1024)
def file_name(item: str) -> str:
    """An item's id as a file may be called: two ids never share a name.

    No item hides the list of its folder, nor an older version of another item.
    """
    name = quoted(item, "")
    if name == "catalog":
        return "%63atalog"
    name = _VERSION.sub("%2E", name)
    if len(name) <= 200:
        return name
    beginning = name[:150].rpartition("%")[0] or name[:150]
    return f"{beginning}~{hashlib.sha256(item.encode()).hexdigest()[:32]}"
