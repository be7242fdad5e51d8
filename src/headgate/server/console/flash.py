"""What is said once, on the page that follows an action: a cookie that lives for one page."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any, Literal, cast

import orjson
from starlette.requests import Request
from starlette.responses import Response

COOKIE = "headgate_said"
MOST = 1000
LIVES_SECONDS = 60

Tone = Literal["good", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Flash:
    """A sentence, and the way out if it is a refusal."""

    text: str
    tone: Tone = "good"
    hint: str = ""


def say(response: Response, text: str, tone: Tone = "good", *, hint: str = "") -> None:
    """Have the next page say this."""
    said = orjson.dumps([text[:MOST], tone, hint[:MOST]])
    response.set_cookie(
        COOKIE,
        base64.urlsafe_b64encode(said).decode(),
        max_age=LIVES_SECONDS,
        httponly=True,
        samesite="strict",
    )


def heard(request: Request) -> Flash | None:
    """What the page before wanted to be said. A cookie is a stranger's word: only text is taken."""
    given = request.cookies.get(COOKIE)
    if given is None or len(given) > 8 * MOST:
        return None
    try:
        said: Any = orjson.loads(base64.urlsafe_b64decode(given))
    except (binascii.Error, ValueError):
        return None
    match said:
        case [str(text), "good" | "warn" | "bad" as tone, str(hint)]:
            return Flash(text, cast("Tone", tone), hint)
        case _:
            return None
