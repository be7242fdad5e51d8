"""A lookup: a file that handlers read beside the object, such as a list of stations or a model.

It is declared by name, and every run reads a copy that is kept by its digest. So what was made with
it can be made again after the file has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class Lookup:
    """A declared file as it was when the worker started. `digest` is SHA-256, in hex."""

    name: str
    digest: str
    size: int
    at: Callable[[], Path] = field(repr=False, compare=False)

    @property
    def path(self) -> Path:
        """A local file with these bytes, for libraries that want one. Do not write to it."""
        return self.at()

    def open(self) -> BinaryIO:
        """A stream of the bytes."""
        return self.path.open("rb")

    def read(self) -> bytes:
        """All bytes."""
        return self.path.read_bytes()

    def text(self, encoding: str = "utf-8") -> str:
        """All of it as text."""
        return self.read().decode(encoding)


def kept_as(digest: str) -> str:
    """The name of the copy in a store."""
    return f"lookups/sha256/{digest[:2]}/{digest}"
