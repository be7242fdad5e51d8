"""The dataset a pipeline publishes: what a catalog says about it before any object is there.

    soil = hg.Pipeline("soil", dataset=hg.Dataset("soil", title="Soil", license="CC-BY-4.0"))

A pipeline with a dataset is catalogued: its publications are items of a STAC collection, a DCAT
dataset and PROV bundles, written beside the data and served by `headgate serve`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

from headgate.errors import PipelineError

Access = Literal["public", "restricted", "non-public"]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


@dataclass(frozen=True, slots=True)
class Dataset:
    """A named dataset. `license` is an SPDX identifier, or "other" with a page in `license_url`."""

    name: str
    title: str = ""
    description: str = ""
    license: str = "other"
    license_url: str | None = None
    access: Access = "public"
    publisher: str | None = None
    keywords: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not is_name(self.name):
            raise PipelineError(
                f"Dataset({self.name!r}): not a name",
                hint='use letters, digits, - _ and . (at most 63), as in "soil-moisture"',
            )
        if self.access not in ("public", "restricted", "non-public"):
            raise PipelineError(
                f"Dataset({self.name!r}): access={self.access!r}",
                hint='use "public", "restricted" or "non-public"',
            )
        if isinstance(cast("object", self.keywords), str):
            raise PipelineError(
                f"Dataset({self.name!r}): keywords={self.keywords!r}",
                hint='keywords is a tuple, as in keywords=("soil", "moisture")',
            )
        for what in ("title", "description", "license"):
            if not _is_text(getattr(self, what)):
                raise PipelineError(f"Dataset({self.name!r}): {what} is text")
        object.__setattr__(self, "keywords", tuple(self.keywords))

    def declared(self) -> dict[str, Any]:
        """As the ledger keeps it."""
        return asdict(self) | {"keywords": list(self.keywords)}

    @classmethod
    def restore(cls, declared: Mapping[str, Any]) -> Dataset:
        """The inverse of `declared`."""
        given: dict[str, Any] = {**declared, "keywords": tuple(declared["keywords"])}
        return cls(**given)


def is_name(value: object) -> bool:
    """Can it name a dataset or a collection?"""
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def _is_text(value: object) -> bool:
    return isinstance(value, str)
