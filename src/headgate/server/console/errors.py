"""Refusals as pages, for whoever looks with a browser. Programs get the problem document."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from headgate.server.access import is_browser
from headgate.server.problem import Refusal

from .page import render

# Here only programs ask, whatever they say they accept.
_PROGRAMS = ("/v1/", "/stac", "/hooks/", "/events/", "/console/static/")


def answer(request: Request, refusal: Refusal) -> Response:
    """A page for people, a problem document for programs."""
    if request.url.path.startswith(_PROGRAMS) or not is_browser(request):
        return refusal.response()
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
