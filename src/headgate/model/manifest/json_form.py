"""A manifest as JSON: a list of objects, a document with one under `files`, or an object a line.

Whole batches of items are decoded at once where they are plain. Anything odd in a batch (an error,
a name given twice) sends it the slow way, item by item, which finds out what is wrong and where.

That the batch was cut between two items needs no proof of its own: decoding starts at an item, so
it ends well only where an item ends.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from headgate.model.listing import NotAListing, Row

from .columns import KNOWN, MODIFIED, NAMES, SIZE, VERSIONS, Batch, Wanted, rows
from .window import Window, parse

Text = str | UnsetType | None
Number = int | str | UnsetType | None
Columns = dict[str, list[Any]]


class Given(msgspec.Struct, gc=False):
    """An item as it is written. What is not asked for is skipped, not kept."""

    uri: Text = UNSET
    url: Text = UNSET
    path: Text = UNSET
    key: Text = UNSET
    version: Number = UNSET
    sha256: Text = UNSET
    checksum: Text = UNSET
    etag: Text = UNSET
    md5: Text = UNSET
    size: Number = UNSET
    last_modified: Text = UNSET


_BROKEN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_decode_list = msgspec.json.Decoder(list[Given]).decode
_decode_lines = msgspec.json.Decoder(Given).decode_lines
# A letter that is written as an escape can hide a name that is given twice.
_escaped_letter = re.compile(rb"\\u00[4-7]").search


def read_list(window: Window, wanted: Wanted) -> Iterator[list[Row]]:
    """The items of a list; the window stands before its bracket."""
    window.expect(b"[")
    number = 1
    if window.peek() == b"]":
        window.skip(1)
        return
    while True:
        window.where, comma = f"item {number:,}", True
        taken = _batch(window)
        if taken is None:
            values, comma = window.items(number)
            given = [_given(value, f"item {number + n:,}") for n, value in enumerate(values)]
            taken = len(given), _columns(given)
        count, columns = taken
        if wanted(number, number + count - 1):
            yield _rows(columns, range(number, number + count), "item")
        number += count
        window.where = f"item {number:,}"
        if not comma:
            if window.peek() == b"]":
                window.skip(1)
                return
            window.expect(b",")


def _batch(window: Window) -> tuple[int, Columns] | None:
    """Take as many items as are held, and the comma behind them; None when they are not plain."""
    window.fill()
    end = window.held.rfind(b"},")
    if end < 0:
        return None
    chunk = window.held[: end + 1]
    try:
        given = _decode_list(b"[%b]" % chunk)
    except _BROKEN:
        return None
    columns = _columns(given)
    if _has_repeats(chunk, columns):
        return None
    window.skip(end + 2)
    return len(given), columns


def _has_repeats(chunk: bytes, columns: Columns) -> bool:
    """May a name be given twice in one item? The decoder would keep the last one and not say."""
    return bool(_escaped_letter(chunk)) or any(
        chunk.count(b'"%b"' % name.encode()) != len(values) - values.count(UNSET)
        for name, values in columns.items()
    )


def read_document(window: Window, wanted: Wanted) -> Iterator[list[Row]]:
    """The items under `files`. The rest of the document must be whole, and is not looked at."""
    window.expect(b"{")
    found = False
    while True:
        window.where = "a name"
        name = window.value()
        window.expect(b":")
        if name == "files":
            if found:
                raise NotAListing("the name 'files' is there twice")
            found = True
            yield from read_list(window, wanted)
        else:
            window.where = f"the value of {str(name)[:40]!r}"
            window.value()
        if window.peek() == b"}":
            window.skip(1)
            return
        window.where = "the end of a value"
        window.expect(b",")


def is_document(begin: bytes) -> bool:
    """Is there a list under `files` in the first object?"""
    window = Window(io.BytesIO(begin))
    try:
        window.expect(b"{")
        while window.peek() == b'"':
            name = window.value()
            window.expect(b":")
            if name == "files":
                return window.peek() == b"["
            window.value()
            window.expect(b",")
    except NotAListing:
        return False
    return False


def read_lines(window: Window, wanted: Wanted) -> Iterator[list[Row]]:
    """An object on each line. Empty lines are skipped."""
    line = 1
    while True:
        window.fill()
        end = len(window.held) if window.ended else window.held.rfind(b"\n") + 1
        if not end:
            if window.ended:
                return
            raise NotAListing(f"line {line:,} is longer than {len(window.held):,} bytes")
        chunk = window.held[:end]
        window.skip(end)
        breaks = chunk.count(b"\n")
        if wanted(line, line + breaks):
            yield from _rows_of_lines(chunk, line)
        line += breaks


def _rows_of_lines(chunk: bytes, line: int) -> Iterator[list[Row]]:
    lines = chunk.count(b"\n") + (not chunk.endswith(b"\n"))
    try:
        given = _decode_lines(chunk)
        columns = _columns(given)
        if len(given) == lines and not _has_repeats(chunk, columns):
            yield _rows(columns, range(line, line + lines), "line")
            return
    except _BROKEN:
        pass
    for n, text in enumerate(chunk.split(b"\n"), line):
        if text.strip():
            where = f"line {n:,}"
            yield _rows(_columns([_given(parse(text, where), where)]), [n], "line")


def _given(value: Any, where: str) -> Given:
    try:
        return msgspec.convert(value, Given)
    except msgspec.ValidationError as error:
        raise NotAListing(f"{where}: {str(error).lower()}") from None


def _columns(given: Sequence[Given]) -> Columns:
    """The values of each column that any item has."""
    columns = {name: list(map(get, given)) for name, get in _GETTERS.items()}
    return {name: values for name, values in columns.items() if values.count(UNSET) < len(values)}


def _rows(columns: Columns, places: Sequence[int], unit: str) -> list[Row]:
    plain = {name: _known(name, values) for name, values in columns.items()}
    return rows(
        Batch(
            {name: plain[name] for name in NAMES if name in plain},
            {name: plain[name] for name in VERSIONS if name in plain},
            plain.get(SIZE, ()),
            plain.get(MODIFIED, ()),
            places,
        ),
        unit,
    )


def _known(name: str, values: list[Any]) -> list[Any]:
    if name == "version":  # some stores number them
        values = [str(value) if isinstance(value, int) else value for value in values]
    return [None if value is UNSET else value for value in values] if UNSET in values else values


_GETTERS = {name: attrgetter(name) for name in sorted(KNOWN)}
