"""Signatures of webhooks: Standard Webhooks, and GitHub's HMAC over the body.

Both are symmetric: whoever has the secret can sign. Secrets are rotated by having several at once;
the one that fits is named in what we store. Every secret is tried against every signature, so the
time it takes does not tell which one nearly fitted.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from headgate.errors import ConfigError
from headgate.model.call import Call, Unproven, Vouched

SIGNATURES_AT_MOST = 16
SECRET_BYTES = (24, 64)  # what the Standard Webhooks specification asks for
SECRET_CHARACTERS = 16
# No full stop: it separates what is signed. An id that held one could borrow from its neighbour.
_STANDARD_ID = re.compile(r"[!-\-/-~]{1,256}")
_DELIVERY_ID = re.compile(r"[!-~]{1,256}")
_SECONDS = re.compile(r"[1-9][0-9]{0,9}")
_STANDARD = re.compile(r"v1,[A-Za-z0-9+/]{43}=")
_GITHUB = re.compile(r"sha256=[0-9a-f]{64}")


def standard_secret(key_id: str, secret: str) -> bytes:
    """The bytes of a `whsec_…` secret. Raises `ConfigError` for one that protects nothing."""
    text = secret.strip()
    try:
        raw = base64.b64decode(text.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    least, most = SECRET_BYTES
    if not text.startswith("whsec_") or not least <= len(raw) <= most:
        raise ConfigError(
            f"the webhook secret {key_id!r} is not whsec_ and {least} to {most} bytes in base64",
            hint='Make one: echo "whsec_$(openssl rand -base64 32)"',
        )
    return raw


def plain_secret(key_id: str, secret: str) -> bytes:
    """The bytes of a secret that is any text. Raises `ConfigError` for one that is guessed."""
    raw = secret.strip().encode()
    if len(raw) < SECRET_CHARACTERS:
        raise ConfigError(
            f"the secret {key_id!r} has fewer than {SECRET_CHARACTERS} characters",
            hint="Make one: openssl rand -hex 32",
        )
    return raw


def standard(call: Call, secrets: Mapping[str, bytes], tolerance_seconds: float) -> Vouched:
    """Standard Webhooks: an HMAC over id, time and body. Raises `Unproven`."""
    from standardwebhooks.webhooks import Webhook

    request_id = call.header("webhook-id")
    seconds = call.header("webhook-timestamp")
    shown = call.header("webhook-signature")
    if not request_id or not seconds or not shown:
        raise Unproven(
            "signature_missing",
            "webhook-id, webhook-timestamp and webhook-signature are needed",
        )
    if not _STANDARD_ID.fullmatch(request_id) or not _SECONDS.fullmatch(seconds):
        raise Unproven("signature_malformed", "webhook-id or webhook-timestamp cannot be read")
    sent_at = datetime.fromtimestamp(int(seconds), UTC)
    try:
        text = call.body.decode()
    except UnicodeDecodeError:
        raise Unproven("signature_malformed", "the body is not UTF-8 text") from None
    tokens = shown.split(" ")
    if len(tokens) > SIGNATURES_AT_MOST:
        raise Unproven("signature_malformed", f"more than {SIGNATURES_AT_MOST} signatures")
    tokens = [token for token in tokens if _STANDARD.fullmatch(token)]
    if not tokens:
        raise Unproven("signature_malformed", "there is no v1 signature")
    expected = {k: Webhook(s).sign(request_id, sent_at, text) for k, s in secrets.items()}
    key_id, token = _match(tokens, expected)
    # After the signature: an unsigned time says nothing about the sender's clock.
    off = abs((call.received_at - sent_at).total_seconds())
    if off > tolerance_seconds:
        raise Unproven(
            "timestamp_outside",
            f"the signed time is {off:.0f} s from ours, more than {tolerance_seconds:g} s",
            hint="Set the sender's clock. A message that is sent again is signed again.",
        )
    return Vouched("standard", key_id, token.encode(), "request", request_id, sent_at)


def github(call: Call, secrets: Mapping[str, bytes]) -> Vouched:
    """GitHub's `X-Hub-Signature-256`: an HMAC over the body alone. Raises `Unproven`."""
    shown = call.header("x-hub-signature-256")
    if not shown:
        raise Unproven("signature_missing", "X-Hub-Signature-256 is needed")
    if not _GITHUB.fullmatch(shown):
        raise Unproven("signature_malformed", "X-Hub-Signature-256 is not sha256= and 64 digits")
    request_id = call.header("x-github-delivery")
    if request_id is not None and not _DELIVERY_ID.fullmatch(request_id):
        raise Unproven("signature_malformed", "X-GitHub-Delivery cannot be read")
    expected = {
        key: "sha256=" + hmac.new(secret, call.body, hashlib.sha256).hexdigest()
        for key, secret in secrets.items()
    }
    key_id, token = _match([shown], expected)
    # Nobody signed the delivery's id. Without one, the bytes are their own name.
    own = "body-" + hashlib.sha256(call.body).hexdigest()
    return Vouched("github", key_id, token.encode(), "body", request_id or own)


def _match(tokens: list[str], expected: Mapping[str, str]) -> tuple[str, str]:
    """Which key made which of the signatures. All pairs are compared, whatever is found."""
    found: list[tuple[str, str]] = []
    for key_id, right in expected.items():
        for token in tokens:
            if hmac.compare_digest(token.encode(), right.encode()):
                found.append((key_id, token))
    if not found:
        raise Unproven("signature_wrong")
    return found[0]
