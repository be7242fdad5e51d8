"""Contracts: things that say what an object has to be, told from functions without importing them.

Nobody pays for a library that is not used: which one a schema comes from is read from the module
of its class. Whoever has such a schema has its library.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from headgate.errors import PipelineError
from headgate.model.facts import Check
from headgate.model.object import Object

from .json_schema import JsonSchema

RIGHT = "use a function, hg.JsonSchema, or a schema of dataframely, pandera or Great Expectations"


@dataclass(frozen=True)
class Contract:
    """Something other than a function that objects are held against.

    `content` says all that it demands, in the same words in every process.
    """

    name: str
    kind: str
    content: str
    examine: Callable[[Object, str], Iterable[Check]]

    def __call__(self, obj: Object) -> Iterable[Check]:
        return list(self.examine(obj, self.name))

    @property
    def digest(self) -> str:
        """Which contract it is, wherever its file lies."""
        return hashlib.sha256(f"{self.kind}\0{self.content}".encode()).hexdigest()

    def declared(self) -> dict[str, str]:
        """The contract as the ledger keeps it."""
        return {"name": self.name, "kind": self.kind, "digest": f"sha256:{self.digest}"}


def contract_of(
    given: object, *, read: Callable[[Path], Any] | None, name: str | None, where: str
) -> Contract | None:
    """The contract that was given; None for what must be a function then."""
    if name is not None and (not isinstance(_unsure(name), str) or not name):
        raise PipelineError(f"{where}: name={name!r}", hint='name is text, as in name="orders"')
    if read is not None and not callable(_unsure(read)):
        raise PipelineError(f"{where}: read={read!r}", hint="read is a function of a file's path")
    made = _framed(given, read, name)
    if made is not None:
        return made
    if read is not None:
        raise PipelineError(
            f"{where}: read= is for schemas of data frames",
            hint="leave it out: a function and an hg.JsonSchema read the object themselves",
        )
    if isinstance(given, JsonSchema):
        return Contract(name or given.name, "json_schema", given.content, given.examine)
    if isinstance(given, Mapping | str | Path):
        raise PipelineError(
            f"{where}: a {type(cast('object', given)).__name__} is no check",
            hint='for a JSON Schema write hg.JsonSchema({...}) or hg.JsonSchema("schema.json")',
        )
    if package := _packages(given) & {"dataframely", "pandera", "great_expectations"}:
        raise PipelineError(
            f"{where}: this {type(given).__name__} of {package.pop()} is no check", hint=RIGHT
        )
    return None


def _framed(given: object, read: Callable[[Path], Any] | None, name: str | None) -> Contract | None:
    match _library(given):
        case "dataframely":
            from .dataframely import Framed
        case "pandera":
            from .pandera import Framed
        case "great_expectations":
            from .great_expectations import Framed
        case _:
            return None
    framed = Framed(given, read)
    return Contract(name or framed.name, framed.kind, framed.content, framed.examine)


def _library(given: object) -> str | None:
    """Whose schema it is."""
    made = {f"{c.__module__.partition('.')[0]}.{c.__name__}" for c in _kinds(given)}
    is_class = isinstance(given, type)
    if is_class and "dataframely.Schema" in made:
        return "dataframely"
    if ("pandera.DataFrameModel" if is_class else "pandera.DataFrameSchema") in made:
        return "pandera"
    suites = {"ExpectationSuite", "Expectation", "ValidationDefinition", "Checkpoint"}
    if not is_class and made & {f"great_expectations.{suite}" for suite in suites}:
        return "great_expectations"
    return None


def _kinds(given: object) -> tuple[type, ...]:
    return cast("type", given if isinstance(given, type) else type(given)).__mro__


def _packages(given: object) -> set[str]:
    return {kind.__module__.partition(".")[0] for kind in _kinds(given)}


def _unsure(value: object) -> object:
    """Whatever the types say, an author may have given anything."""
    return value
