"""A manifest as CSV: a line of column names, then a line for each object.

Strict, because a cut-off file must not look like a short one: every line has as many fields as the
first, quotes are closed, and the last line ends with a line break.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer

from headgate.model.listing import NotAListing, Row

from .columns import KNOWN, MODIFIED, NAMES, SIZE, VERSIONS, Batch, Wanted, rows

BATCH = 4096
_NOTHING: list[str] = []
_break = re.compile(r"\r\n|\n|\r").findall


def read(begin: bytes, stream: BinaryIO, wanted: Wanted) -> Iterator[list[Row]]:
    """The rows, in batches; `begin` was read already. Raises `NotAListing` with the line."""
    rest = _Rest(begin, stream)
    reader = csv.reader(
        io.TextIOWrapper(io.BufferedReader(rest), encoding="utf-8", newline=""), strict=True
    )
    try:
        header = _header(next(reader, _NOTHING))
        while True:
            line = reader.line_num
            if not (batch := list(islice(reader, BATCH))):
                break
            fields, places = _placed(batch, line + 1, reader.line_num, len(header))
            if fields and wanted(places[0], places[-1]):
                yield rows(_columns(header, list(zip(*fields, strict=True)), places), "line")
    except csv.Error as error:
        raise NotAListing(f"line {reader.line_num:,}: {error}") from None
    except UnicodeDecodeError as error:
        raise NotAListing(f"after line {reader.line_num:,}: {error}") from None
    if rest.last not in b"\r\n":
        raise NotAListing("the last line does not end with a line break: is it all there?")


def _placed(
    batch: list[list[str]], first: int, last: int, width: int
) -> tuple[list[list[str]], Sequence[int]]:
    """The lines that say something, and their numbers."""
    if set(map(len, batch)) == {width} and last - first + 1 == len(batch):
        return batch, range(first, last + 1)
    fields, places = list[list[str]](), list[int]()
    line = first
    for found in batch:
        if found:
            if len(found) != width:
                raise NotAListing(
                    f"line {line:,}: it has {len(found)} fields, and the first line {width}"
                )
            fields.append(found)
            places.append(line)
        line += 1 + sum(len(_break(field)) for field in found)
    return fields, places


def _columns(
    header: Sequence[str], values: Sequence[Sequence[str]], places: Sequence[int]
) -> Batch:
    found = dict(zip(header, values, strict=True))
    return Batch(
        {name: found[name] for name in NAMES if name in found},
        {name: found[name] for name in VERSIONS if name in found},
        found.get(SIZE, ()),
        found.get(MODIFIED, ()),
        places,
    )


def _header(names: Sequence[str]) -> list[str]:
    header = [name.strip() for name in names]
    if not any(name in NAMES for name in header):
        raise NotAListing(
            f"line 1: no column names the objects: call one of them {', '.join(NAMES)}"
        )
    for name in header:
        if name in KNOWN and header.count(name) > 1:
            raise NotAListing(f"line 1: there are two columns called {name}")
    return header


class _Rest(io.RawIOBase):
    """What was read already, and then the stream. It remembers the last byte."""

    def __init__(self, begin: bytes, stream: BinaryIO) -> None:
        self._begin = begin
        self._stream = stream
        self.last = b"\n"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        with memoryview(buffer) as room:
            found = self._begin or self._stream.read(len(room))
            found, self._begin = found[: len(room)], found[len(room) :]
            room[: len(found)] = found
        self.last = found[-1:] or self.last
        return len(found)
