"""Schemas and models of pandera: tables of polars or pandas.

What pandera is told by its own options (`coerce`, `strict`, …) stands. Its switches in the
environment do not: whether an object passes must not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from headgate.errors import PipelineError
from headgate.model.facts import Check
from headgate.model.object import Object

from .faults import Faults
from .frame import Maker, Read, content_of, frame_of, met, unmet

KIND = "pandera"


class Framed:
    """A pandera schema as a check."""

    kind = KIND

    def __init__(self, schema: Any, read: Read | None) -> None:
        made: Any = schema.to_schema() if hasattr(schema, "to_schema") else schema
        self.name = str(made.name or KIND)
        self.content = content_of(made, whose="pandera")
        self._schema = made
        self._read = read
        self._maker: Maker = _maker(made)

    def examine(self, obj: Object, name: str) -> Iterator[Check]:
        """Hold an object against it."""
        config: Any = import_module("pandera.config")
        errors: Any = import_module("pandera.errors")
        frame = frame_of(obj, self._read, self._maker)
        rows = len(frame)
        try:
            with config.config_context(
                validation_enabled=True,
                validation_depth=config.ValidationDepth.SCHEMA_AND_DATA,
            ):
                kept = self._schema.validate(frame, lazy=True)
        except errors.SchemaErrors as error:
            yield _unmet(name, rows, error.failure_cases)
            return
        # With `drop_invalid_rows` it does not complain, but what is published has all of them.
        dropped = rows - len(kept)
        yield unmet(name, KIND, rows, dropped, "dropped") if dropped else met(name, KIND, rows)


def _unmet(name: str, rows: int, cases: Any) -> Check:
    faults, broken, whole = Faults(), set[Any](), False
    columns = (cases[name] for name in ("column", "check", "failure_case", "index"))
    for column, rule, case, index in zip(*columns, strict=True):
        if str(index) in ("None", "nan", "<NA>"):  # all rows together
            whole = True
        else:
            broken.add(index)
        faults.add(str(column), str(rule)[:80], str(case))
    return unmet(name, KIND, rows, rows if whole else len(broken), faults.text())


def _maker(schema: Any) -> Maker:
    backends = {kind.__module__ for kind in type(schema).__mro__}
    if any(module.startswith("pandera.api.polars") for module in backends):
        return "polars"
    if any(module.startswith("pandera.api.pandas") for module in backends):
        return "pandas"
    raise PipelineError(
        f"validate: {schema.name}: this backend of pandera is not supported",
        hint="use pandera.polars or pandera.pandas",
    )
