"""How an answer is sent: its media type, its ETag, and nothing when the caller has it already."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
from fastapi import Request, Response

from .reader import Reader


def document(request: Request, reader: Reader, content: Any, media_type: str) -> Response:
    """A JSON document."""
    return body(request, reader, orjson.dumps(content), media_type)


def body(request: Request, reader: Reader, content: bytes, media_type: str) -> Response:
    """Bytes that were made for this answer."""
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = headers_of(reader, etag)
    if request.method == "GET" and is_known(request, etag):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media_type)


def headers_of(reader: Reader, etag: str) -> dict[str, str]:
    """It may be kept, and asked for again each time; by nobody else if a token was needed."""
    kept = "private, no-cache" if reader.restricted else "no-cache"
    return {
        "ETag": etag,
        "Cache-Control": kept,
        "Vary": "Authorization, Cookie",
        "X-Content-Type-Options": "nosniff",
    }


def is_known(request: Request, etag: str) -> bool:
    """Does the caller have what this ETag stands for?"""
    said = [one.strip() for one in request.headers.get("if-none-match", "").split(",")]
    return "*" in said or etag in said or f"W/{etag}" in said
