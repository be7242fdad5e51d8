"""A store whose files of a catalog lie where its layout has them, under their plain names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from headgate.model.layout import Layout


class Named(Protocol):
    """What of a store deals with small files by their names."""

    def project(self, files: Mapping[str, bytes]) -> None: ...
    def names(self, folder: str) -> Iterator[str]: ...
    def remove(self, names: Iterable[str]) -> None: ...
    def read(self, name: str) -> bytes | None: ...


class Placed:
    """The named files of a store, by their plain names."""

    def __init__(self, store: Named, layout: Layout) -> None:
        self._store = store
        self._layout = layout

    def project(self, files: Mapping[str, bytes]) -> None:
        self._store.project({self._layout.place(name): files[name] for name in files})

    def names(self, folder: str) -> Iterator[str]:
        return map(self._layout.name, self._store.names(self._layout.folder(folder)))

    def remove(self, names: Iterable[str]) -> None:
        self._store.remove(map(self._layout.place, names))

    def read(self, name: str) -> bytes | None:
        return self._store.read(self._layout.place(name))
