"""Who asks, and what every route declares about who may.

A route says its need once, as a dependency; the guard (`guard.py`) reads it there and lets nothing
through before it is met, not even the reading of a body:

    @router.post("/v1/…", dependencies=[Depends(BEARER)])
    async def release(by: Annotated[Principal, Depends(needs("operator"))]): …

`opened(why)` declares a route that needs nobody: doors whose calls are signed, the health of the
process, the page to sign in. A route that declares nothing is refused, and the application does not
start with one.

Somebody is known by a token (`Authorization: Bearer`), ours or one of an OIDC issuer, or by the
cookie of a session. What a browser sends by itself counts for less: a cookie changes nothing
without the form's own token, and only under a name that is ours (`names.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar, cast

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.routing import BaseRoute

from headgate.ledger import token as tokens
from headgate.model.role import ROLES, Principal, Role

from . import cookie, names
from .doors import Serving, ledger
from .problem import Refusal

R = TypeVar("R", bound=BaseRoute)

# For the description of the API; the header is read below, where a second one is refused.
BEARER = HTTPBearer(scheme_name="token", auto_error=False)
# What the guard may answer in place of any route that needs a role.
REFUSALS = (
    "token_needed", "role_needed", "host_unknown", "ledger_unavailable", "keys_unavailable",
)  # fmt: skip
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_NEED = "headgate_need"


class Needs:
    """The need of a route: a role. With `here`, this machine has it without saying who asks."""

    def __init__(self, role: Role, *, here: bool = False) -> None:
        self.role: Role = role
        self.here = here

    async def __call__(self, request: Request) -> Principal:
        principal = principal_of(request)
        self.met_by(principal)
        return principal

    def met_by(self, principal: Principal) -> None:
        """Raises `Refusal` when the role is too low."""
        if not principal.may(self.role):
            raise Refusal(
                "role_needed",
                f"{principal.name!r} has the role {principal.role}; {self.role} is needed",
                role=self.role,
            )


class Opened:
    """The need of a route that anybody may use, and why that is right."""

    def __init__(self, why: str, *, any_name: bool = True) -> None:
        self.why = why
        # May it be called by a name that is not ours? A page that signs somebody in may not.
        self.any_name = any_name

    async def __call__(self) -> None:
        return None


Need = Needs | Opened


def needs(role: Role, *, here: bool = False) -> Needs:
    """A dependency: the `Principal`, who has this role. Refused are all others."""
    return Needs(role, here=here)


def opened(why: str, *, any_name: bool = True) -> Opened:
    """A dependency: anybody may."""
    return Opened(why, any_name=any_name)


def principal_of(request: Request) -> Principal:
    """Whom the guard let in. Nothing gets to a route that needs a role but by the guard."""
    principal: Principal | None = getattr(request.state, "principal", None)
    if principal is None:
        raise Refusal("token_needed")
    return principal


def by_sight(principal: Principal, *pipelines: str) -> None:
    """Raises `Refusal` when they are limited to other pipelines than these."""
    for name in pipelines:
        if not principal.sees(name):
            raise Refusal("pipeline_not_theirs", f"{principal.name!r} is not for {name!r}")


def open_mount(mount: R, why: str) -> R:
    """Declare that anybody may use a mount, such as static files."""
    setattr(mount, _NEED, Opened(why))
    return mount


def need_of(route: BaseRoute) -> Need | None:
    """What a route declares; of several needs the highest. None: nothing."""
    if not isinstance(route, APIRoute):
        return cast("Need | None", getattr(route, _NEED, None))
    found = list(_declared(route.dependant))
    roles = [need for need in found if isinstance(need, Needs)]
    if roles:
        return max(roles, key=lambda need: ROLES.index(need.role))
    return found[0] if found else None


def _declared(dependant: Dependant) -> Iterator[Need]:
    call: Any = dependant.call
    if isinstance(call, Needs | Opened):
        yield call
    for inner in dependant.dependencies:
        yield from _declared(inner)


def undeclared(routes: list[BaseRoute]) -> list[str]:
    """The routes that do not say who may use them. There must be none."""
    return [str(getattr(route, "path", route)) for route in routes if need_of(route) is None]


async def who(request: Request) -> Principal | None:
    """Who asks; None when nobody says. Raises `Refusal` for a token that is not good.

    A cookie is believed as far as it may be: whether it may change something is the guard's
    question (`guard.py`), which is asked before any route runs.
    """
    if (known := getattr(request.state, "principal", None)) is not None:
        return known
    given = request.headers.getlist("authorization")
    if given:
        return await _by_bearer(request, given)
    held = cookie.held(request)
    if held is None or not names.is_ours(request):
        return None
    serving: Serving = request.app.state.serving
    async with ledger():
        return await tokens.holder(serving.db, held, ("session",))


def is_browser(request: Request) -> bool:
    """Is it a person who looks, and no program with a token?"""
    return "text/html" in request.headers.get("accept", "") and (
        "authorization" not in request.headers
    )


async def _by_bearer(request: Request, given: list[str]) -> Principal:
    kind, _, token = (given[0] if len(given) == 1 else "").partition(" ")
    if kind.lower() != "bearer" or not token:
        raise Refusal("token_needed")
    serving: Serving = request.app.state.serving
    if serving.issuer is not None and not token.startswith(tokens.PREFIX):
        return await serving.issuer.principal(token)
    async with ledger():
        holder = await tokens.holder(serving.db, token)
    if holder is None:
        raise Refusal("token_needed", "this token is unknown, revoked, or has ended")
    return holder
