"""Declared rows: a table, its key, and a schema that types and coerces what a handler yields.

A schema is a TypedDict, a dataclass or a pydantic model. Text from a CSV becomes what the schema
says or the object is quarantined, naming the row and the field. Nothing is guessed, and nothing is
passed on that Postgres could only refuse at the commit, where no row has a number any more.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from functools import cache
from itertools import chain, islice
from typing import Any, Literal, cast

import orjson
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import PydanticSerializationError

from headgate.errors import PipelineError, SchemaError

from .columns import IDENTIFIER, Column, columns, is_name, readable
from .kept import kept_json

NewColumns = Literal["quarantine", "add", "ignore"]
CHUNK = 1000

_DICT = {dict}
_NONE: frozenset[str] = frozenset()
# An odd number of backslashes: the escape, not a text about it.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
# A dataclass is as wrong as whoever filled it: its instances are checked like dictionaries.
_CONFIG = ConfigDict(revalidate_instances="always")


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
    """Check a declaration, make it a `Table`. Raises `PipelineError` that says what is wrong."""
    parts = table.split(".")
    if len(parts) > 2 or not all(IDENTIFIER.fullmatch(p) for p in parts):
        raise PipelineError(
            f"rows({table!r}): not a table name",
            hint='use letters, digits and _, as in "reading" or "weather.reading"',
        )
    if len(parts) == 2 and (parts[0] == "headgate" or parts[0].startswith("pg_")):
        raise PipelineError(
            f"rows({table!r}): the schema {parts[0]} is not yours", hint="use a schema of your own"
        )
    declared = tuple(columns(table, schema))
    names = {c.name for c in declared}
    keys = (key,) if isinstance(key, str) else tuple(key)
    if not keys or len(set(keys)) != len(keys):
        raise PipelineError(
            f"rows({table!r}): key needs one or more different columns, got {keys!r}"
        )
    for k in keys:
        if k not in names:
            raise PipelineError(
                f"rows({table!r}): key column {k!r} is not in {schema.__name__}",
                hint=f"its columns are {', '.join(sorted(names))}",
            )
    declared = tuple(
        dataclasses.replace(c, nullable=False) if c.name in keys else c for c in declared
    )
    if new_columns not in ("quarantine", "add", "ignore"):
        raise PipelineError(
            f"rows({table!r}): new_columns={new_columns!r}",
            hint='use "quarantine", "add" or "ignore"',
        )
    owner = parts[0] if len(parts) == 2 else None
    return Table(owner, parts[-1], keys, declared, new_columns, _adapter(table, schema, keys))


def _adapter(table: str, schema: type, keys: tuple[str, ...]) -> TypeAdapter[list[Any]]:
    rows: Any = list.__class_getitem__(readable(schema, keys))
    try:
        return TypeAdapter(rows, config=_CONFIG)
    except (PydanticUserError, PydanticSchemaGenerationError) as error:
        raise PipelineError(
            f"rows({table!r}): {schema.__name__}: {str(error).partition(chr(10))[0]}",
            hint="a TypedDict inside another one is imported from typing_extensions",
        ) from error


class Encoder:
    """Turns what a handler yields into JSON arrays that Postgres populates the table from."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.label = table.label
        self._validate = table.adapter.validator.validate_python
        self._serialize = table.adapter.serializer.to_python
        # A TypedDict of plain values comes out of validation as it goes into JSON.
        made = cast("dict[str, Any]", table.adapter.core_schema).get("items_schema", {})
        self._is_plain = (
            made.get("type") == "typed-dict"
            and "serialization" not in repr(made)
            and not any(c.type == "jsonb" for c in table.columns)
        )
        self._fields = frozenset(c.name for c in table.columns)
        # In a CSV an empty cell of a nullable column that is not text means "no value".
        self._blank = tuple(c.name for c in table.columns if c.nullable and c.type != "text")
        self._needed = tuple(c.name for c in table.columns if not c.nullable)
        self._dates = self._typed("timestamptz") + self._typed("date")
        self._integers = self._typed("bigint")
        self._floats = self._typed("double precision")
        self._documents = self._typed("jsonb")
        self._has_limits = bool(self._integers or self._floats or self._documents)

    def _typed(self, kind: str) -> tuple[str, ...]:
        return tuple(c.name for c in self.table.columns if c.type == kind)

    def encode(
        self, rows: Iterable[Any], seen: int = 0
    ) -> Iterable[tuple[int, bytes, frozenset[str]]]:
        """JSON arrays of up to `CHUNK` rows: how many, the text, and columns that are new.

        `seen` rows of the same object came before these.
        """
        each = _each(rows)
        chunk = list(islice(each, CHUNK))
        if len(chunk) == 1 and type(chunk[0]) is dict:
            return (self._encode(chunk, seen),)
        return self._chunks(chain(chunk, each), seen)

    def _chunks(
        self, each: Iterator[Any], seen: int
    ) -> Iterator[tuple[int, bytes, frozenset[str]]]:
        while chunk := list(islice(each, CHUNK)):
            kinds = set(map(type, chunk))
            if kinds != _DICT and any(map(_is_stream, kinds)):
                each = _unpacked(chain(chunk, each))
                continue
            yield self._encode(chunk, seen)
            if len(chunk) < CHUNK:
                return
            seen += CHUNK

    def _encode(self, chunk: list[Any], seen: int) -> tuple[int, bytes, frozenset[str]]:
        extras = self._prepare(chunk, seen)
        try:
            plain: list[dict[str, Any]] = self._validate(chunk)
            if not self._is_plain:
                plain = self._serialize(plain, warnings="error")
        except ValidationError as error:
            raise SchemaError(_explain(self.table, error, seen)) from None
        except PydanticSerializationError as error:
            raise SchemaError(f"{self.table.label}: rows {seen + 1}…: {error}") from None
        if self._has_limits:
            self._fit(plain, seen)
        if not extras:
            return len(plain), self._dump(plain, seen), _NONE
        added = _NONE
        for n, extra in extras.items():
            plain[n] |= extra
            added |= extra.keys()
        return len(plain), self._dump(plain, seen), added

    def _prepare(self, chunk: list[Any], seen: int) -> dict[int, dict[str, Any]]:
        """Set aside what the schema has no column for, and empty the blank cells."""
        extras: dict[int, dict[str, Any]] = {}
        for n, row in enumerate(chunk):
            if isinstance(row, dict):
                given = cast("dict[str, Any]", row)
            elif isinstance(row, Mapping):
                chunk[n] = given = dict(cast("Mapping[str, Any]", row))
            else:
                if isinstance(row, BaseModel) and row.model_extra:
                    extras[n] = self._extra(row.model_extra, seen + n + 1)
                continue
            if not given.keys() <= self._fields:
                extras[n] = self._extra(given, seen + n + 1)
            for name in self._blank:
                if given.get(name) == "":
                    chunk[n] = given = {**given, name: None}
            for name in self._dates:
                value = given.get(name)
                # 20240501 would be read as seconds since 1970. Nothing is guessed here.
                if type(value) is str and value.isdigit():
                    raise self._wrong(
                        seen + n + 1, name, f"{value!r} is no ISO 8601 time: write 2024-05-01"
                    )
        return extras

    def _extra(self, row: Mapping[Any, Any], n: int) -> dict[str, Any]:
        unknown = [k for k in row if k not in self._fields]
        if self.table.new_columns == "ignore":
            return {}
        if None in unknown:  # where csv.DictReader puts the cells beyond the header
            raise SchemaError(
                f"{self.table.label}: row {n} has more cells than the header",
                reason="new_column",
                hint='repair the file, or say rows(..., new_columns="ignore")',
            )
        if self.table.new_columns == "quarantine":
            raise SchemaError(
                f"{self.table.label}: row {n} has column {unknown[0]!r}, which the schema has not",
                reason="new_column",
                hint='declare it, or say rows(..., new_columns="add") or "ignore"',
            )
        for name in unknown:
            if not is_name(name):
                raise SchemaError(
                    f"{self.table.label}: row {n} has {name!r}, which cannot be a column",
                    reason="new_column",
                    hint='rename it in the handler, or say rows(..., new_columns="ignore")',
                )
        return {k: None if row[k] is None else str(row[k]) for k in unknown}

    def _fit(self, plain: list[dict[str, Any]], seen: int) -> None:
        """Make the values such that JSON and the column's type can hold them."""
        for name in self._integers:
            for n, row in enumerate(plain, seen + 1):
                value = row.get(name)
                if type(value) is int and not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
                    raise self._wrong(n, name, "the integer does not fit into 64 bits")
        for name in self._floats:
            for row in plain:
                value = row.get(name)
                # JSON has no word for these, and a null would be another value.
                if isinstance(value, float) and not math.isfinite(value):
                    row[name] = str(value)
        for name in self._documents:
            for n, row in enumerate(plain, seen + 1):
                if not _is_finite(row.get(name)):
                    raise self._wrong(n, name, "NaN and Infinity cannot be stored inside JSON")

    def _dump(self, plain: list[dict[str, Any]], seen: int) -> bytes:
        try:
            text = _dumps(plain)
        except orjson.JSONEncodeError as error:
            raise self._blame(plain, seen) or SchemaError(
                f"{self.table.label}: rows {seen + 1}…: {error}"
            ) from None
        if b"\\u0000" in text and (blamed := self._blame(plain, seen)) is not None:
            raise blamed
        if b":null" in text:
            for n, row in enumerate(plain, seen + 1):
                for name in self._needed:
                    if row.get(name) is None:
                        raise self._wrong(n, name, "the column may not be empty")
        return text

    def _blame(self, plain: list[dict[str, Any]], seen: int) -> SchemaError | None:
        """The first value that cannot be stored, looked for only when there is one."""
        for n, row in enumerate(plain, seen + 1):
            for name, value in row.items():
                try:
                    if _NUL.search(_dumps(value)):
                        return self._wrong(n, name, "text cannot hold the character NUL")
                except orjson.JSONEncodeError as error:
                    return self._wrong(n, name, str(error))
        return None

    def _wrong(self, n: int, name: str, why: str) -> SchemaError:
        return SchemaError(f"{self.table.label}: row {n}: {name}: {why}")


@cache
def _is_stream(kind: type) -> bool:
    return hasattr(kind, "__arrow_c_stream__")


@cache
def _opener(kind: type) -> Callable[[Any], Iterator[Any]]:
    """What makes rows of such a thing, one after the other."""
    if _is_stream(kind):
        return _arrow
    if not hasattr(kind, "__iter__") or issubclass(kind, (str, bytes, Mapping)):
        raise SchemaError(f"a rows handler yields rows; it returned a {kind.__name__}")
    return iter


def _each(rows: Any) -> Iterator[Any]:
    return _opener(cast("type[object]", type(rows)))(rows)


def _unpacked(rows: Iterable[Any]) -> Iterator[Any]:
    """Rows, some of which are streams of rows."""
    for row in rows:
        if _is_stream(cast("type[object]", type(row))):
            yield from _arrow(row)
        else:
            yield row


def _arrow(stream: Any) -> Iterator[Any]:
    try:
        import pyarrow  # pyright: ignore[reportMissingTypeStubs]  (it has none)
    except ImportError:
        raise PipelineError(
            "a rows handler returned an Arrow stream, and pyarrow is not installed",
            hint="in Headgate's checkout: pip install '.[arrow]'",
        ) from None
    reader = cast("Any", pyarrow).RecordBatchReader.from_stream(stream)
    for batch in reader:
        for start in range(0, batch.num_rows, CHUNK):
            yield from batch.slice(start, CHUNK).to_pylist()


def _explain(table: Table, error: ValidationError, seen: int) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    at, *field = first["loc"]
    number = seen + int(at) + 1 if isinstance(at, int) else "?"
    where = ".".join(str(f) for f in field)
    given = repr(first["input"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    said = f"{where}: " if where else ""
    return f"{table.label}: row {number}: {said}{first['msg']}, got {given[:80]}{more}"


def _is_finite(value: Any) -> bool:
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(map(_is_finite, cast("dict[Any, Any]", value).values()))
        case list() | tuple() | set() | frozenset():
            return all(map(_is_finite, cast("Iterable[Any]", value)))
        case _:
            return True


def _dumps(value: Any) -> bytes:
    # A time without a zone would be read in the server's zone. Here it is UTC, always.
    option = orjson.OPT_NAIVE_UTC
    try:
        return kept_json(value, _json, option)
    except orjson.JSONEncodeError:
        # dict[int, …] is a fair type for a column. It is slower, so only where it is needed.
        return kept_json(value, _json, option | orjson.OPT_NON_STR_KEYS)


def _json(value: Any) -> Any:
    match value:
        case Decimal():
            return str(value)
        case bytes():
            return "\\x" + value.hex()
        case timedelta():
            return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
        case set() | frozenset():
            return sorted(cast("set[Any]", value))
        case _:
            raise TypeError(f"a {type(value).__name__} cannot be stored")
