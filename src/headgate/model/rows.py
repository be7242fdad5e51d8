"""Declared rows: a table, its key, and a schema that types and coerces what a handler yields.

A schema is a TypedDict, a dataclass or a pydantic model. Text from a CSV becomes what the schema
says or the object is quarantined, naming the row and the field. Nothing is guessed.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import (
    Annotated, Any, Literal, NotRequired, Required, Union, cast, get_args, get_origin,
    get_type_hints, is_typeddict,
)  # fmt: skip
from uuid import UUID

import orjson
import typing_extensions
from pydantic import BaseModel, TypeAdapter, ValidationError

from headgate.errors import PipelineError, SchemaError

NewColumns = Literal["quarantine", "add", "ignore"]
CHUNK = 1000

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
OURS = "_headgate_"

_TYPES: dict[type, str] = {
    str: "text",
    bool: "boolean",
    int: "bigint",
    float: "double precision",
    Decimal: "numeric",
    datetime: "timestamptz",
    date: "date",
    time: "time",
    timedelta: "interval",
    UUID: "uuid",
    bytes: "bytea",
    dict: "jsonb",
    list: "jsonb",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column as the schema declares it."""

    name: str
    type: str
    nullable: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Where declared rows go, and what they are made of."""

    schema: str | None
    name: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    new_columns: NewColumns
    adapter: TypeAdapter[list[Any]] = dataclasses.field(compare=False, repr=False)

    @property
    def label(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


def declare(
    table: str, *, key: str | Iterable[str], schema: type, new_columns: NewColumns = "quarantine"
) -> Table:
    """Check a declaration and turn it into a `Table`. Raises `PipelineError` that says what is wrong."""
    parts = table.split(".")
    if len(parts) > 2 or not all(IDENTIFIER.fullmatch(p) for p in parts):
        raise PipelineError(
            f"rows({table!r}): not a table name",
            hint='use letters, digits and _, as in "reading" or "weather.reading"',
        )
    columns = tuple(_columns(table, schema))
    names = {c.name for c in columns}
    keys = (key,) if isinstance(key, str) else tuple(key)
    if not keys or len(set(keys)) != len(keys):
        raise PipelineError(f"rows({table!r}): key needs one or more different columns, got {keys!r}")
    for k in keys:
        if k not in names:
            raise PipelineError(
                f"rows({table!r}): key column {k!r} is not in {schema.__name__}",
                hint=f"its columns are {', '.join(sorted(names))}",
            )
    columns = tuple(
        dataclasses.replace(c, nullable=False) if c.name in keys else c for c in columns
    )
    if new_columns not in ("quarantine", "add", "ignore"):
        raise PipelineError(
            f"rows({table!r}): new_columns={new_columns!r}", hint='use "quarantine", "add" or "ignore"'
        )
    adapter: TypeAdapter[list[Any]] = TypeAdapter(list[_readable(schema)])
    owner = parts[0] if len(parts) == 2 else None
    return Table(owner, parts[-1], keys, columns, new_columns, adapter)


def _readable(schema: Any) -> Any:
    """The schema as pydantic takes it: before Python 3.12 it wants typing_extensions' TypedDict."""
    if not is_typeddict(schema):
        return schema
    hints = get_type_hints(schema, include_extras=True)
    fields = {
        name: hint
        if name in schema.__required_keys__ or get_origin(hint) is NotRequired
        else NotRequired[hint]
        for name, hint in hints.items()
    }
    return typing_extensions.TypedDict(schema.__name__, fields)


def _columns(table: str, schema: type) -> Iterator[Column]:
    if not (
        is_typeddict(schema)
        or dataclasses.is_dataclass(schema)
        or (isinstance(schema, type) and issubclass(schema, BaseModel))
    ):
        raise PipelineError(
            f"rows({table!r}): schema must be a TypedDict, a dataclass or a pydantic model,"
            f" got {schema!r}"
        )
    try:
        hints = get_type_hints(schema, include_extras=True)
    except NameError as error:
        raise PipelineError(f"rows({table!r}): {schema.__name__}: {error}") from error
    if not hints:
        raise PipelineError(f"rows({table!r}): {schema.__name__} has no fields")
    for name, hint in hints.items():
        if not IDENTIFIER.fullmatch(name) or name.lower().startswith(OURS):
            raise PipelineError(
                f"rows({table!r}): {name!r} cannot be a column",
                hint=f"use letters, digits and _; names beginning with {OURS} are ours",
            )
        kind, nullable = _postgres_type(table, name, hint)
        yield Column(name, kind, nullable)


def _postgres_type(table: str, name: str, hint: Any) -> tuple[str, bool]:
    origin = get_origin(hint)
    if origin is NotRequired:
        return _postgres_type(table, name, get_args(hint)[0])[0], True
    if origin in (Annotated, Required):
        return _postgres_type(table, name, get_args(hint)[0])
    if origin in (Union, types.UnionType):
        rest = [a for a in get_args(hint) if a is not type(None)]
        if len(rest) == 1:
            return _postgres_type(table, name, rest[0])[0], True
    if origin is Literal:
        return "text", None in get_args(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return "text", False
    plain = origin or hint
    if isinstance(plain, type):
        for base in plain.__mro__:
            if base in _TYPES:
                return _TYPES[base], False
    raise PipelineError(
        f"rows({table!r}): no column type for {name}: {hint!r}",
        hint="use str, int, float, Decimal, bool, datetime, date, time, timedelta, UUID, bytes,"
        " dict, list, an Enum or a Literal; add | None when it may be empty",
    )


class Encoder:
    """Turns what a handler yields into JSON arrays that Postgres populates the table from."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._fields = frozenset(c.name for c in table.columns)
        # In a CSV an empty cell of a nullable column that is not text means "no value".
        self._blank = tuple(c.name for c in table.columns if c.nullable and c.type != "text")
        self._times = tuple(c.name for c in table.columns if c.type == "timestamptz")

    def encode(self, rows: Iterable[Any]) -> Iterator[tuple[int, bytes, frozenset[str]]]:
        """JSON arrays of up to `CHUNK` rows: how many, the text, and columns the schema does not have."""
        chunk: list[Any] = []
        seen = 0
        for row in _each(rows):
            chunk.append(row)
            if len(chunk) == CHUNK:
                yield self._encode(chunk, seen)
                seen += len(chunk)
                chunk = []
        if chunk:
            yield self._encode(chunk, seen)

    def _encode(self, chunk: list[Any], seen: int) -> tuple[int, bytes, frozenset[str]]:
        extras: dict[int, dict[str, Any]] = {}
        for n, row in enumerate(chunk):
            if isinstance(row, dict):
                given = cast("dict[str, Any]", row)
                if not given.keys() <= self._fields:
                    extras[n] = self._extra(given, seen + n + 1)
                for name in self._blank:
                    if given.get(name) == "":
                        chunk[n] = given = {**given, name: None}
        try:
            checked = self.table.adapter.validate_python(chunk)
        except ValidationError as error:
            raise SchemaError(_explain(self.table, error, seen)) from None
        plain: list[dict[str, Any]] = self.table.adapter.dump_python(checked)
        for name in self._times:
            for row in plain:
                value = row.get(name)
                # A time without a zone would be read in the server's zone. Here it is UTC, always.
                if isinstance(value, datetime) and value.tzinfo is None:
                    row[name] = value.replace(tzinfo=UTC)
        for n, extra in extras.items():
            plain[n] |= extra
        added = frozenset(name for extra in extras.values() for name in extra)
        try:
            return len(plain), orjson.dumps(plain, default=_json), added
        except orjson.JSONEncodeError as error:
            raise SchemaError(f"{self.table.label}: rows {seen + 1}…: {error}") from None

    def _extra(self, row: Mapping[str, Any], n: int) -> dict[str, Any]:
        unknown = [k for k in row if k not in self._fields]
        if self.table.new_columns == "ignore":
            return {}
        # csv.DictReader puts the cells beyond the header under None.
        nameable = all(IDENTIFIER.fullmatch(str(k)) for k in unknown) and None not in row
        if self.table.new_columns == "quarantine" or not nameable:
            name = "more cells than the header" if None in row else f"column {unknown[0]!r}"
            raise SchemaError(
                f"{self.table.label}: row {n} has {name}, which the schema does not have",
                reason="new_column",
                hint='declare it, or say rows(..., new_columns="add") or "ignore"',
            )
        return {k: None if row[k] is None else str(row[k]) for k in unknown}


def _each(rows: Any) -> Iterator[Any]:
    if hasattr(rows, "__arrow_c_stream__"):
        yield from _arrow(rows)
        return
    if isinstance(rows, (str, bytes, Mapping)) or not hasattr(rows, "__iter__"):
        raise SchemaError(f"a rows handler yields rows; it returned a {type(rows).__name__}")
    for row in rows:
        if hasattr(row, "__arrow_c_stream__"):
            yield from _arrow(row)
        else:
            yield row


def _arrow(stream: Any) -> Iterator[Any]:
    try:
        import pyarrow as pa  # noqa: PLC0415  (an extra, imported where it is used)
    except ImportError:
        raise PipelineError(
            "a rows handler returned an Arrow stream, and pyarrow is not installed",
            hint="pip install 'headgate[arrow]'",
        ) from None
    reader = cast("Any", pa).RecordBatchReader.from_stream(stream)
    for batch in reader:
        for slice_ in range(0, batch.num_rows, CHUNK):
            yield from batch.slice(slice_, CHUNK).to_pylist()


def _explain(table: Table, error: ValidationError, seen: int) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    at, *field = first["loc"]
    number = seen + int(at) + 1 if isinstance(at, int) else "?"
    where = ".".join(str(f) for f in field)
    given = repr(first["input"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    said = f"{where}: " if where else ""
    return f"{table.label}: row {number}: {said}{first['msg']}, got {given[:80]}{more}"


def _json(value: Any) -> Any:
    match value:
        case Decimal():
            return str(value)
        case bytes():
            return "\\x" + value.hex()
        case timedelta():
            return f"{value.total_seconds()} seconds"
        case set() | frozenset():
            return sorted(cast("set[Any]", value))
        case _:
            raise TypeError(f"a {type(value).__name__} cannot be stored")

