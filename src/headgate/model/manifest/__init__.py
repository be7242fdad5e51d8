"""Manifests: listings that somebody wrote down, as JSON or as CSV (docs/reference/manifest.md).

What is read is a listing or an error. A file that was cut off, is still being written or says two
things about one object is never taken for one that names fewer objects.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO

from headgate.model.listing import NotAListing, Row

from . import csv_form, json_form
from .columns import Wanted
from .window import Window

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The rows, in the order they are written, and what their places count."""

    rows: Iterator[Row]
    unit: str


def read(stream: BinaryIO, places: Sequence[int] | None = None) -> Manifest:
    """Read a manifest, whatever its form. Its rows raise `NotAListing`; memory stays small.

    With `places`, which are sorted, only the rows near them are made; the others are skipped.
    """
    wanted = _wanted(places)
    window = Window(stream)
    window.fill()
    if window.held.startswith(_BOM):
        window.skip(len(_BOM))
    match window.peek():
        case b"":
            raise NotAListing("it is empty: a manifest that names nothing is [] or a line of names")
        case b"[":
            return _manifest(_whole(json_form.read_list(window, wanted), window), "item")
        case b"{" if json_form.is_document(window.held):
            return _manifest(_whole(json_form.read_document(window, wanted), window), "item")
        case b"{":
            return _manifest(json_form.read_lines(window, wanted), "line")
        case _:
            return _manifest(csv_form.read(window.held, stream, wanted), "line")


def _wanted(places: Sequence[int] | None) -> Wanted:
    if places is None:
        return lambda first, last: True
    return lambda first, last: bisect_left(places, first) < bisect_right(places, last)


def _manifest(batches: Iterator[list[Row]], unit: str) -> Manifest:
    return Manifest(chain.from_iterable(batches), unit)


def _whole(batches: Iterator[list[Row]], window: Window) -> Iterator[list[Row]]:
    yield from batches
    if window.peek():
        raise NotAListing("there is more behind its end: is it two documents in one?")
