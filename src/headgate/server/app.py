"""The application: its routes, and how whatever goes wrong is answered."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException

from headgate._version import __version__
from headgate.telemetry.log import get_logger

from . import events, hooks, live, session, tokens
from .access import BEARER, REFUSALS, needs, opened, undeclared
from .actions import routes as actions
from .api import routes as api
from .api.shapes import with_restricted
from .console import routes as console
from .console.errors import answer
from .doors import Serving, ledger
from .feed import Feed
from .guard import Guard
from .live import Live
from .problem import Problem, Refusal, documented
from .stac import routes as stac
from .stac.browsers import Browsers
from .stac.pages import OPENAPI

log = get_logger("headgate.serve")


def make_app(serving: Serving) -> FastAPI:
    """The application over these doors."""
    app = FastAPI(
        title="Headgate",
        version=__version__,
        description="Webhooks and pushes: acknowledged only once they are durable. What happened"
        " and what is, under /v1. And what is published, as a STAC API.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.serving = serving
    app.state.feed = Feed(serving)
    app.state.live = Live(serving, app.state.feed)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(HTTPException, _no_route)
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.add_exception_handler(Exception, _unforeseen)
    _add_looks(app, serving)
    # Flat, so that the guard finds each route where it will be found.
    doors = (hooks.router, events.router, session.router, actions.router, tokens.router)
    for router in (*doors, stac.router, live.router, *api.ROUTERS, *console.ROUTERS):
        app.router.routes.extend(router.routes)
    if silent := undeclared(app.router.routes):
        raise RuntimeError(f"{silent[0]} does not say who may use it: Depends(needs(…))")
    app.add_middleware(Guard)
    app.add_middleware(Browsers, origins=serving.origins)
    return app


def _add_looks(app: FastAPI, serving: Serving) -> None:
    by_token = documented(*REFUSALS)
    text: dict[int | str, dict[str, Any]] = {
        200: {"content": {"text/plain": {}}, "description": "Yes"}
    }

    @app.get(
        "/healthz",
        response_class=PlainTextResponse,
        summary="Is this process alive?",
        dependencies=[Depends(opened("whoever restarts processes has no secret"))],
    )
    async def healthz() -> str:
        return "ok\n"

    @app.get(
        "/readyz",
        response_class=PlainTextResponse,
        summary="Would a call be taken in now?",
        dependencies=[Depends(BEARER), Depends(needs("scraper", here=True))],
        responses={**text, **by_token},
    )
    async def readyz() -> str:
        async with ledger():
            await serving.db.fetchval("SELECT 1")
        return "ready\n"

    @app.get(
        "/metrics",
        response_class=PlainTextResponse,
        summary="The series of this process, for Prometheus",
        dependencies=[Depends(BEARER), Depends(needs("scraper", here=True))],
        responses={**text, **by_token},
    )
    async def metrics() -> str:
        return serving.metrics.text().decode() if serving.metrics is not None else ""

    @app.get(
        "/openapi.json",
        summary="This description",
        dependencies=[Depends(BEARER), Depends(needs("viewer", here=True))],
        response_class=_OpenApi,
        responses=by_token,
    )
    async def openapi() -> dict[str, Any]:
        return description(app)


class _OpenApi(JSONResponse):
    media_type = OPENAPI


def description(app: FastAPI) -> dict[str, Any]:
    """The API in OpenAPI's words. What FastAPI would answer by itself is what we answer."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        components: dict[str, Any] = made.setdefault("components", {}).setdefault("schemas", {})
        with_restricted(components)
        components["Problem"] = Problem.model_json_schema()
        for unused in ("HTTPValidationError", "ValidationError"):
            components.pop(unused, None)
        for path in made["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
        app.openapi_schema = made
    return app.openapi_schema


async def _refused(request: Request, error: Exception) -> Response:
    """A page for people, a problem document for programs."""
    assert isinstance(error, Refusal)
    return answer(request, error)


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reason = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "bad_request")
    return await _refused(request, Refusal(reason, headers=error.headers))


async def _not_understood(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    where = ".".join(str(part) for part in error.errors()[0]["loc"])
    return await _refused(request, Refusal("bad_request", f"{where}: {error.errors()[0]['msg']}"))


async def _unforeseen(request: Request, error: Exception) -> Response:
    log.error("a request failed", path=request.url.path, why=f"{type(error).__name__}: {error}")
    return await _refused(request, Refusal("internal"))
