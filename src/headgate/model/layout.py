"""Layout: where in a store the files of its catalog are.

Records are named by the plain layout, `stac/`, `catalog/dcat/`, `prov/` and `runs/`. Where they lie
is another matter: a place of their own for each of the four, or a preset by its name.
"""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass, fields
from functools import lru_cache
from itertools import permutations

# It is part of addresses, so it is made of characters that mean nothing there.
_FOLDER = re.compile(r"(?!\.)[A-Za-z0-9._-]+(?:/(?!\.)[A-Za-z0-9._-]+)*")
# What a store keeps for itself. Not every filesystem tells capital letters apart.
_TAKEN = ("staging", "ledger", "lookups")


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders that hold the files of a catalog, and nothing else."""

    stac: str = "stac"
    dcat: str = "catalog/dcat"
    prov: str = "prov"
    runs: str = "runs"

    @property
    def folders(self) -> tuple[str, ...]:
        return astuple(self)

    def place(self, name: str) -> str:
        """Where a file is, by its name in the plain layout."""
        if self is PLAIN:
            return name
        for plain, folder in zip(PLAIN.folders, self.folders, strict=True):
            if name.startswith(f"{plain}/"):
                return folder + name[len(plain) :]
        return name

    def name(self, place: str) -> str:
        """The inverse of `place`."""
        if self is PLAIN:
            return place
        for plain, folder in zip(PLAIN.folders, self.folders, strict=True):
            if place.startswith(f"{folder}/"):
                return plain + place[len(folder) :]
        return place

    def folder(self, plain: str) -> str:
        """Which folder stands for one of the plain layout."""
        return self.folders[PLAIN.folders.index(plain)]

    @property
    def text(self) -> str:
        """As a setting says it."""
        named = next((name for name, preset in PRESETS.items() if preset == self), None)
        return named or ",".join(map("=".join, zip(_NAMES, self.folders, strict=True)))


_NAMES = tuple(one.name for one in fields(Layout))
PLAIN = Layout()
PRESETS = {
    "plain": PLAIN,
    "kfm": Layout("data/stac", "data/catalog/dcat", "data/prov", "mcp/runs/change-detection"),
}


@lru_cache(16)
def of_folders(*folders: str) -> Layout:
    """The layout with these folders: of the same ones the same layout."""
    layout = Layout(*folders)
    return PLAIN if layout == PLAIN else layout


def parse(text: str) -> Layout:
    """A preset's name, or folders as in `runs=audit/runs`; who is not named is where it is plainly.

    Raises `ValueError`.
    """
    if (preset := PRESETS.get(text)) is not None:
        return preset
    named: dict[str, str] = {}
    for part in text.split(","):
        which, _, folder = (one.strip() for one in part.partition("="))
        if which not in _NAMES or which in named:
            raise ValueError(f"{which!r} is not one of {', '.join(_NAMES)}, or is named twice")
        if not _FOLDER.fullmatch(folder) or folder.split("/")[0].lower() in _TAKEN:
            raise ValueError(f"{folder!r} cannot hold files of a catalog")
        named[which] = folder
    layout = of_folders(*Layout(**named).folders)
    for outer, inner in permutations(layout.folders, 2):
        if f"{inner}/".lower().startswith(f"{outer}/".lower()):
            raise ValueError(f"{inner} is inside of {outer}")
    return layout
