"""A schema's fields as columns: which Postgres type each one has, and whether it may be empty."""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Collection, Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NewType, NotRequired, Required, Union, cast
from uuid import UUID

import pydantic
import typing_extensions as typing_
from pydantic import BaseModel

from headgate.errors import PipelineError

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
OURS = "_headgate_"

_TYPES: dict[Any, str] = {
    str: "text",
    bool: "boolean",
    int: "bigint",
    float: "double precision",
    Decimal: "numeric",
    datetime: "timestamptz",
    pydantic.AwareDatetime: "timestamptz",
    pydantic.NaiveDatetime: "timestamptz",
    date: "date",
    time: "time",
    timedelta: "interval",
    UUID: "uuid",
    bytes: "bytea",
    BaseModel: "jsonb",
    dict: "jsonb",
    list: "jsonb",
    tuple: "jsonb",
    set: "jsonb",
    frozenset: "jsonb",
}
_OF_VALUES = frozenset({str, bool, int, float})


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column as the schema declares it."""

    name: str
    type: str
    nullable: bool


def is_name(name: object) -> bool:
    """May a column of the user's be called this?"""
    return (
        isinstance(name, str)
        and IDENTIFIER.fullmatch(name) is not None
        and not name.lower().startswith(OURS)
    )


def columns(table: str, schema: type) -> Iterator[Column]:
    """The schema's columns. Raises `PipelineError` that names what cannot be one."""
    fields = _fields(table, schema)
    if not fields:
        raise PipelineError(f"rows({table!r}): {schema.__name__} has no fields")
    for name, hint in fields.items():
        if not is_name(name):
            raise PipelineError(
                f"rows({table!r}): {name!r} cannot be a column",
                hint=f"use letters, digits and _; names beginning with {OURS} are ours",
            )
        bare, required = _qualified(hint)
        kind, nullable = _postgres_type(table, name, bare)
        if typing_.is_typeddict(schema) and not _is_required(schema, name, required):
            nullable = True
        yield Column(name, kind, nullable)


def readable(schema: Any, keys: Collection[str]) -> Any:
    """The schema as pydantic takes it: before Python 3.12 it wants typing_extensions' TypedDict.

    Key columns are required, whatever the TypedDict says: there is no row without its key.
    """
    if not typing_.is_typeddict(schema):
        return schema
    fields: dict[str, Any] = {}
    for name, hint in typing_.get_type_hints(schema, include_extras=True).items():
        bare, required = _qualified(hint)
        needed = name in keys or _is_required(schema, name, required)
        fields[name] = bare if needed else NotRequired[bare]
    made = cast("Any", typing_).TypedDict(schema.__name__, fields)
    if (config := getattr(schema, "__pydantic_config__", None)) is not None:
        made.__pydantic_config__ = config
    return made


def _fields(table: str, schema: object) -> dict[str, Any]:
    if isinstance(schema, type):
        made = cast("type[Any]", schema)
        try:
            if issubclass(made, BaseModel):
                return {name: field.annotation for name, field in made.model_fields.items()}
            if dataclasses.is_dataclass(made):
                hints = typing_.get_type_hints(made, include_extras=True)
                return {field.name: hints[field.name] for field in dataclasses.fields(made)}
            if typing_.is_typeddict(made):
                return typing_.get_type_hints(made, include_extras=True)
        except NameError as error:
            raise PipelineError(f"rows({table!r}): {made.__name__}: {error}") from error
    raise PipelineError(
        f"rows({table!r}): schema must be a TypedDict, a dataclass or a pydantic model,"
        f" got {schema!r}"
    )


def _qualified(hint: Any) -> tuple[Any, bool | None]:
    """The hint without Required, NotRequired and ReadOnly, and what the first two said."""
    origin = typing_.get_origin(hint)
    if origin in (Required, NotRequired):
        return _qualified(typing_.get_args(hint)[0])[0], origin is Required
    if origin is typing_.ReadOnly:
        return _qualified(typing_.get_args(hint)[0])
    if origin is Annotated:
        bare, required = _qualified(hint.__origin__)
        return Annotated[(bare, *hint.__metadata__)], required
    return hint, None


def _is_required(schema: Any, name: str, said: bool | None) -> bool:
    # `__required_keys__` is wrong about a NotRequired that was still text when the class was made
    # (`from __future__ import annotations`), so what the resolved hint says comes first.
    return name in schema.__required_keys__ if said is None else said


def _postgres_type(table: str, name: str, hint: Any) -> tuple[str, bool]:
    if isinstance(hint, typing_.TypeAliasType):
        return _postgres_type(table, name, hint.__value__)
    if isinstance(hint, NewType):
        return _postgres_type(table, name, hint.__supertype__)
    origin: Any = typing_.get_origin(hint)
    if origin is Annotated:
        return _postgres_type(table, name, hint.__origin__)
    if origin in (Union, types.UnionType):
        rest = [a for a in typing_.get_args(hint) if a is not type(None)]
        if len(rest) == 1:
            return _postgres_type(table, name, rest[0])[0], True
    if origin is Literal:
        values = typing_.get_args(hint)
        return _type_of(v for v in values if v is not None), None in values
    plain: object = origin or hint
    if isinstance(plain, type):
        made = cast("type[Any]", plain)
        if issubclass(made, Enum):
            return _type_of(member.value for member in made), False
        if typing_.is_typeddict(made) or dataclasses.is_dataclass(made):
            return "jsonb", False
        for base in made.__mro__:
            if base in _TYPES:
                return _TYPES[base], False
    raise PipelineError(
        f"rows({table!r}): no column type for {name}: {hint!r}",
        hint="use str, int, float, Decimal, bool, datetime, date, time, timedelta, UUID, bytes,"
        " dict, list, an Enum or a Literal; add | None when it may be empty",
    )


def _type_of(values: Iterable[Any]) -> str:
    # An Enum's values are plain; a Literal may also hold members of one.
    kinds: set[type[Any]] = {type(v.value if isinstance(v, Enum) else v) for v in values}
    kind = kinds.pop() if len(kinds) == 1 else str
    return _TYPES[kind] if kind in _OF_VALUES else "text"
