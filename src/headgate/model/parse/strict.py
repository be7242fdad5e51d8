"""JSON as it is meant to be, checked without paying for it.

Readers of JSON disagree on duplicate names, NaN, 1e400, large integers and half surrogates; what
they disagree on is refused here, each with its own reason and the way to it. Two ways of reading:

    quick     orjson reads, orjson writes what it read, and the bytes are the same, but for spaces.
              Then no name was there twice and no number was bent: the copy would lack it.
    careful   everything else: Python's own reader, with hooks that mark what is wrong.

The quick way costs a third of what reading costs, and most machines write as orjson does. Whatever
it accepts, the careful way accepts with the same value; a property test holds the two together.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

import orjson

from .result import Path, Reason

DEPTH = 64  # containers within one another
BOM = b"\xef\xbb\xbf"
_BLANK = " \t\n\r"
_BRACKETS = bytes.maketrans(b"[]", b"{}")
_NO_BRACKETS = bytes(set(range(256)) - set(b'[]{}"'))


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a document that cannot be believed, and the way to it."""

    reason: Reason
    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """A value, and what is wrong with parts of it. Parts without a problem can be used.

    When the bytes are no JSON at all, `is_json` is false and there is no value.
    """

    value: Any
    problems: tuple[Problem, ...] = ()
    is_json: bool = True


def load(raw: bytes, limit_bytes: int) -> Document:
    """Read a document. Never raises."""
    if len(raw) > limit_bytes:
        size = f"{len(raw):,} bytes; at most {limit_bytes:,} are read"
        return _broken("too_large", size)
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return careful(raw)
    escapes = b"\\" in raw
    if (
        not (escapes and b"\\u0000" in raw)
        and _is_copy(orjson.dumps(value), raw)
        and _is_shallow(raw, escapes)
    ):
        return Document(value)
    return careful(raw)


def _is_copy(written: bytes, raw: bytes) -> bool:
    """Are they the same without any spaces?

    Leaving out spaces, between texts or within them, moves no bracket, comma or colon. So both have
    the same members and the same numbers.
    """
    return written == raw or written.replace(b" ", b"") == raw.translate(None, b" \t\n\r")


def _is_shallow(raw: bytes, escapes: bool) -> bool:
    """Is the nesting surely within `DEPTH`? Only its brackets are looked at."""
    if raw.count(b"{") + raw.count(b"[") <= DEPTH:
        return True
    if escapes:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    # A text without brackets leaves two quotes side by side. If one quote is left over, a bracket
    # stands inside a text, and brackets alone say nothing.
    nest = raw.translate(_BRACKETS, _NO_BRACKETS).replace(b'""', b"")
    if b'"' in nest:
        return False
    for _ in range(DEPTH):
        nest = nest.replace(b"{}", b"")  # one level less
        if not nest:
            return True
    return False


def careful(raw: bytes) -> Document:
    """Read a document with nothing taken for granted. Never raises."""
    if raw.startswith(BOM):
        return _broken("bom", "it begins with a byte order mark")
    try:
        text = raw.decode()
        broken_bytes = False
    except UnicodeDecodeError:
        # Bytes that are no UTF-8 become half surrogates, so that the text they are in is found.
        text = raw.decode(errors="surrogateescape")
        broken_bytes = True
    begin = len(text) - len(text.lstrip(_BLANK))
    if begin == len(text):
        return _broken("empty", "there is nothing in it")
    # A raw NUL is no JSON either; it is let through to learn where it is.
    holds_nul = "\0" in text
    try:
        value, end = (_LENIENT if holds_nul else _STRICT).raw_decode(text, begin)
    except RecursionError:
        return _broken("too_deep", f"nested more than {DEPTH} levels deep")
    except json.JSONDecodeError as error:
        if broken_bytes:
            return _broken("invalid_utf8", "it is no UTF-8")
        if holds_nul:
            return _broken("nul", "there is a NUL in it")
        return _broken("not_json", f"{error.msg} at line {error.lineno} column {error.colno}")
    if text[end:].strip(_BLANK):
        return _broken("trailing_data", f"something follows the document at character {end}")
    problems = tuple(_problems(value, broken_bytes))
    if holds_nul:
        nul = next((p for p in problems if p.reason == "nul"), None)
        return Document(None, (nul or Problem("nul", (), "there is a NUL in it"),), is_json=False)
    return Document(value, problems)


def _broken(reason: Reason, text: str) -> Document:
    return Document(None, (Problem(reason, (), text),), is_json=False)


class _Wrong:
    """Stands where a number was that cannot be believed."""

    __slots__ = ("reason", "text")

    def __init__(self, reason: Reason, text: str) -> None:
        self.reason: Reason = reason
        self.text = text


class _Doubled(dict[str, Any]):
    """An object in which a name stood twice. The last one is kept, as by most readers."""

    name: str


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    seen: set[str] = set()
    doubled = _Doubled(pairs)
    doubled.name = next(n for n, _ in pairs if n in seen or seen.add(n))
    return doubled


def _integer(digits: str) -> int | _Wrong:
    if len(digits) <= 20 and -(2**63) <= (number := int(digits)) < 2**64:
        return number
    shown = digits if len(digits) <= 40 else f"{digits[:20]}… ({len(digits)} characters)"
    return _Wrong("integer_too_large", f"{shown} does not fit into 64 bits")


def _fraction(digits: str) -> float | _Wrong:
    number = float(digits)
    if number - number == 0:
        return number
    return _Wrong("float_too_large", f"{digits[:40]} is beyond what a double can hold")


def _constant(name: str) -> _Wrong:
    return _Wrong("not_a_number", f"{name} is no JSON")


_STRICT, _LENIENT = (
    json.JSONDecoder(
        object_pairs_hook=_members,
        parse_int=_integer,
        parse_float=_fraction,
        parse_constant=_constant,
        strict=strict,
    )
    for strict in (True, False)
)


def _problems(value: Any, broken_bytes: bool) -> list[Problem]:
    """Everything that is wrong, in the document's order."""
    found: list[Problem] = []
    todo: list[tuple[Path, Any]] = [((), value)]
    while todo:
        path, value = todo.pop()
        match value:
            case str():
                _check_text(value, path, "", broken_bytes, found)
            case _Wrong():
                found.append(Problem(value.reason, path, value.text))
            case dict() | list() if len(path) >= DEPTH:
                found.append(Problem("too_deep", path, f"nested more than {DEPTH} levels deep"))
            case dict():
                members = cast("dict[str, Any]", value)
                if isinstance(members, _Doubled):
                    twice = (*path, members.name)
                    found.append(Problem("duplicate_key", twice, "the name is there twice"))
                for name in members:
                    _check_text(name, path, "a name with ", broken_bytes, found)
                todo += [((*path, name), members[name]) for name in reversed(members)]
            case list():
                items = cast("list[Any]", value)
                todo += [((*path, n), items[n]) for n in range(len(items) - 1, -1, -1)]
            case _:
                pass
    return found


def _check_text(text: str, path: Path, what: str, broken_bytes: bool, found: list[Problem]) -> None:
    if "\0" in text:
        found.append(Problem("nul", path, f"{what}a NUL"))
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            if broken_bytes and "\udc80" <= text[error.start] <= "\udcff":
                found.append(Problem("invalid_utf8", path, f"{what}bytes that are no UTF-8"))
            else:
                found.append(Problem("lone_surrogate", path, f"{what}half a surrogate pair"))
