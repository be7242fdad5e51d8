"""From plain JSON to typed values; what does not fit becomes a reason and the way to the field."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from datetime import datetime
from typing import Annotated, Any, TypeVar, cast

import msgspec
import orjson
from msgspec import Meta

from .result import Bad, Path, Reason

T = TypeVar("T")

Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Time = Annotated[datetime, Meta(tz=True)]

LONGEST_URI = 2000  # as in `Envelope.uri`

_SAID = re.compile(r"(?P<text>.*?)(?: - at `(?P<key>key in )?\$(?P<path>.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_NAMED = re.compile(r"(?:missing required|unknown) field `(.*)`")
# The first that is in msgspec's message. Its order matters.
_REASONS: tuple[tuple[str, Reason], ...] = (
    ("missing required field", "missing_field"),
    ("unknown field", "unknown_field"),
    ("RFC3339", "bad_time"),
    ("timezone", "bad_time"),
    ("base64", "bad_base64"),
    ("of length >= ", "missing_field"),
    ("of length <= ", "too_long"),
    ("`int` >= ", "out_of_range"),
    ("`int` <= ", "out_of_range"),
    ("Invalid enum value", "out_of_range"),
    ("surrogate", "lone_surrogate"),
)


def shaped(value: Any, kind: type[T], path: Path = ()) -> T:
    """The value as this type. Raises `Bad`, which names the field."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise bad(error, path) from None


def bad(error: msgspec.ValidationError, path: Path) -> Bad:
    """What msgspec says about a value below `path`."""
    said = _SAID.fullmatch(str(error))
    text, told = (said["text"], said["path"] or "") if said else (str(error), "")
    steps = tuple(int(n) if n else name for name, n in _STEP.findall(told))
    if named := _NAMED.search(text):
        steps = (*steps, named[1])
    return Bad(_reason(text, steps), (*path, *steps), text)


def _reason(text: str, steps: Path) -> Reason:
    for mark, reason in _REASONS:
        if mark in text:
            return "uri_too_long" if reason == "too_long" and steps[-1:] == ("uri",) else reason
    return "wrong_type"


def instant(value: Any, path: Path) -> datetime:
    """A time with its zone, as RFC 3339 writes it."""
    return timely(shaped(value, cast("type[datetime]", Time), path), path)


def timely(time: datetime, path: Path) -> datetime:
    """The time, which must be one in every time zone."""
    if 1 < time.year < 9999:
        return time
    raise Bad("bad_time", path, "the first and the last year of the calendar are none")


def fitting(uri: str, path: Path) -> str:
    """The uri, which must be one that the ledger can look up."""
    if len(uri) > LONGEST_URI:
        raise Bad("uri_too_long", path, f"as a uri it has {len(uri):,} characters")
    return uri


def unbase64(text: str, path: Path) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Bad("bad_base64", path, "it is not base64") from None


def fingerprinted(record: Any) -> str:
    """An id for an event whose sender gave it none: the same record has the same."""
    written = orjson.dumps(record, option=orjson.OPT_SORT_KEYS)
    return f"sha256:{hashlib.sha256(written).hexdigest()}"
