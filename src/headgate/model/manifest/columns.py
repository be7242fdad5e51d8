"""What the columns of a manifest mean: which one names the object, which one its version.

    uri, url      the object, as a uri reference; taken as it is written
    path, key     the object, as a plain name; percent-encoded here
    version       the store's id of this version
    sha256        of the bytes, in hex
    checksum      sha256:… or md5:… of the bytes, or anything else that changes with them
    etag          as the server gives it
    md5           of the bytes
    size          in bytes
    last_modified ISO 8601; without a zone it is UTC

Of several columns for one thing the first that is not empty counts. Other columns are ignored.

A manifest is read a batch at a time and a column at a time: what is plain is done by loops that run
in C, and only a column with something odd in it is looked at value by value.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import repeat
from typing import TypeGuard, TypeVar, cast

from headgate.model.listing import NotAListing, Row
from headgate.model.uri import quoted

NAMES = ("uri", "url", "path", "key")
VERSIONS = ("version", "sha256", "checksum", "etag", "md5")
SIZE, MODIFIED = "size", "last_modified"
KNOWN = frozenset({*NAMES, *VERSIONS, SIZE, MODIFIED})
# Beyond this a uri does not fit the ledger's index, and a version is none.
MAX_URI = 2000
MAX_VERSION = 1024
MAX_SIZE = 2**63 - 1
_DIGITS = 18
_LETTERS = (string.ascii_letters + string.digits).encode()
_UNRESERVED = _LETTERS + b"_.~/-"
_VISIBLE = bytes(range(33, 127))

# Is any place from the first to the last one wanted?
Wanted = Callable[[int, int], bool]
T = TypeVar("T")
R = TypeVar("R")

_plain_name = re.compile(r"[A-Za-z0-9_.~/-]+").fullmatch
_no_text = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]").search


def reference(column: str, value: str) -> str:
    """The object's uri, relative or not, from the column that names it."""
    if column in ("path", "key") and _plain_name(value) is None:
        try:
            value = quoted(value)
        except UnicodeEncodeError:
            raise NotAListing("its name is no text") from None
        if ":" in value.partition("/")[0]:  # or it would be taken for a scheme
            value = f"./{value}"
    if len(value) > MAX_URI:
        raise NotAListing(f"its uri has more than {MAX_URI} characters")
    if not value.isprintable() and _no_text(value) is not None:
        raise NotAListing("its uri has a character in it that is no text")
    return value


def version(column: str, value: str) -> tuple[str, str]:
    """What the version is, and the version, written in one way."""
    if column == "checksum":
        kind, colon, digest = value.partition(":")
        if colon and kind.lower() in ("sha256", "md5"):
            column, value = kind.lower(), digest
    if column in ("sha256", "md5"):
        value = value.removeprefix(f"{column}:")
        value = value.lower() if value.isalnum() else value  # and not base64
    elif column == "etag":
        weak, value = value.startswith("W/"), value.removeprefix("W/")
        value = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
        value = f"W/{value}" if weak else value
    if not value.isprintable():
        raise NotAListing(f"its {column} has a character in it that is no text")
    if len(value) > MAX_VERSION:
        raise NotAListing(f"its {column} has more than {MAX_VERSION} characters")
    return column, value


def size(value: str | int) -> int:
    """The size in bytes."""
    if isinstance(value, str):
        if not (value.isascii() and value.isdigit() and len(value) <= _DIGITS):
            raise NotAListing(f"its size is {value[:40]!r}, which is no number of bytes")
        value = int(value)
    if not 0 <= value <= MAX_SIZE:
        raise NotAListing(f"its size is {str(value)[:40]}, which is no number of bytes")
    return value


def modified(value: str) -> datetime:
    """The time of the last change."""
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        raise NotAListing(
            f"its last_modified is {value[:40]!r}: write ISO 8601, as in 2024-05-01T12:00:00Z"
        ) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


@dataclass(slots=True)
class Batch:
    """Some rows as columns. A value that is not given is None or empty."""

    names: dict[str, Sequence[str | None]]
    versions: dict[str, Sequence[str | None]]
    sizes: Sequence[str | int | None]
    modified: Sequence[str | None]
    places: Sequence[int]


def rows(batch: Batch, unit: str) -> list[Row]:
    """The rows of a batch. Raises `NotAListing` with the place."""
    try:
        kinds, told = _versions(batch)
        return list(
            map(
                Row,
                _references(batch),
                told,
                kinds,
                _sizes(batch.sizes),
                _times(batch.modified),
                batch.places,
            )
        )
    except _Odd as odd:
        raise NotAListing(f"{unit} {batch.places[odd.index]:,}: {odd.error}") from None


class _Odd(Exception):
    def __init__(self, index: int, error: NotAListing) -> None:
        self.index = index
        self.error = error


def _each(function: Callable[[T], R], values: Iterable[T]) -> list[R]:
    """The function of each value; it says which one was refused."""
    done: list[R] = []
    try:
        done.extend(map(function, values))
    except NotAListing as error:
        raise _Odd(len(done), error) from None
    return done


def _references(batch: Batch) -> Iterable[str]:
    if len(batch.names) == 1:
        ((column, values),) = batch.names.items()
        plain = _VISIBLE if column in ("uri", "url") else _UNRESERVED
        if _all_text(values, MAX_URI) and _made_of(values, plain):
            return values
    return _each(_reference_of, _merged(batch.names, len(batch.places)))


def _reference_of(name: tuple[str, str]) -> str:
    if not name[1]:
        raise NotAListing(f"it names no object: call its name {', '.join(NAMES)}")
    return reference(*name)


def _versions(batch: Batch) -> tuple[Iterable[str], Iterable[str]]:
    if not batch.versions:
        return repeat(""), repeat("")
    if len(batch.versions) == 1:
        ((column, values),) = batch.versions.items()
        if _all_text(values, MAX_VERSION) and _made_of(values, _LETTERS):
            hexadecimal = column in ("sha256", "md5")
            return repeat(column), map(str.lower, values) if hexadecimal else values
    both = _each(_version_of, _merged(batch.versions, len(batch.places)))
    return [kind for kind, _ in both], [text for _, text in both]


def _version_of(told: tuple[str, str]) -> tuple[str, str]:
    return version(*told) if told[1] else ("", "")


def _merged(columns: Mapping[str, Sequence[str | None]], length: int) -> Iterator[tuple[str, str]]:
    """For each row the first column that says something, and what."""
    for n in range(length):
        for name, values in columns.items():
            if value := values[n]:
                yield name, value
                break
        else:
            yield "", ""


def _sizes(values: Sequence[str | int | None]) -> Iterable[int | None]:
    if not values:
        return repeat(None)
    if set(map(type, values)) == {int}:
        given = cast("Sequence[int]", values)
        if min(given) >= 0 and max(given) <= MAX_SIZE:
            return given
    elif _all_text(values, _DIGITS) and _made_of(values, b"0123456789"):
        return map(int, values)
    return _each(lambda value: None if value in (None, "") else size(value), values)


def _times(values: Sequence[str | None]) -> Iterable[datetime | None]:
    if not values:
        return repeat(None)
    try:
        times = list(map(datetime.fromisoformat, cast("Sequence[str]", values)))
        if None not in [at.tzinfo for at in times]:
            return times
    except (TypeError, ValueError):
        pass  # which one it is, we see when we look at each
    return _each(lambda value: modified(value) if value else None, values)


def _all_text(values: Sequence[object], most: int) -> TypeGuard[Sequence[str]]:
    """Is each a text of 1 … `most` characters?"""
    if set(map(type, values)) != {str}:
        return False
    given = cast("Sequence[str]", values)
    return all(given) and max(map(len, given)) <= most


def _made_of(values: Sequence[str], characters: bytes) -> bool:
    joined = "".join(values)
    return joined.isascii() and not joined.encode().translate(None, characters)
