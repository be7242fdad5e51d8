"""`/login` and `/logout`: a session of the console, opened with a ticket or a token.

`headgate console` prints a link with a ticket that is good once. The link only shows a page: a
browser that looks at links ahead of its user must not use the ticket up. Whoever has a token may
paste it; the session then ends with the token.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from headgate.ledger import token as tokens
from headgate.model.role import Principal
from headgate.telemetry.log import get_logger

from . import cookie, names
from .access import REFUSALS, is_browser, needs, opened
from .console.page import path_of, render
from .doors import Serving, ledger
from .guard import FORM, FORM_BYTES
from .limits import read_body
from .problem import Refusal, documented

router = APIRouter()
log = get_logger("headgate.serve")

_SIGN_IN = opened("whoever wants to sign in is not known yet", any_name=False)
_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            FORM: {
                "schema": {
                    "type": "object",
                    "properties": {
                        "token": {"type": "string", "description": "A token, or a ticket."},
                        "next": {"type": "string", "description": "Where to go then."},
                    },
                    "required": ["token"],
                }
            }
        },
    }
}


@router.get(
    "/login",
    summary="The page to sign in",
    response_class=HTMLResponse,
    dependencies=[Depends(_SIGN_IN)],
    responses=documented("host_unknown", "bad_request"),
)
async def login(
    request: Request,
    next: Annotated[str, Query(description="Where to go then: a path.")] = "/",
    ticket: Annotated[str, Query(description="As `headgate console` prints it.")] = "",
) -> Response:
    """A form that takes a token. With a ticket, one button."""
    return page(request, next=path_of(next), ticket=ticket)


@router.post(
    "/login",
    summary="Sign in",
    status_code=303,
    dependencies=[Depends(_SIGN_IN)],
    openapi_extra=_FORM,
    responses={
        303: {"description": "Signed in: a cookie holds the session"},
        **documented(
            "token_needed", "form_refused", "host_unknown", "bad_request", "body_too_large",
            "body_too_slow", "too_many_requests", "ledger_unavailable",
        ),
    },
)  # fmt: skip
async def sign_in(request: Request) -> Response:
    """Open a session with a ticket or a token, and go where the page wanted to."""
    serving: Serving = request.app.state.serving
    serving.strangers.take(request.client.host if request.client else "")
    if not names.is_same_origin(request):
        raise Refusal("form_refused", "it was sent by a page of another origin")
    said = parse_qs((await read_body(request, FORM_BYTES)).decode("latin-1"))
    token = (said.get("token") or [""])[0].strip()
    where = path_of((said.get("next") or ["/"])[0])
    async with ledger():
        opening = await tokens.sign_in(serving.db, token)
    if opening is None:
        log.warning("sign-in refused")
        refusal = Refusal("token_needed", "this token is unknown, used, revoked, or has ended")
        if not is_browser(request):
            raise refusal
        return page(request, next=where, said=f"{refusal.detail}.", status=401)
    session, by = opening
    log.info("signed in", name=by.name, role=by.role)
    response = RedirectResponse(where, 303)
    cookie.give(serving, response, session)
    return response


@router.post(
    "/logout",
    summary="Sign out",
    status_code=303,
    responses={
        303: {"description": "Signed out: the session has ended"},
        **documented(*REFUSALS, "form_refused", "body_too_large", "body_too_slow"),
    },
)
async def sign_out(
    request: Request, by: Annotated[Principal, Depends(needs("scraper"))]
) -> Response:
    """End this session, here and in the ledger."""
    serving: Serving = request.app.state.serving
    if by.how == "session":
        async with ledger():
            await tokens.revoke(serving.db, by.id, actor=by.name)
    response = RedirectResponse("/login", 303)
    cookie.take_back(serving, response)
    return response


def page(
    request: Request, *, next: str = "/", ticket: str = "", said: str = "", status: int = 200
) -> HTMLResponse:
    """The page to sign in."""
    return render(
        request, "login.html", "Sign in", status=status, next=next, ticket=ticket, said=said
    )
