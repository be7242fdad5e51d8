"""What a request with an Idempotency-Key is answered when the app's answer cannot be given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from headgate import errors
from headgate.model import problem
from headgate.model.problem import Kind

from .kept import Send, give

PROBLEMS: Mapping[str, Kind] = {
    "idempotency_key_needed": Kind(
        400,
        "This request needs an Idempotency-Key",
        "Send the header with a new UUID for each thing you want, and the same one when you retry.",
    ),
    "idempotency_key_refused": Kind(
        400, "This Idempotency-Key cannot be used", "Send it once: up to 255 visible characters."
    ),
    "body_too_large": Kind(
        413, "The body is too large to be sent with an Idempotency-Key", "Send less."
    ),
    "idempotency_key_conflict": Kind(
        409,
        "This Idempotency-Key was used for another request",
        "Send this request with a key of its own.",
    ),
    "in_progress": Kind(
        409,
        "The first request with this Idempotency-Key is still in progress",
        "Send it again after Retry-After, with the same key.",
    ),
    "answer_not_kept": Kind(
        409,
        "This request was done, and its answer was not kept",
        "Ask for the state of what it changed. `first` says how it was answered.",
    ),
    "ledger_unavailable": Kind(
        503,
        "The ledger is away",
        "Send it again after Retry-After, with the same key: it is never done twice.",
    ),
}


class Refusal(Exception):
    """Ends a request with a problem document."""

    def __init__(
        self,
        reason: str,
        detail: str = "",
        *,
        retry_after_seconds: float | None = None,
        **more: Any,
    ) -> None:
        super().__init__(reason)
        self._reason = reason
        self._detail = detail
        self._retry_after_seconds = retry_after_seconds
        self._more = more

    async def answer(self, send: Send) -> None:
        kind = PROBLEMS[self._reason]
        body = orjson.dumps(problem.document(self._reason, kind, detail=self._detail, **self._more))
        headers = [
            (b"content-type", problem.MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
        ]
        if self._retry_after_seconds is not None:
            after = problem.retry_after(self._retry_after_seconds)
            headers.append((b"retry-after", after.encode()))
        await give(send, kind.status, headers, body)


def refusal_of(error: Exception, retry_after_seconds: float) -> Refusal | None:
    """How a failure to begin or to record an operation is answered; None: nobody foresaw it."""
    match error:
        case errors.Conflict():
            return Refusal("idempotency_key_conflict")
        case errors.InProgress() | errors.Fenced():
            return Refusal("in_progress", retry_after_seconds=retry_after_seconds)
        case errors.LedgerUnavailable():
            unknown = error.reason == "commit_unknown"
            return Refusal(
                "ledger_unavailable",
                "Whether it was done is not known" if unknown else "Nothing was done",
                retry_after_seconds=retry_after_seconds,
            )
        case _:
            return None
