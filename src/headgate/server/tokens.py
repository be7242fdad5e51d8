"""`GET /v1/tokens`: who may ask. Making and ending one are actions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse

from headgate.ledger import token as tokens
from headgate.model.role import Principal

from .access import BEARER, REFUSALS, needs
from .actions.tokens import may_see
from .doors import Serving, ledger
from .problem import documented

router = APIRouter(dependencies=[Depends(BEARER)])


@router.get(
    "/v1/tokens",
    summary="Tokens, or the sessions of the console; also those that ended",
    responses={
        200: {
            "description": "They, without their secrets",
            "content": {"application/json": {"schema": {"type": "object"}}},
        },
        **documented(*REFUSALS, "bad_request"),
    },
)
async def listed(
    request: Request,
    by: Annotated[Principal, Depends(needs("admin"))],
    kind: Annotated[Literal["api", "session"], Query(description="Which of them.")] = "api",
) -> JSONResponse:
    """Everybody who may ask, as far as the caller may see. Role `admin`."""
    serving: Serving = request.app.state.serving
    async with ledger():
        rows = await tokens.listed(serving.db, (kind,))
    seen: list[dict[str, Any]] = [dict(row) for row in rows if may_see(by, row["pipelines"])]
    return JSONResponse({"tokens": jsonable_encoder(seen)}, headers={"Cache-Control": "no-store"})
