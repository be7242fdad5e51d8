"""The guard: stands before every route, and lets nothing through that was not declared and met.

It decides before anything of a request is read. Whoever is not known gets 401, from an address that
leads nowhere as well: what there is is nobody's business. A browser is led to the page to sign in.

What a browser sends by itself, its cookie, counts for looking. To change something, the request
must also bring the token of a form that this session was shown, and come from a page of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qs, quote

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from starlette.datastructures import MutableHeaders
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.model.role import Principal

from . import cookie, names
from .access import SAFE, Need, Needs, Opened, is_browser, need_of, who
from .console import errors
from .limits import read_body
from .problem import Refusal

FORM_BYTES = 1 << 16
FORM = "application/x-www-form-urlencoded"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# For all that a browser shows as a page.
_PAGE = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# With `no-referrer` a browser would not say which origin a form of ours comes from.
_ALL = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}


class Guard:
    """Stands before the application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._needs: dict[int, Need | None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        assert scope["type"] == "http", "no websockets are served"
        scope.setdefault("state", {})
        request = Request(scope, receive)
        answer = _with_headers(send)
        try:
            body = await self._admit(request, self._need(request))
        except Refusal as refusal:
            await _refusal(request, refusal)(scope, receive, answer)
            return
        await self._app(scope, receive if body is None else _again(body, receive), answer)

    def _need(self, request: Request) -> Need | None:
        """What the route declares that will answer; `Needs("scraper")` where there is none."""
        routes: Sequence[BaseRoute] = request.app.router.routes
        close: BaseRoute | None = None
        for route in routes:
            match, _ = route.matches(request.scope)
            if match is Match.FULL:
                return self._declared(route)
            if match is Match.PARTIAL and close is None:
                close = route
        return NOWHERE if close is None else self._declared(close)

    def _declared(self, route: BaseRoute) -> Need | None:
        if id(route) not in self._needs:
            self._needs[id(route)] = need_of(route)
        return self._needs[id(route)]

    async def _admit(self, request: Request, need: Need | None) -> bytes | None:
        """Let the request in, or raise `Refusal`; its body, if it had to be read for that."""
        if need is None:
            raise Refusal("not_found")
        if isinstance(need, Opened):
            if not need.any_name and not names.is_ours(request):
                raise Refusal("host_unknown")
            return None
        by_token = "authorization" in request.headers
        if not by_token and not names.is_ours(request):
            raise Refusal("host_unknown")
        principal = await who(request)
        if principal is None and need.here and names.is_here(request):
            principal = Principal("this machine", need.role, None, "here", "here", None)
        if principal is None:
            raise Refusal("token_needed")
        need.met_by(principal)
        body = None
        if principal.how == "session" and request.method not in SAFE:
            body = await _from_our_form(request)
        request.state.principal = principal
        return body


# An address that leads nowhere is nothing for strangers; who is known may hear that.
NOWHERE = Needs("scraper", here=True)


async def _from_our_form(request: Request) -> bytes | None:
    """Raises `Refusal` unless a form of this session sent it; the body, if it was in there."""
    if not names.is_same_origin(request):
        raise Refusal("form_refused", "it was sent by a page of another origin")
    if (sent := request.headers.get(cookie.HEADER)) is not None:
        body = None
    elif request.headers.get("content-type", "").partition(";")[0].strip() == FORM:
        body = await read_body(request, FORM_BYTES)
        sent = (parse_qs(body.decode("latin-1")).get(cookie.FIELD) or [""])[0]
    else:
        body, sent = None, ""
    if not cookie.is_form_of(request, sent):
        raise Refusal("form_refused")
    return body


def _again(body: bytes, receive: Receive) -> Receive:
    """Hand a body that was read to whoever reads it next."""
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return whole.pop() if whole else await receive()

    return replay


def _refusal(request: Request, refusal: Refusal) -> Response:
    """A problem document; to a browser that shows pages, a page, or the one to sign in."""
    if refusal.reason == "token_needed" and is_browser(request) and request.method == "GET":
        where = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?next={quote(where, safe='')}", 303)
    return errors.answer(request, refusal)


def _with_headers(send: Send) -> Send:
    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            page = headers.get("content-type", "").startswith("text/html")
            for name, value in {**_ALL, **(_PAGE if page else {})}.items():
                headers.setdefault(name, value)
        await send(message)

    return answer
