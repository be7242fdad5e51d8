"""Schemas of dataframely: tables of polars.

Values are converted where they can be, since a file of text knows no types; what cannot be
converted breaks the rule `dtype` of its column.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from headgate.model.facts import Check
from headgate.model.object import Object

from .faults import Faults
from .frame import Read, content_of, frame_of, met, unaddressed, unmet

KIND = "dataframely"


class Framed:
    """A dataframely schema as a check."""

    kind = KIND

    def __init__(self, schema: Any, read: Read | None) -> None:
        self.name: str = schema.__name__
        # Its columns and rules in words, and the functions among them by their code.
        checks = [getattr(column, "check", None) for column in schema.columns().values()]
        self.content = content_of([unaddressed(schema), checks], whose=KIND)
        self._schema = schema
        self._read = read

    def examine(self, obj: Object, name: str) -> Iterator[Check]:
        """Hold an object against it."""
        errors: Any = import_module("dataframely.exc")
        frame = frame_of(obj, self._read, "polars")
        rows = len(frame)
        try:
            failure = self._schema.filter(frame, cast=True)[1]
        except errors.SchemaError as error:
            yield unmet(name, KIND, rows, rows, str(error).partition("\n")[0])
            return
        if not len(failure):
            yield met(name, KIND, rows)
            return
        faults = Faults()
        for rule, count in failure.counts().items():
            column, _, broken = rule.rpartition("|")
            faults.add(column, broken, times=count)
        yield unmet(name, KIND, rows, len(failure), faults.text())
