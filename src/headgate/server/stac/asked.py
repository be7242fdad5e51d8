"""What a search asks for: the same from the query of an address and from a JSON body.

Whatever cannot be understood is refused with the name of the parameter. A parameter that is not
known is refused too: an answer to another question than was asked looks like an answer.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, cast

import orjson

from headgate.ledger.search import Box, Place, Question
from headgate.server.problem import Refusal

from .shape import Shape, of_boxes, of_geojson

LIMIT = 10
LIMIT_MOST = 1000
NAMES_MOST = 1000
NAME_CHARACTERS = 500
PARAMETERS = frozenset({"bbox", "collections", "datetime", "ids", "intersects", "limit", "token"})

_MOMENT = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}):(\d{2})(?:\.(\d+))?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_OPEN = ("", "..")


@dataclass(frozen=True, slots=True)
class Asked:
    """A search, and which page of it. `given` is what was said, for the link to the next page."""

    question: Question
    shape: Shape | None
    limit: int
    after: Place | None
    given: Mapping[str, Any]

    def within(self, collection: str) -> Asked:
        """The same in one collection. Clients name it once more."""
        named = self.question.collections
        only = (collection,) if named is None or collection in named else ()
        return replace(self, question=replace(self.question, collections=only))


def by_query(pairs: Iterable[tuple[str, str]]) -> Asked:
    """A search as the query of an address has it."""
    said: dict[str, str] = {}
    for name, value in pairs:
        if name in said:
            _refuse(name, "it is given twice")
        said[name] = value
    read: dict[str, Any] = dict(said)
    for name in ("collections", "ids"):
        if name in said:
            read[name] = said[name].split(",")
    if "bbox" in said:
        read["bbox"] = [_number(text) for text in said["bbox"].split(",")]
    if "limit" in said:
        read["limit"] = int(said["limit"]) if re.fullmatch(r"\d{1,18}", said["limit"]) else None
    if "intersects" in said:
        read["intersects"] = _json(said["intersects"].encode(errors="replace"), "intersects")
    return _asked(read, said)


def by_body(body: bytes) -> Asked:
    """A search as a JSON document. What is null is not asked for."""
    given = _json(body, "body")
    if not isinstance(given, dict):
        _refuse("body", "it is a JSON object")
    said = {k: v for k, v in cast("dict[str, Any]", given).items() if v is not None}
    return _asked(said, said)


def _asked(read: Mapping[str, Any], given: Mapping[str, Any]) -> Asked:
    for name in read:
        if name not in PARAMETERS:
            _refuse(name, f"there is no such parameter; there are {', '.join(sorted(PARAMETERS))}")
    if "bbox" in read and "intersects" in read:
        _refuse("intersects", "a search has a bbox or a geometry, not both")
    since, until = _interval(read["datetime"]) if "datetime" in read else (None, None)
    boxes, shape = None, None
    if "bbox" in read:
        boxes = _boxes(read["bbox"])
        shape = of_boxes(boxes)
    if "intersects" in read:
        shape, boxes = of_geojson(read["intersects"])
    question = Question(_names(read, "collections"), _names(read, "ids"), since, until, boxes)
    after = _after(read["token"]) if "token" in read else None
    return Asked(question, shape, _limit(read.get("limit", LIMIT)), after, given)


def token(place: Place) -> str:
    """Where to go on after this item. It says where, not what may be seen there."""
    return base64.urlsafe_b64encode(orjson.dumps(place)).decode().rstrip("=")


def _after(said: object) -> Place:
    text = said if isinstance(said, str) else ""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        match orjson.loads(raw):
            case [str(collection), str(item)] if "\0" not in collection + item:
                return collection, item
            case _:
                pass
    except (binascii.Error, ValueError):
        pass
    _refuse("token", "it is none of ours; begin again without it")


def _limit(said: object) -> int:
    if isinstance(said, bool) or not isinstance(said, int) or not 1 <= said <= LIMIT_MOST:
        _refuse("limit", f"it is a whole number, 1 to {LIMIT_MOST}")
    return said


def _names(read: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    if name not in read:
        return None
    said = read[name]
    if not isinstance(said, list):
        _refuse(name, "it is a list of names")
    names = cast("list[object]", said)
    if len(names) > NAMES_MOST:
        _refuse(name, f"{NAMES_MOST} at most can be asked for at once")
    good = [n for n in names if isinstance(n, str) and n and _is_storable(n)]
    if len(good) != len(names):
        _refuse(name, "one of them is no name")
    return tuple(sorted(set(good)))


def _is_storable(text: str) -> bool:
    # Postgres has no NUL, and nothing has half a character.
    bad = "\0" in text or any("\ud800" <= c <= "\udfff" for c in text)
    return not bad and len(text) <= NAME_CHARACTERS


def _boxes(said: object) -> tuple[Box, Box]:
    """West, south, east, north; of six numbers the heights are left aside."""
    numbers = cast("list[object]", said) if isinstance(said, list) else []
    if len(numbers) not in (4, 6) or not all(_is_finite(n) for n in numbers):
        _refuse("bbox", "it is 4 or 6 numbers: west, south, east, north")
    given, half = cast("list[float]", numbers), len(numbers) // 2
    west, south, east, north = given[0], given[1], given[half], given[half + 1]
    if half == 3 and given[2] > given[5]:
        _refuse("bbox", "its lowest height is above its highest")
    if south > north:
        _refuse("bbox", "its south is north of its north")
    if not (south >= -90 and north <= 90 and -180 <= min(west, east) <= max(west, east) <= 180):
        _refuse("bbox", "longitudes are -180 to 180 and latitudes -90 to 90")
    if west > east:  # over the antimeridian
        return ((west, south), (east + 360, north)), ((-180.0, south), (east, north))
    return ((west, south), (east, north)), ((west + 360, south), (east + 360, north))


def _is_finite(number: object) -> bool:
    whole = isinstance(number, int | float) and not isinstance(number, bool)
    return whole and math.isfinite(cast("float", number))


def _number(text: str) -> float:
    return float(text) if _NUMBER.fullmatch(text) else math.nan


def _interval(said: object) -> tuple[datetime | None, datetime | None]:
    """A moment, or two with a slash between them, one of which may be open."""
    parts = said.split("/") if isinstance(said, str) else []
    if len(parts) == 1 and parts[0]:
        moment = _moment(parts[0])
        return moment, moment
    if len(parts) != 2 or all(part in _OPEN for part in parts):
        _refuse(
            "datetime", "it is a moment of RFC 3339, or an interval: START/END, ../END, START/.."
        )
    since, until = (None if part in _OPEN else _moment(part) for part in parts)
    if since is not None and until is not None and since > until:
        _refuse("datetime", "the interval ends before it begins")
    return since, until


def _moment(text: str) -> datetime:
    shaped = _MOMENT.fullmatch(text)
    if shaped is None:
        _refuse("datetime", "a moment is written as in 2026-01-31T12:00:00Z")
    day, minute, second, fraction, zone = shaped.groups()
    leap = second == "60"
    try:
        whole = datetime.fromisoformat(
            f"{day}T{minute}:{'59' if leap else second}.{(fraction or '')[:6]:0<6}"
            f"{'+00:00' if zone in 'Zz' else zone}"
        )
        return whole.astimezone(UTC) + timedelta(seconds=leap)
    except (ValueError, OverflowError):
        _refuse("datetime", "there is no such moment")


def _json(text: bytes, name: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        _refuse(name, "it is not JSON")


def _refuse(parameter: str, why: str) -> NoReturn:
    raise Refusal("search_refused", f"{parameter[:100]}: {why}", parameter=parameter[:100])
