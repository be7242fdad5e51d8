"""How an answer is sent: JSON, its ETag, and nothing when the caller has it already."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
from fastapi import Request, Response

from headgate.server.access import REFUSALS
from headgate.server.problem import documented
from headgate.server.stac.answers import is_known

JSON = "application/json"
# It may be kept by who asked, and is asked for again each time.
KEPT = {
    "Cache-Control": "private, no-cache",
    "Vary": "Authorization, Cookie",
    "X-Content-Type-Options": "nosniff",
}


def document(request: Request, content: Any) -> Response:
    """A JSON document. Times are RFC 3339."""
    return body(request, render(content), JSON)


def listed(
    request: Request, named: str, told: list[Any], cursor: object, *, more: bool
) -> Response:
    """A page of a list. The next one is asked for with `after=` its cursor."""
    return document(request, {named: told, "cursor": str(cursor), "more": more})


def body(request: Request, content: bytes, media_type: str) -> Response:
    """Bytes that were made for this answer."""
    headers = {**KEPT, "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"'}
    if is_known(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media_type)


def render(content: Any) -> bytes:
    """JSON of what the ledger's functions answer: dataclasses, times, digests."""
    return orjson.dumps(content, default=_plain, option=orjson.OPT_NON_STR_KEYS)


def _plain(value: object) -> object:
    match value:
        case bytes():
            return value.hex()
        case tuple() | set() | frozenset():
            return list(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _:
            return str(value)


def answers(model: Any, *reasons: str, text: str = "Yes") -> dict[int | str, dict[str, Any]]:
    """What a route may answer: this shape, 304, and these problems beside what all share."""
    return {
        200: {"description": text, "model": model},
        304: {"description": "The caller has it already: `If-None-Match` names its `ETag`."},
        **problems(*reasons),
    }


def problems(*reasons: str) -> dict[int | str, dict[str, Any]]:
    """These problems, and those that every route here may answer."""
    return documented(*REFUSALS, "bad_request", *reasons)
