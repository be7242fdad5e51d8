"""A window on a stream of JSON: so much of it at a time that memory stays small.

What is taken out of it is exactly one value, or as many whole ones as fit. Whatever ends before it
is complete is an error, since a half-written document must not pass for a short one.
"""

from __future__ import annotations

import io
import json
import re
from typing import Any, BinaryIO, NoReturn

from headgate.model.listing import NotAListing

CHUNK_BYTES = 1 << 20
MAX_VALUE_BYTES = 16 << 20
_space = re.compile(rb"[ \t\r\n]*").match


class Window:
    """The bytes that were read and not taken yet. `where` says at what, for whoever mends it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._ended = False
        self.held = b""
        self.where = "the beginning"

    @property
    def ended(self) -> bool:
        """Is everything that is left in `held`?"""
        return self._ended

    def fill(self, least: int | None = None) -> None:
        """Read until so much is held (a chunk), or nothing is left."""
        least = CHUNK_BYTES if least is None else least
        parts, size = [self.held], len(self.held)
        while size < least and not self._ended:
            part = self._stream.read(CHUNK_BYTES)
            self._ended = not part
            parts.append(part)
            size += len(part)
        self.held = b"".join(parts)

    def skip(self, count: int) -> None:
        self.held = self.held[count:]

    def peek(self) -> bytes:
        """The next byte that is no white space; nothing at the end."""
        while True:
            self.fill(1)
            found = _space(self.held)
            self.skip(found.end() if found else 0)
            if self.held or self._ended:
                return self.held[:1]

    def expect(self, mark: bytes) -> None:
        """Take this one byte."""
        if (found := self.peek()) != mark:
            if not found:
                raise NotAListing(f"it ends at {self.where}: is it all there?")
            raise NotAListing(f"at {self.where}: {mark.decode()!r} is expected")
        self.skip(1)

    def value(self) -> Any:
        """Take one value, whatever it is."""
        while True:
            self.peek()
            values, taken, failed = self._decode(most=1)
            if values:
                self._take(taken)
                return values[0]
            self._grow(failed)

    def items(self, number: int) -> tuple[list[Any], bool]:
        """Take items with commas between them, as many as are held; is a comma taken last?"""
        while True:
            self.peek()
            self.where = f"item {number:,}"
            values, taken, failed = self._decode(number=number)
            if values:
                comma = self._take(taken).rstrip()[-1:] == ","
                return values, comma
            self._grow(failed)

    def _decode(
        self, *, most: int | None = None, number: int | None = None
    ) -> tuple[list[Any], int, json.JSONDecodeError | None]:
        # Half a character at the end of the window is kept as it is, and read again later.
        text = self.held.decode("utf-8", "surrogateescape")
        values: list[Any] = []
        taken = 0
        while most is None or len(values) < most:
            if number is not None:
                self.where = f"item {number + len(values):,}"
            try:
                value, end = _DECODER.raw_decode(text, taken)
            except json.JSONDecodeError as error:
                return values, taken, error
            except (NotAListing, RecursionError) as error:
                why = error if isinstance(error, NotAListing) else "it is nested too deeply"
                raise NotAListing(f"{self.where}: {why}") from None
            if end == len(text) and not self._ended:
                break  # it may go on
            values.append(value)
            taken = _blank(text, end)
            if text[taken : taken + 1] != "," or most is not None:
                break
            taken = _blank(text, taken + 1)
        return values, taken, None

    def _take(self, count: int) -> str:
        text = self.held.decode("utf-8", "surrogateescape")[:count]
        self.skip(len(text.encode("utf-8", "surrogateescape")))
        return text

    def _grow(self, failed: json.JSONDecodeError | None) -> None:
        if not self._ended and len(self.held) <= MAX_VALUE_BYTES:
            self.fill(len(self.held) + CHUNK_BYTES)
            return
        left = len(self.held.decode("utf-8", "surrogateescape").rstrip())
        if failed is None or failed.pos >= left or "Unterminated" in failed.msg:
            raise NotAListing(f"it ends in the middle of {self.where}: is it all there?")
        raise NotAListing(f"{self.where} is no JSON: {failed.msg}")


def _blank(text: str, at: int) -> int:
    while text[at : at + 1] in _BLANKS:
        at += 1
    return at


_BLANKS = frozenset(" \t\r\n")


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise NotAListing(f"the name {twice!r} is there twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise NotAListing(f"{name} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_no_repeats, parse_constant=_no_constant)


def parse(text: bytes, where: str) -> Any:
    """The one value that is written here."""
    window = Window(io.BytesIO(text))
    window.where = where
    value = window.value()
    if window.peek():
        raise NotAListing(f"{where}: there is more behind its end")
    return value
