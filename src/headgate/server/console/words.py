"""How times, sizes and counts are said: the filters of the templates."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

from headgate.model.mask import mask_uri, printable

_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_BYTES = ("B", "KB", "MB", "GB", "TB")


def span(seconds: float | None) -> str:
    """`340 ms`, `12 s`, `5 min`, `3 h 20 min`, `2 d 4 h`."""
    if seconds is None:
        return "–"
    if seconds < 0:
        return f"-{span(-seconds)}"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for (size, unit), (below, smaller) in pairwise(_UNITS):
        if seconds >= size:
            whole, rest = divmod(int(seconds), int(size))
            more = int(rest // below)
            return f"{whole} {unit} {more} {smaller}" if whole < 10 and more else f"{whole} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 and seconds % 1 >= 0.05 else f"{seconds:.0f} s"


def ago(at: datetime | None, now: datetime) -> str:
    """`12 s ago`, `in 5 min`, `never`."""
    if at is None:
        return "never"
    seconds = int((now - at).total_seconds())
    if seconds == 0:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"


def moment(at: datetime | None) -> str:
    """`2026-01-31 14:05:09 UTC`."""
    return "never" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def clock(at: datetime | None) -> str:
    """`14:05:09`."""
    return "–" if at is None else f"{at.astimezone(UTC):%H:%M:%S}"


def iso(at: datetime) -> str:
    """For the attribute of a `time` element."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def count(number: float | None) -> str:
    """`1,234,567`."""
    return "–" if number is None else f"{number:,.0f}"


def brief(number: float | None) -> str:
    """`980`, `12.4k`, `3.1M`: where there is no room for all of it."""
    if number is None:
        return "–"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(number) >= size:
            return f"{number / (1e3 if unit == 'k' else size):.1f}{unit}"
    return f"{number:,.0f}"


def rate(per_second: float) -> str:
    """`12/s`, `3.4/min`, `none`: in the unit in which it is a number one can see."""
    if per_second >= 1:
        return f"{per_second:,.1f}/s" if per_second < 10 else f"{per_second:,.0f}/s"
    if per_second * 60 >= 0.1:
        return f"{per_second * 60:.1f}/min"
    return "none"


def many(number: int, one: str, more: str = "") -> str:
    """`1 entry`, `2 entries`."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def share(value: float | None) -> str:
    """`0.4 %`, `12 %`."""
    if value is None:
        return "–"
    percent = value * 100
    digits = 0 if percent >= 10 or percent == 0 else 1 if percent >= 0.1 else 2
    return f"{percent:.{digits}f} %"


def size(octets: int | None) -> str:
    """`12 B`, `3.4 MB`."""
    if octets is None:
        return "–"
    amount, unit = float(octets), _BYTES[0]
    for unit in _BYTES:
        if amount < 1000 or unit == _BYTES[-1]:
            break
        amount /= 1000
    return f"{octets} B" if unit == "B" else f"{amount:.1f} {unit}"


def short(digest: str | None, length: int = 12) -> str:
    """The beginning of a digest or a key."""
    return "–" if digest is None else digest.removeprefix("sha256:")[:length]


def sentence(text: str) -> str:
    """As a sentence of a page begins and ends."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?", "…")) else ".")


def masked(uri: str) -> str:
    """A uri without passwords and signatures."""
    return mask_uri(uri)


def name_of(uri: str) -> str:
    """The last part of a uri: what people call it."""
    return printable(unquote(uri.rstrip("/").rpartition("/")[2] or uri))


def folder_of(uri: str) -> str:
    """What comes before its name."""
    before, slash, _ = uri.rstrip("/").rpartition("/")
    return before + slash


_SAID = (
    span, ago, moment, clock, iso, count, brief, rate, many, share, size, short, sentence, masked,
    name_of, folder_of,
)  # fmt: skip
FILTERS: dict[str, Callable[..., Any]] = {f.__name__: f for f in _SAID}
