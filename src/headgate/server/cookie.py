"""The cookie that holds a session, and the form's own token that goes with it.

The cookie is sent by the browser to us alone (`SameSite=Strict`), is read by no script, and where
readers reach us by https it is sent over nothing else and belongs to this host alone (`__Host-`).
The form's token follows from the session: whoever can write it has read a page of ours.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime

from fastapi import Request, Response

from headgate.ledger.token import Made

from .doors import Serving

FIELD = "csrf"
HEADER = "x-csrf-token"


def name(serving: Serving) -> str:
    """What the cookie is called."""
    return "__Host-headgate" if _by_https(serving) else "headgate"


def held(request: Request) -> str | None:
    """The session that the browser brings, if it brings one."""
    return request.cookies.get(name(request.app.state.serving))


def give(serving: Serving, response: Response, session: Made) -> None:
    """Have the browser keep a session until it ends."""
    left = max(0, int((session.expires_at - datetime.now(UTC)).total_seconds()))
    _set(serving, response, session.token, left)


def take_back(serving: Serving, response: Response) -> None:
    """Have the browser forget its session."""
    _set(serving, response, "", 0)


def _set(serving: Serving, response: Response, value: str, seconds: int) -> None:
    response.set_cookie(
        name(serving),
        value,
        max_age=seconds,
        path="/",
        secure=_by_https(serving),
        httponly=True,
        samesite="strict",
    )


def form_token(request: Request) -> str:
    """What every form of a page has to send back, in the field `csrf`; empty without a session."""
    session = held(request)
    if session is None:
        return ""
    mac = hmac.new(session.encode(), b"headgate:form:1", hashlib.sha256).digest()
    return base64.urlsafe_b64encode(mac).decode().rstrip("=")


def is_form_of(request: Request, sent: str) -> bool:
    """Was this sent by a form of a page that this session was shown?"""
    return bool(sent) and hmac.compare_digest(sent.encode(), form_token(request).encode())


def _by_https(serving: Serving) -> bool:
    return serving.url.startswith("https://")
