"""All pages of the console, and the files they need."""

from __future__ import annotations

from typing import get_args

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from headgate.server.access import opened
from headgate.server.problem import Refusal

from . import (
    actions,
    activity,
    change,
    changes,
    datasets,
    entry,
    now,
    pipelines,
    quarantine,
    redrives,
    replays,
)
from .page import THEME_COOKIE, Theme, path_of, statics

YEAR_SECONDS = 31_536_000

frame = APIRouter(include_in_schema=False)
ROUTERS = (
    frame,
    *(
        page.router
        for page in (
            now,
            changes,
            change,
            entry,
            quarantine,
            redrives,
            replays,
            pipelines,
            datasets,
            activity,
            actions,
        )
    ),
)

_FILES = opened("files of ours, the same for everybody")
_LOOKS = opened("which theme somebody likes is their own business")


@frame.get("/console/static/{name}", dependencies=[Depends(_FILES)])
async def static(request: Request, name: str) -> Response:
    """A style sheet, the script or a picture. Its address changes with its bytes."""
    file = statics().get(name)
    if file is None:
        raise Refusal("not_found")
    known = request.query_params.get("v") == file.digest
    headers = {
        "ETag": f'"{file.digest}"',
        "Cache-Control": f"public, max-age={YEAR_SECONDS}, immutable" if known else "no-cache",
        "X-Content-Type-Options": "nosniff",
    }
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(file.body, media_type=file.media_type, headers=headers)


@frame.get("/console/theme/{name}", dependencies=[Depends(_LOOKS)])
async def choose_theme(request: Request, name: str, next: str = "/") -> Response:
    """Remember a theme, and go back. A link does, so it needs no script."""
    if name not in get_args(Theme):
        raise Refusal("not_found")
    answer = RedirectResponse(path_of(next), 303)
    answer.set_cookie(THEME_COOKIE, name, max_age=YEAR_SECONDS, samesite="lax", httponly=True)
    return answer
