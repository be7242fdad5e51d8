"""Where the files of a catalog lie: a store that finds them by their plain names, and a move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from headgate.ledger import projection
from headgate.model.layout import Layout, parse
from headgate.pg import Database
from headgate.telemetry.log import get_logger

from .tuning import Tuning

log = get_logger("headgate.project")


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


async def lay_out(db: Database, tuning: Tuning) -> None:
    """Have the files of catalogs where the settings say, if they say anything."""
    if not tuning.layout:
        return
    layout = parse(tuning.layout)
    before = await projection.laid_out(db)
    if before == layout:
        return
    # Whoever rebuilds or compares a catalog may be at it for a while.
    log.info("the files of catalogs move", layout=layout.text, before=before.text)
    if await projection.lay_out(db, layout):
        log.warning(
            "the files of catalogs are written anew, in other folders",
            layout=layout.text,
            hint="What is in the folders of before stays there: remove it when nobody reads it.",
        )
