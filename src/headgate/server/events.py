"""`POST /events/{provider}`: what a cloud pushes, once the cloud has proven that it is one.

A push goes to every pipeline that has a source for it and vouches for the call. It is acknowledged
when it is durable in all of them; until then the provider sends it again, and the keys make that
harmless. A record that cannot be read is set aside and acknowledged: sending it again would not
make it better.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import JSONResponse, Response

from headgate.errors import Unavailable
from headgate.ledger import inbox
from headgate.model.call import Call, Unproven
from headgate.model.parse import Parsed
from headgate.model.signal import REQUESTS, emit
from headgate.runtime.intake import count, sort, telling
from headgate.sources.push import Push
from headgate.telemetry.log import get_logger

from .access import opened
from .doors import Door, Serving, ledger
from .problem import Refusal, documented, unproven

router = APIRouter(dependencies=[Depends(opened("a push is vouched for by its provider"))])
log = get_logger("headgate.serve")

Provider = Annotated[
    Literal["gcs", "azure", "sns", "cloudevents"], Path(description="Whose pushes these are.")
]
_ORIGIN = re.compile(r"[A-Za-z0-9.-]{1,253}")
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "What the provider sends, in its own words.",
        "content": {"application/json": {"schema": {}}, "application/cloudevents+json": {}},
    }
}
_UNPROVEN = (
    "signature_missing", "signature_malformed", "signature_wrong", "timestamp_outside",
    "token_missing", "token_refused", "key_missing", "key_wrong", "wrong_topic",
    "certificate_refused", "unsigned_mode",
)  # fmt: skip


@router.post(
    "/events/{provider}",
    summary="Take in what a cloud pushes",
    openapi_extra=_BODY,
    responses={
        200: {"description": "It is durable", "content": {"application/json": {}}},
        **documented(
            *_UNPROVEN, "bad_request", "unknown_provider", "body_too_slow", "body_too_large",
            "too_many_requests", "ledger_unavailable", "keys_unavailable", "secret_unusable",
        ),
    },
)  # fmt: skip
async def receive(request: Request, provider: Provider) -> JSONResponse:
    """Admit the changes a push tells of, and acknowledge it once they are durable."""
    serving: Serving = request.app.state.serving
    doors = _doors(serving, provider)
    call = await serving.take(request)
    answers: list[dict[str, Any]] = []
    for door, source in await _vouched(serving, doors, call):
        told = source.told(call)
        if told.handshake is not None:
            log.info("handshake", pipeline=door.pipeline.name, source=source.name)
            return JSONResponse({"validationResponse": told.handshake.code})
        if told.confirmation is not None:
            await _confirm(serving, source, told)
        answers.append(
            {"pipeline": door.pipeline.name} | await _admit(serving, door, source, told, call)
        )
    return JSONResponse({"taken": answers})


@router.options(
    "/events/{provider}",
    summary="May these events be sent here?",
    responses={
        200: {"description": "They may"},
        **documented(
            "bad_request", "unknown_provider", "key_missing", "key_wrong", "unsigned_mode",
            "too_many_requests", "secret_unusable",
        ),
    },
)  # fmt: skip
async def may_send(request: Request, provider: Provider) -> Response:
    """The handshake of CloudEvents: an origin asks before it sends (`WebHook-Request-Origin`)."""
    serving: Serving = request.app.state.serving
    doors = _doors(serving, provider)
    call = await serving.take(request)
    origin = _header(call, "webhook-request-origin")
    known = [(d, s) for d, s in doors if origin in s.origins and _ORIGIN.fullmatch(origin)]
    if not known:
        raise Refusal("unsigned_mode", "this origin is not one of those that may send here")
    if provider == "azure":
        await _vouched(serving, known, call)
    allowed = {"WebHook-Allowed-Origin": origin, "WebHook-Allowed-Rate": "*", "Allow": "POST"}
    return Response(status_code=200, headers=allowed)


def _doors(serving: Serving, provider: str) -> list[tuple[Door, Push]]:
    found: list[tuple[Door, Push]] = []
    for door in serving.pushes.get(provider, ()):
        if isinstance(door.source, Push):
            found.append((door, door.source))
    if not found:
        raise Refusal("unknown_provider", f"no pipeline here takes pushes of {provider}")
    return found


def _header(call: Call, name: str) -> str:
    try:
        return call.header(name) or ""
    except Unproven as error:
        raise unproven(error) from error


async def _vouched(
    serving: Serving, doors: list[tuple[Door, Push]], call: Call
) -> list[tuple[Door, Push]]:
    """Those that believe the call. Raises the last refusal when nobody does."""
    refusal: Refusal | None = None
    found: list[tuple[Door, Push]] = []
    for door, source in doors:
        try:
            await serving.vouch(door, call)
        except Refusal as error:
            # Who could not look at it now may be the one it is for: then it is sent again.
            if error.kind.status in (429, 503):
                raise
            refusal = error
        else:
            found.append((door, source))
    if not found:
        assert refusal is not None
        raise refusal
    return found


async def _confirm(serving: Serving, source: Push, told: Parsed) -> None:
    assert told.confirmation is not None
    try:
        await source.confirm(told.confirmation, serving.web)
    except Unproven as error:
        raise unproven(error) from error
    except Unavailable as error:
        log.warning("subscription not confirmed", source=source.name, why=str(error))
        raise Refusal("keys_unavailable", retry_after=30) from error
    log.info("subscription confirmed", source=source.name, topic=told.confirmation.topic)


async def _admit(
    serving: Serving, door: Door, source: Push, told: Parsed, call: Call
) -> dict[str, int]:
    ours = source.ours(told)
    envelopes, aside = sort(ours, source.name, source.provider, call.received_at)
    admitted = conflicts = 0
    if ours:
        async with ledger():
            with telling(f"POST /events/{source.door}", "server", ours):
                receipt = await inbox.receive(serving.db, door.to, source.name, envelopes, aside)
        count(source.name, receipt)
        admitted, conflicts = receipt.admitted, receipt.conflicts
    emit(REQUESTS, door=source.door, verdict="admitted" if admitted else "known")
    passed = len(told.records) - len(ours) + len(told.ignored) + told.tests
    return {
        "records": len(ours),
        "admitted": admitted,
        "conflicts": conflicts,
        "passed_over": passed,
    }
