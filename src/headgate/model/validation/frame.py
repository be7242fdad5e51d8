"""Data frames: an object read as a table, for the libraries that check tables.

A frame is the whole object in memory. How it is read is said by `read`, which gets the path of a
local file; without one, by what the object is: CSV, Parquet or JSON Lines.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, cast

from headgate.errors import HeadgateError, SchemaError
from headgate.model.code import code_of
from headgate.model.facts import Check, media_type
from headgate.model.object import Object

Maker = Literal["polars", "pandas"]
Read = Callable[[Path], Any]
Readers = Mapping[str, tuple[str, dict[str, Any]]]  # by media type: a function, its options
BROKEN = "contract"

# All of a column decides its type: what is found must not depend on which rows come first.
_POLARS: Readers = {
    "text/csv": ("read_csv", {"infer_schema_length": None}),
    "application/vnd.apache.parquet": ("read_parquet", {}),
    "application/x-ndjson": ("read_ndjson", {"infer_schema_length": None}),
}
_PANDAS: Readers = {
    "text/csv": ("read_csv", {"low_memory": False}),
    "application/vnd.apache.parquet": ("read_parquet", {}),
    "application/x-ndjson": ("read_json", {"lines": True}),
}
_READERS: Mapping[Maker, Readers] = {"polars": _POLARS, "pandas": _PANDAS}
_ADDRESS = re.compile(r"\bat 0x[0-9a-f]+")


def frame_of(obj: Object, read: Read | None, maker: Maker) -> Any:
    """The object as a data frame of the library that its schema wants."""
    try:
        frame = _reader(obj, maker)(obj.path()) if read is None else read(obj.path())
    except HeadgateError:
        raise
    except Exception as error:
        raise SchemaError(
            f"{obj.uri} cannot be read as a table: {type(error).__name__}: {error}",
            reason="not_table",
        ) from error
    # A lazy one would be checked by its columns alone.
    if maker == "polars" and type(frame).__name__ == "LazyFrame":
        frame = frame.collect()
    if type(frame).__name__ != "DataFrame" or not type(frame).__module__.startswith(maker):
        kind = f"{type(frame).__module__.partition('.')[0]} {type(frame).__name__}"
        raise TypeError(f"read gave a {kind}; this schema is for a DataFrame of {maker}")
    return frame


def _reader(obj: Object, maker: Maker) -> Read:
    said = media_type(obj.uri, obj.envelope.content_type).partition(";")[0].strip()
    if said not in _READERS[maker]:
        raise SchemaError(
            f"{obj.uri} is {said}, which is not read as a table by itself",
            reason="not_table",
            hint=f"say how: validate(Schema, read=…), with a function that gives a {maker} frame",
        )
    function, options = _READERS[maker][said]
    return lambda path: getattr(import_module(maker), function)(path, **options)


def unmet(name: str, kind: str, rows: int, failed: int, text: str) -> Check:
    """A table that is not what it must be."""
    told = f"{failed} of {rows} {'row' if rows == 1 else 'rows'} failed: {text}"
    return Check(name, False, kind, BROKEN, told, rows, failed)


def met(name: str, kind: str, rows: int) -> Check:
    """A table that is."""
    return Check(name, True, kind, examined=rows, failed=0)


def content_of(thing: object, *, whose: str) -> str:
    """What a schema demands, in words that are the same in every process.

    Objects of the library `whose` are told by what they hold, functions by their code.
    """
    return "\n".join(_told(thing, whose, frozenset()))


def unaddressed(thing: object) -> str:
    """An object in its own words, without where it happens to lie in memory."""
    return _ADDRESS.sub("", repr(thing))


def _told(thing: Any, whose: str, above: frozenset[int]) -> Iterator[str]:
    if id(thing) in above:
        return
    above = above | {id(thing)}
    if isinstance(thing, Mapping):
        for name, value in sorted(
            cast("Mapping[object, object]", thing).items(), key=lambda item: str(item[0])
        ):
            yield f"{name}:"
            yield from _told(value, whose, above)
    elif isinstance(thing, list | tuple):
        for value in cast("list[object]", thing):
            yield from _told(value, whose, above)
    elif isinstance(thing, set | frozenset):
        yield from sorted(
            "\n".join(_told(value, whose, above)) for value in cast("set[object]", thing)
        )
    elif hasattr(thing, "__code__"):
        yield hashlib.sha256(code_of(thing).encode()).hexdigest()
        for cell in getattr(thing, "__closure__", None) or ():
            yield from _told(cell.cell_contents, whose, above)
    elif type(thing).__module__.partition(".")[0] == whose and hasattr(thing, "__dict__"):
        yield type(thing).__qualname__
        yield from _told(vars(thing), whose, above)
    else:
        yield unaddressed(thing)
