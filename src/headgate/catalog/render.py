"""How records are written: one form of JSON, of times and of addresses; bytes can be compared.

Nothing here reads a clock or a machine. The same document gives the same bytes for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import orjson

from headgate.model.mask import mask_uri

_PRETTY = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
_LINE = orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:").match
_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#\[\]]*@)?(?:\[[0-9A-Fa-f:.]+\])?").match
_WORD = re.compile(r"[A-Za-z0-9._~-]*").fullmatch
_PATH = re.compile(r"[A-Za-z0-9._~/-]*").fullmatch
# What no address may hold as it is: a percent sign that encodes nothing, and whatever is odd.
_ODD = re.compile(r"%(?![0-9A-Fa-f]{2})|[^A-Za-z0-9\-._~!$&'()*+,;=:@/?#%]")


# They say something, though they count for nothing. (False is a zero to Python.)
_NUMBERS = (0,)


def dump(document: Mapping[str, Any]) -> bytes:
    """A document as a file has it: sorted, indented, with a last newline."""
    return orjson.dumps(document, option=_PRETTY)


def lines(documents: Iterable[Mapping[str, Any]]) -> bytes:
    """Documents one per line."""
    return b"".join(orjson.dumps(document, option=_LINE) for document in documents)


def compact(value: Any) -> str:
    """A value as one line of JSON, sorted: what a digest of it is made of."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


@lru_cache(4096)
def moment(at: datetime) -> str:
    """A time as RFC 3339 has it, in UTC."""
    return (at if at.tzinfo is UTC else at.astimezone(UTC)).isoformat()[: -len("+00:00")] + "Z"


@lru_cache(1024)
def iri(uri: str) -> str:
    """An address that RDF and browsers take, without secrets, for what a source calls its object.

    What is a proper address already stays as it is.
    """
    shown = mask_uri(uri)
    if not _SCHEME(shown):
        return f"urn:headgate:uri:{quoted(shown, '')}"
    host = _HOST(shown)
    at = host.end() if host else 0
    path, mark, fragment = shown[at:].partition("#")
    return shown[:at] + _plain(path) + mark + _plain(fragment).replace("#", "%23")


def _plain(text: str) -> str:
    return _ODD.sub(lambda odd: quote(odd[0], safe=""), text)


def quoted(text: str, safe: str = "/") -> str:
    """As a part of an address."""
    is_plain = _PATH if safe else _WORD
    return text if is_plain(text) else quote(text, safe=safe)


def said(**fields: Any) -> dict[str, Any]:
    """The fields that have something to say: None and what is empty are left out."""
    return {name: value for name, value in fields.items() if value or value in _NUMBERS}
