"""Where things are in this API: absolute addresses, as the reader sees them.

Files are addressed by the run that published them, so an address has the same bytes for ever: who
read an item before a new version came still gets what the item promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import quote

from headgate.model.facts import Facts, File


class ApiHrefs:
    """The addresses in one document. `parts` are the publications that it tells of."""

    absolute = True

    def __init__(self, base: str, parts: Sequence[Facts] = ()) -> None:
        self._base = base
        self._runs = {
            (file.name, file.digest): part.run
            for part in parts
            if part.version is not None
            for file in part.version.files
        }

    def seen_from(self, document: str) -> ApiHrefs:
        """An absolute address is the same from everywhere."""
        return self

    def root(self) -> str:
        return self._base

    def to(self, name: str) -> str:
        """An address of this API itself."""
        return f"{self._base}/{name}"

    def collection(self, name: str) -> str:
        return f"{self._base}/collections/{_part(name)}"

    def items(self, name: str) -> str | None:
        return f"{self.collection(name)}/items"

    def parent(self, collection: str, item: str) -> str:
        return self.collection(collection)

    def item(self, collection: str, item: str) -> str:
        return f"{self.collection(collection)}/items/{_part(item)}"

    def version(self, collection: str, item: str, number: int) -> str:
        return self.item(collection, f"{item}.v{number}")

    def file(self, store: str, file: File) -> str:
        run = self._runs[file.name, file.digest]
        return f"{self._base}/runs/{run}/files/{_part(file.name)}"

    def run(self, store: str, run: str, name: str) -> str:
        return f"{self._base}/runs/{run}/{_part(name)}"


@lru_cache(maxsize=4096)
def _part(name: str) -> str:
    return quote(name, safe="")
