"""Problems of `headgate serve`: each that may be answered, and the way out of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from headgate.model import problem
from headgate.model.call import UNPROVEN, Unproven
from headgate.model.problem import MEDIA_TYPE, TYPE, Kind

_SIGN = "Sign the bytes that are sent, with a secret of this door."
PROBLEMS: Mapping[str, Kind] = {
    "not_found": Kind(404, "There is nothing here", "Check the address."),
    "method_not_allowed": Kind(405, "Not that way", "Use a method of the Allow header."),
    "unknown_pipeline": Kind(404, "No such webhook", "Declare it: sources=[hg.Webhook(...)]."),
    "unknown_provider": Kind(404, "No such push", "Declare it: sources=[hg.Push.gcs(...)]."),
    "unknown_request": Kind(404, "No such request", "This id was never used here."),
    "unknown_collection": Kind(404, "No such collection", "See /stac/collections."),
    "unknown_item": Kind(404, "No such item", "Search for it: /stac/search?ids=…"),
    "unknown_change": Kind(404, "No such change", "Follow the feed: /v1/changes."),
    "cursor_ahead": Kind(
        409,
        "The feed has not come to this cursor",
        "It is of another ledger, or of one that was restored since: begin again without it.",
    ),
    "unknown_asset": Kind(404, "No such file", "Follow the links of the item's assets."),
    "asset_gone": Kind(
        410, "These bytes are no longer kept", "Read the item again: it may have another version."
    ),
    "range_outside": Kind(416, "It has no such part", "Content-Range says how long it is."),
    "search_refused": Kind(
        400, "The search cannot be understood", "Correct the parameter that is named."
    ),
    "store_unavailable": Kind(
        503, "The store is away: its bytes cannot be read now", "Ask again after Retry-After."
    ),
    "bad_request": Kind(400, "The request cannot be understood", "Correct it and send it again."),
    "body_too_slow": Kind(408, "The body did not arrive in time", "Send it again, faster."),
    "body_too_large": Kind(413, "The body is too large", "Send less, or raise the limit here."),
    "body_refused": Kind(400, "The body is refused", "The reason names the field; correct it."),
    "request_reused": Kind(409, "This request id was used before", "See `first` for its result."),
    "request_conflict": Kind(
        409, "This request id was used for other bytes", "Send these with an id of their own."
    ),
    "dry_run_unsigned": Kind(
        400,
        "A dry run that is not signed as one",
        "Sign an id that begins with dry_, and only for dry runs. GitHub's scheme has none.",
    ),
    "preview_required": Kind(
        428,
        "A call that changes something cites the preview it saw",
        "Call with ?dry_run=true first and cite its preview_digest. Or waive it in the pipeline.",
    ),
    "preview_unknown": Kind(409, "There is no such preview", "Make one: ?dry_run=true."),
    "preview_of_other": Kind(409, "That preview is of other bytes", "Make one of these bytes."),
    "preview_used": Kind(409, "That preview was cited before", "Make another one."),
    "preview_stale": Kind(409, "That preview is no longer true", "Look again: ?dry_run=true."),
    "too_many_requests": Kind(429, "Too many requests", "Wait as long as Retry-After says."),
    "token_needed": Kind(401, "A token is needed", "Make one: headgate token create."),
    "role_needed": Kind(
        403, "This needs another role", "Ask an admin for a token with the role that is named."
    ),
    "pipeline_not_theirs": Kind(
        403, "This token is for other pipelines", "Ask an admin for one that is for this, too."
    ),
    "form_refused": Kind(
        403, "This was not sent by a page of this session", "Open the page again and send it anew."
    ),
    "host_unknown": Kind(
        421, "This name is not one of ours", "Use another, or list it: HEADGATE_SERVE_HOSTS."
    ),
    "reason_needed": Kind(400, "A reason is needed", "Say why: `because`. It is kept."),
    "no_preview": Kind(400, "There is nothing to look at before", "Leave out dry_run."),
    "action_refused": Kind(409, "It cannot be done", "Look at what is said, and at where it is."),
    "not_there": Kind(409, "One of them is not there", "See what became of it: /v1/entries/…"),
    "budget_spent": Kind(
        409, "The pipeline's error budget is spent", "Try a few, wait, or override the budget."
    ),
    "not_loaded": Kind(
        409,
        "This server does not have the code of that pipeline",
        "Start it with the file: headgate serve FILE.py. Or: headgate replay FILE.py.",
    ),
    "key_reused": Kind(
        409, "This Idempotency-Key was used for something else", "Use another key for this."
    ),
    "unknown_run": Kind(404, "No such run, or no such record of it", "See /v1/changes."),
    "unknown_version": Kind(404, "No such version", "See them: /v1/publications/{entry}."),
    "restricted": Kind(403, "This is restricted", "Ask a steward, or with a token of one."),
    "unknown_entry": Kind(404, "No such entry", "Look for it: /v1/entries."),
    "unknown_publication": Kind(404, "No such publication", "Look for it: /v1/publications."),
    "unknown_redrive": Kind(404, "No such redrive", "See them: /v1/redrives."),
    "unknown_replay": Kind(404, "No such replay", "See them: /v1/replays."),
    "unknown_token": Kind(404, "No such token", "See them: /v1/tokens."),
    "no_such_pipeline": Kind(404, "No such pipeline", "See them: /v1/pipelines."),
    "outcome_unknown": Kind(
        503,
        "The ledger went away, and it is not known whether it was done",
        "Ask again with the same Idempotency-Key; or look before you do.",
    ),
    "ledger_unavailable": Kind(
        503, "The ledger is away: nothing was taken in", "Send it again after Retry-After."
    ),
    "keys_unavailable": Kind(
        503, "The provider's keys cannot be fetched: nothing was taken in", "Send it again later."
    ),
    "secret_unusable": Kind(
        503, "This door has no usable secret: nothing was taken in", "See the log of the server."
    ),
    "internal": Kind(
        500, "This should not happen: nothing was answered for sure", "Send it again."
    ),
    **{reason: Kind(401, f"Refused: {text}", _SIGN) for reason, text in UNPROVEN.items()},
    "wrong_topic": Kind(403, f"Refused: {UNPROVEN['wrong_topic']}", "Configure the topic here."),
    "certificate_refused": Kind(403, f"Refused: {UNPROVEN['certificate_refused']}", _SIGN),
}


class Problem(BaseModel):
    """A problem document. `first` is there when a request id was used before."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=[TYPE + "request_reused"])
    title: str
    status: int
    detail: str
    reason: str
    hint: str
    first: dict[str, Any] | None = None


class Refusal(Exception):
    """Ends a request with a problem document."""

    def __init__(
        self,
        reason: str,
        detail: str = "",
        *,
        hint: str = "",
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.kind = PROBLEMS[reason]
        self.detail = detail
        self.hint = hint
        self.headers = dict(headers or {})
        if retry_after is not None:
            self.headers["Retry-After"] = problem.retry_after(retry_after)
        if self.kind.status == 401:
            self.headers.setdefault("WWW-Authenticate", 'Bearer realm="headgate"')
        self.more = more

    def response(self) -> JSONResponse:
        document = problem.document(
            self.reason, self.kind, detail=self.detail, hint=self.hint, **self.more
        )
        return JSONResponse(document, self.kind.status, self.headers, media_type=MEDIA_TYPE)


def unproven(error: Unproven) -> Refusal:
    """The answer to a call that nobody vouches for."""
    return Refusal(error.reason, str(error), hint=error.hint)


def documented(*reasons: str) -> dict[int | str, dict[str, Any]]:
    """How OpenAPI is told what a route may answer beside success."""
    found: dict[int | str, dict[str, Any]] = {}
    for reason in sorted(reasons):
        kind = PROBLEMS[reason]
        known = found.get(kind.status)
        text = f"{known['description']}; `{reason}`" if known else f"`{reason}`"
        content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        found[kind.status] = {"description": text, "content": content}
    return found
