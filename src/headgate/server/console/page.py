"""What every page has, and how it is rendered.

    router = pages()

    @router.get("/quarantine")
    async def quarantine(request: Request) -> Response:
        return render(request, "quarantine.html", "Quarantine", here="quarantine", view=...)

A template extends `base.html`, takes its pieces from `parts.html`, and knows `page`: who is
asking (`page.by`), what they may do (`page.may("operator")`), the theme, the moment it was made.
The headers that guard a page are set by the server's guard, for all pages alike.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any, Literal, cast, get_args
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from headgate.model.role import Principal, Role
from headgate.server import cookie
from headgate.server.access import needs
from headgate.server.problem import Refusal

from . import draw, flash, words

# A path of ours: no scheme, no host, nothing that a browser would read as one.
_PATH = re.compile(r"/(?![/\\])[^\\\x00-\x20\x7f]*")
THEME_COOKIE = "headgate_theme"
Theme = Literal["auto", "light", "dark"]

# A name, where it is, and the key that goes there after `g`.
NAVIGATION = (
    ("now", "Now", "/", "n"),
    ("changes", "Changes", "/changes", "c"),
    ("quarantine", "Quarantine", "/quarantine", "q"),
    ("replays", "Replays", "/replays", "r"),
    ("pipelines", "Pipelines", "/pipelines", "p"),
    ("datasets", "Datasets", "/datasets", "d"),
    ("activity", "Activity", "/activity", "a"),
)


@dataclass(frozen=True, slots=True)
class Page:
    """What a template may ask about the page it is."""

    title: str
    here: str  # the entry of the navigation it belongs to
    path: str  # with its query: where an action comes back to
    theme: Theme
    made_at: datetime
    flash: flash.Flash | None
    live: bool  # is it worth fetching again when something changes?
    csrf: str
    key: str  # a form that is sent twice from this page is done once
    by: Principal | None  # who is asking

    def may(self, role: Role) -> bool:
        """May they do what needs this role?"""
        return self.by is not None and self.by.may(role)


def render(
    request: Request,
    template: str,
    title: str,
    *,
    here: str = "",
    live: bool = False,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **view: Any,
) -> HTMLResponse:
    """A page. What a template is given beside `page` are plain values; it asks nobody."""
    said = flash.heard(request)
    by: Principal | None = getattr(request.state, "principal", None)
    page = Page(
        title=title,
        here=here,
        path=path(request),
        theme=theme(request),
        made_at=datetime.now(UTC),
        flash=said,
        live=live,
        csrf=cookie.form_token(request),
        key=secrets.token_urlsafe(9),
        by=by,
    )
    text = environment().get_template(template).render(page=page, now=page.made_at, **view)
    response = HTMLResponse(text, status, dict(headers or {}))
    if said is not None:
        response.delete_cookie(flash.COOKIE, httponly=True, samesite="strict")
    return response


def pages(role: Role = "viewer") -> APIRouter:
    """A router for pages that need this role. They are no part of the API's description."""
    return APIRouter(include_in_schema=False, dependencies=[Depends(needs(role))])


def asker(request: Request) -> Principal:
    """Who is asking for a page that needs somebody."""
    return request.state.principal


def number_in(request: Request, name: str) -> int | None:
    """A number of the query, such as a cursor; None when there is none. Raises `Refusal`."""
    given = request.query_params.get(name)
    if not given:
        return None
    if not given.isdecimal() or not given.isascii() or len(given) > 18:
        raise Refusal("bad_request", f"{name} is not a number")
    return int(given)


def path(request: Request) -> str:
    """The address of this page on this server."""
    query = request.url.query
    return quote(request.url.path) + (f"?{query}" if query else "")


def path_of(said: str) -> str:
    """Where to go next: a path of ours, whatever was asked for. Nobody is sent elsewhere."""
    return said if _PATH.fullmatch(said) else "/"


def theme(request: Request) -> Theme:
    """Which theme is wanted. A cookie with anything else in it says nothing."""
    given = request.cookies.get(THEME_COOKIE, "auto")
    return cast("Theme", given) if given in get_args(Theme) else "auto"


def with_query(where: str, **said: object) -> str:
    """An address with a query; what is None or empty is left out."""
    kept = {name: str(value) for name, value in said.items() if value not in (None, "")}
    return f"{where}?{urlencode(kept)}" if kept else where


@cache
def environment() -> Environment:
    """Jinja: everything is escaped, and a name that is missing is an error."""
    made = Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    # Jinja's own types say nothing about what is in these.
    filters, known = cast("dict[str, Any]", made.filters), cast("dict[str, Any]", made.globals)
    filters.update(words.FILTERS)
    known.update(
        navigation=NAVIGATION,
        static=static,
        draw=draw,
        with_query=with_query,
        themes=get_args(Theme),
    )
    return made


@dataclass(frozen=True, slots=True)
class Static:
    """A file that pages need."""

    body: bytes
    media_type: str
    digest: str


_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@cache
def statics() -> dict[str, Static]:
    """All of them, by name: there are few, and they are small."""
    found: dict[str, Static] = {}
    for file in resources.files(__package__ or "").joinpath("static").iterdir():
        ending = file.name.rpartition(".")[2]
        if ending in _TYPES:
            body = file.read_bytes()
            digest = hashlib.sha256(body).hexdigest()[:12]
            found[file.name] = Static(body, f"{_TYPES[ending]}; charset=utf-8", digest)
    return found


def static(name: str) -> str:
    """Where a file is. With its digest in the address, a browser may keep it for ever."""
    return f"/console/static/{name}?v={statics()[name].digest}"
