"""Refusals as pages, for whoever looks with a browser. Programs get the problem document."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from headgate.server.problem import Refusal

from .page import render

# Here only programs ask, whatever they say they accept.
_PROGRAMS = ("/v1/", "/stac", "/hooks/", "/events/", "/console/static/")


def wants_page(request: Request) -> bool:
    """Is there a person who reads the answer?"""
    if request.url.path.startswith(_PROGRAMS) or "authorization" in request.headers:
        return False
    return "text/html" in request.headers.get("accept", "")


def page_of(request: Request, refusal: Refusal) -> Response:
    """The refusal in words, with the way out."""
    return render(
        request,
        "error.html",
        refusal.kind.title,
        status=refusal.kind.status,
        headers=refusal.headers,
        reason=refusal.reason,
        detail=refusal.detail,
        hint=refusal.hint or refusal.kind.hint,
        code=refusal.kind.status,
    )
