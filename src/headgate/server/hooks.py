"""`POST /hooks/{pipeline}`: a signed call whose body becomes an object, once.

The order matters. Who sent it is known before anything of it is looked at; the id is used up in the
transaction that admits the body; only then is it answered. A sender that hears nothing tries again
and is told what became of the first call.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import JSONResponse

from headgate.ledger import inbox
from headgate.ledger import request as requests
from headgate.ledger.request import First, NotCitable
from headgate.model.call import Call, Vouched
from headgate.model.envelope import Envelope, Refused
from headgate.model.identity import change_key
from headgate.model.role import Principal
from headgate.model.signal import REQUESTS, emit
from headgate.runtime.intake import count, sort, telling
from headgate.sources.webhook import Webhook

from .access import BEARER, REFUSALS, by_sight, needs, opened
from .doors import Door, Serving, ledger
from .preview import look
from .problem import Refusal, documented

router = APIRouter()

DRY = "dry_"
SAID_AT_MOST = 200
DIGEST = r"^sha256:[0-9a-f]{64}$"
NAME = Annotated[str, Path(pattern=r"^[a-z][a-z0-9_-]{0,62}$", description="The pipeline's name.")]
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The object itself: any bytes, signed as the pipeline's webhook says.",
        "content": {"application/json": {"schema": {}}, "application/octet-stream": {}},
    }
}
_MAY_ANSWER = (
    "bad_request", "body_refused", "dry_run_unsigned", "signature_missing", "signature_malformed",
    "signature_wrong", "timestamp_outside", "unknown_pipeline", "body_too_slow", "body_too_large",
    "request_reused", "request_conflict", "preview_unknown", "preview_of_other", "preview_used",
    "preview_stale", "preview_required", "too_many_requests", "ledger_unavailable",
    "secret_unusable",
)  # fmt: skip


@router.post(
    "/hooks/{pipeline}",
    status_code=202,
    summary="Hand over an object",
    openapi_extra=_BODY,
    dependencies=[Depends(opened("a call is signed by its sender"))],
    responses={
        200: {
            "description": "A preview, or the first result again",
            "content": {"application/json": {}},
        },
        **documented(*_MAY_ANSWER),
    },
)
async def receive(
    request: Request,
    pipeline: NAME,
    dry_run: Annotated[bool, Query(description="Show what would change; change nothing.")] = False,
    preview_digest: Annotated[
        str | None, Query(pattern=DIGEST, description="The preview this call has seen.")
    ] = None,
) -> JSONResponse:
    """Take in a signed body as an object of this pipeline."""
    serving: Serving = request.app.state.serving
    door, source = serving.hook(pipeline)
    call = await serving.take(request)
    vouched = await serving.vouch(door, call)
    (told,) = source.read(call, vouched)
    if isinstance(told, Refused):
        await _set_aside(serving, door, told, call)
        raise Refusal("body_refused", told.text, code=told.reason, field=told.field)
    believed = _request(call, vouched, told)
    signed_as_dry = vouched.covers == "request" and believed.id.startswith(DRY)
    if dry_run != signed_as_dry:
        raise Refusal("dry_run_unsigned")
    if dry_run:
        return await _preview(serving, door, source, believed, told)
    cites = _cited(source, preview_digest)
    return await _admit(serving, door, source, believed, told, cites)


@router.get(
    "/hooks/{pipeline}/requests/{id:path}",
    summary="What became of a request",
    dependencies=[Depends(BEARER)],
    responses={
        200: {"description": "The first result", "content": {"application/json": {}}},
        **documented(
            *REFUSALS, "pipeline_not_theirs", "unknown_pipeline", "unknown_request", "bad_request",
        ),
    },
)  # fmt: skip
async def found(
    request: Request,
    pipeline: NAME,
    id: Annotated[str, Path(min_length=1, max_length=256)],
    by: Annotated[Principal, Depends(needs("viewer"))],
) -> JSONResponse:
    """How a request was answered, and what has become of it since. Needs the role viewer."""
    serving: Serving = request.app.state.serving
    by_sight(by, pipeline)
    door, _ = serving.hook(pipeline)
    async with ledger():
        first = None if "\0" in id else await requests.find(serving.db, door.to.pipeline, id)
    if first is None:
        raise Refusal("unknown_request")
    return JSONResponse(_told(first))


async def _set_aside(serving: Serving, door: Door, refused: Refused, call: Call) -> None:
    """Who sent it is known, and what it says cannot be believed: a person may want to see it."""
    source = door.source
    _, aside = sort([refused], source.name, source.provider, call.received_at)
    async with ledger():
        count(source.name, await inbox.receive(serving.db, door.to, source.name, [], aside))
    emit(REQUESTS, door=source.door, verdict="refused")


def _request(call: Call, vouched: Vouched, envelope: Envelope) -> requests.Request:
    payload = hashlib.sha256(call.body).digest()
    return requests.Request(
        id=envelope.event_id,
        scheme=vouched.scheme,
        key_id=vouched.key_id,
        payload=payload,
        envelope=hashlib.sha256(envelope.document() + b"\0" + call.body).digest(),
        proof=vouched.proof_hash,
        signed=payload if vouched.covers == "body" else None,
        actor=_said(call, "headgate-actor"),
        because=_said(call, "headgate-reason"),
    )


def _said(call: Call, header: str) -> str | None:
    """What a sender says of itself. It is kept, and believed by nobody."""
    said = call.header(header)
    return said[:SAID_AT_MOST] if said and said.isprintable() else None


def _cited(source: Webhook, preview_digest: str | None) -> bytes | None:
    if preview_digest is not None:
        return bytes.fromhex(preview_digest.removeprefix("sha256:"))
    if source.preview == "required":
        raise Refusal("preview_required")
    return None


async def _preview(
    serving: Serving, door: Door, source: Webhook, believed: requests.Request, envelope: Envelope
) -> JSONResponse:
    async with ledger():
        head = await requests.head(serving.db, door.to.pipeline, envelope.uri)
    shown, digest = await look(door.pipeline, envelope, head)
    answer = {
        "request": believed.id,
        "verdict": "previewed",
        "preview": shown,
        "preview_digest": f"sha256:{digest.hex()}",
    }
    seen = None if head is None else head.entry
    async with ledger():
        first = await requests.preview(
            serving.db, door.to, believed, envelope.uri, seen, digest, answer
        )
    if first is not None:
        return _again(door, source, first)
    emit(REQUESTS, door=source.door, verdict="previewed")
    return JSONResponse(answer)


async def _admit(
    serving: Serving,
    door: Door,
    source: Webhook,
    believed: requests.Request,
    envelope: Envelope,
    cites: bytes | None,
) -> JSONResponse:
    answer = {
        "request": believed.id,
        "verdict": "admitted",
        "pipeline": door.pipeline.name,
        "uri": envelope.uri,
        "key": change_key(envelope).hex(),
        "digest": f"sha256:{believed.payload.hex()}",
    }
    try:
        async with ledger():
            with telling(f"POST /hooks/{door.pipeline.name}", "server", [envelope]):
                first, receipt = await requests.admit(
                    serving.db, door.to, believed, source.name, envelope, answer, cites=cites
                )
    except NotCitable as error:
        raise Refusal(error.why) from error
    if first is not None:
        return _again(door, source, first)
    assert receipt is not None
    count(source.name, receipt)
    if receipt.conflicts:
        raise Refusal("request_conflict")
    emit(REQUESTS, door=source.door, verdict="admitted")
    return JSONResponse(answer, 202)


def _again(door: Door, source: Webhook, first: First) -> JSONResponse:
    """An id that was used before: the first result, or a conflict."""
    if not first.same_payload:
        emit(REQUESTS, door=source.door, verdict="conflict")
        raise Refusal("request_conflict", first=_told(first))
    emit(REQUESTS, door=source.door, verdict="reused")
    if source.reuse == "replay":
        return JSONResponse(_told(first), 200, {"Idempotent-Replayed": "true"})
    raise Refusal("request_reused", first=_told(first))


def _told(first: First) -> dict[str, Any]:
    now = {
        "entry": first.entry,
        "status": first.status,
        "reason": first.reason,
        "version": first.version,
    }
    told = {"at": first.at.isoformat(), **first.answer}
    if first.entry is not None:
        told["now"] = now
    return told
