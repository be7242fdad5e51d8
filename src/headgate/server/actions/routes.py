"""The addresses of the actions under `/v1`. Each takes a JSON object with a reason, `because`.

With `dry_run`, what would be done is said and nothing is. With an `Idempotency-Key`, asking again
gives the first answer (`Idempotent-Replayed: true`).
"""

from __future__ import annotations

from typing import Any, cast

import orjson
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse

from headgate.server.access import BEARER, REFUSALS, needs, principal_of
from headgate.server.limits import read_body
from headgate.server.problem import Refusal, documented

from .act import ACTIONS, BECAUSE_CHARACTERS, KEY_CHARACTERS, act, preview
from .action import Action

router = APIRouter(dependencies=[Depends(BEARER)])

BODY_BYTES = 1 << 16
JSON = "application/json"
KEY = "idempotency-key"
# Where each action is, and which of its fields is in the address.
PLACES: dict[str, tuple[str, str | None]] = {
    "release": ("/v1/quarantine/release", None),
    "discard": ("/v1/quarantine/discard", None),
    "undiscard": ("/v1/quarantine/undiscard", None),
    "redrive": ("/v1/redrives", None),
    "redrive_pause": ("/v1/redrives/{id}/pause", "id"),
    "redrive_resume": ("/v1/redrives/{id}/resume", "id"),
    "redrive_stop": ("/v1/redrives/{id}/stop", "id"),
    "revert": ("/v1/publications/{entry}/revert", "entry"),
    "reset": ("/v1/entries/{entry}/reset", "entry"),
    "replay": ("/v1/replays", None),
    "replay_stop": ("/v1/replays/{id}/stop", "id"),
    "budget_override": ("/v1/pipelines/{pipeline}/budget", "pipeline"),
    "token_create": ("/v1/tokens", None),
    "token_revoke": ("/v1/tokens/{id}/revoke", "id"),
}
_MAY_ANSWER = (
    *REFUSALS, "pipeline_not_theirs", "form_refused", "bad_request", "reason_needed",
    "body_too_large", "body_too_slow", "key_reused", "action_refused", "outcome_unknown",
)  # fmt: skip
_MORE: dict[str, tuple[str, ...]] = {
    "release": ("unknown_entry", "not_there", "budget_spent"),
    "discard": ("unknown_entry", "not_there"),
    "undiscard": ("unknown_entry", "not_there"),
    "redrive": (),
    "redrive_pause": ("unknown_redrive", "no_preview"),
    "redrive_resume": ("unknown_redrive", "no_preview"),
    "redrive_stop": ("unknown_redrive", "no_preview"),
    "revert": ("unknown_publication",),
    "reset": ("unknown_entry",),
    "replay": ("not_loaded", "too_many_requests"),
    "replay_stop": ("unknown_replay", "no_preview"),
    "budget_override": ("no_such_pipeline", "no_preview"),
    "token_create": ("no_preview",),
    "token_revoke": ("unknown_token", "no_preview"),
}


async def body_of(request: Request) -> dict[str, Any]:
    """The JSON object that was sent. Raises `Refusal`."""
    try:
        said: object = orjson.loads(await read_body(request, BODY_BYTES))
    except ValueError:
        raise Refusal("bad_request", "the body is not JSON") from None
    if not isinstance(said, dict):
        raise Refusal("bad_request", "the body is a JSON object")
    return cast("dict[str, Any]", said)


def _add(action: Action[Any]) -> None:
    path, within = PLACES[action.name]

    async def answer(request: Request) -> JSONResponse:
        by = principal_of(request)
        said = await body_of(request)
        because, dry_run = said.pop("because", ""), said.pop("dry_run", False)
        if not isinstance(because, str) or not isinstance(dry_run, bool):
            raise Refusal("bad_request", "because is text; dry_run is true or false")
        if within is not None:
            if within in said:
                raise Refusal("bad_request", f"{within}: it is in the address")
            said[within] = request.path_params[within]
        keys = request.headers.getlist(KEY)
        if len(keys) > 1:
            raise Refusal("bad_request", "Idempotency-Key: it is given twice")
        serving = request.app.state.serving
        if dry_run:
            told = await preview(serving, by, action.name, said)
            return JSONResponse({"dry_run": True, **told})
        done = await act(
            serving, by, action.name, said, because=because, request_key=keys[0] if keys else None
        )
        headers = {"Idempotent-Replayed": "true"} if done.again else {}
        return JSONResponse({"dry_run": False, **done.answer}, headers=headers)

    router.post(
        path,
        name=action.name,
        summary=action.about,
        description=f"Needs the role {action.role}.",
        dependencies=[Depends(needs(action.role))],
        openapi_extra=_described(action, within),
        responses={
            200: {
                "description": "It is done and durable; or, with dry_run, what would be done",
                "content": {JSON: {"schema": {"type": "object"}}},
            },
            **documented(*_MAY_ANSWER, *_MORE[action.name]),
        },
    )(answer)


def _described(action: Action[Any], within: str | None) -> dict[str, Any]:
    schema = action.takes.model_json_schema()
    properties: dict[str, Any] = dict(schema["properties"])
    required: list[str] = [name for name in schema.get("required", []) if name != within]
    parameters: list[dict[str, Any]] = [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "Asked for again under the same key, it is answered and not done again.",
            "schema": {"type": "string", "minLength": 1, "maxLength": KEY_CHARACTERS},
        }
    ]
    if within is not None:
        shape = properties.pop(within)
        parameters.append({"name": within, "in": "path", "required": True, "schema": shape})
    properties["because"] = {
        "type": "string",
        "maxLength": BECAUSE_CHARACTERS,
        "description": "Why. It is kept, with who did it. Not needed with dry_run.",
    }
    properties["dry_run"] = {
        "type": "boolean",
        "default": False,
        "description": "Say what would be done; do nothing.",
    }
    if action.looks is None:
        del properties["dry_run"]
        required.append("because")
    body = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return {
        "parameters": parameters,
        "requestBody": {"required": True, "content": {JSON: {"schema": body}}},
    }


for _action in ACTIONS.values():
    _add(_action)
