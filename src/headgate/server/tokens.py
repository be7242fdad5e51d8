"""Who may ask for what is not signed by its sender: a token with the scope, or this machine."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable

from fastapi import Request
from fastapi.security import HTTPBearer

from headgate.ledger import token as tokens

from .doors import Serving, ledger
from .problem import Refusal

# For the description of the API; the header is read below, where a second one is refused.
BEARER = HTTPBearer(scheme_name="token", auto_error=False)
# A proxy on this machine makes everyone look as if they were here.
_BY_PROXY = {"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"}


def allowed(scope: str, *, here: bool = False) -> Callable[[Request], Awaitable[None]]:
    """A dependency: passes with a token of this scope, and from this machine if `here`."""

    async def check(request: Request) -> None:
        await vouched(request, scope, here=here)

    return check


async def vouched(request: Request, scope: str, *, here: bool = False) -> bool:
    """True with a token of this scope; False without one, from this machine if `here`."""
    given = request.headers.getlist("authorization")
    if not given and here and is_here(request):
        return False
    kind, _, token = (given[0] if len(given) == 1 else "").partition(" ")
    if kind.lower() != "bearer" or not token:
        raise Refusal("token_needed")
    serving: Serving = request.app.state.serving
    async with ledger():
        holder = await tokens.holder(serving.db, token)
    if holder is None:
        raise Refusal("token_needed", "this token is unknown, revoked, or has ended")
    if scope not in holder.scopes:
        raise Refusal("token_scope", f"the scope {scope!r} is needed")
    return True


def is_here(request: Request) -> bool:
    """Does the caller sit on this machine, with no proxy in between?"""
    if request.client is None or _BY_PROXY & {name.lower() for name in request.headers}:
        return False
    try:
        return ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
