"""A call: an HTTP request that came to one of our doors, and what makes us believe it.

Nothing in a call is believed before somebody vouched for it: a signature over its bytes, a token of
the provider, a key that only the provider was told. What was shown as proof is never stored; its
hash is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from headgate.errors import HeadgateError

# Why a call is not believed. Reasons are stable: they are in the answer and on the metrics.
UNPROVEN: Mapping[str, str] = {
    "signature_missing": "there is no signature",
    "signature_malformed": "the signature or what goes with it cannot be read",
    "signature_wrong": "no secret of this door makes this signature of these bytes",
    "timestamp_outside": "the signed time is too far from now",
    "token_missing": "there is no token",
    "token_refused": "the token was not made for this door, or not by who may",
    "key_missing": "there is no key",
    "key_wrong": "the key is not the one of this door",
    "wrong_topic": "it comes from another topic than the configured one",
    "certificate_refused": "the certificate is not where the provider keeps its own",
    "unsigned_mode": "this way of sending leaves something out of the signature",
}


class Unproven(HeadgateError):
    """A call that nobody vouches for. Nothing of it is kept."""

    reason = "signature_wrong"

    def __init__(self, reason: str, text: str = "", *, hint: str = "") -> None:
        super().__init__(text or UNPROVEN[reason], reason=reason, hint=hint)


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request. Names of headers are lower case; a name may come several times."""

    body: bytes
    received_at: datetime
    headers: Sequence[tuple[str, str]] = ()
    query: Sequence[tuple[str, str]] = ()

    def header(self, name: str) -> str | None:
        """The only header of this name. Two of them are two stories: neither is believed."""
        return _only(name, self.headers)

    def asked(self, name: str) -> str | None:
        """The only query parameter of this name."""
        return _only(name, self.query)


def _only(name: str, pairs: Sequence[tuple[str, str]]) -> str | None:
    found = [value for key, value in pairs if key == name]
    if len(found) > 1:
        raise Unproven("signature_malformed", f"{name!r} comes {len(found)} times")
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Vouched:
    """By which proof a call is believed.

    `covers` says what the proof is of: of this one request (its id and time are signed too), of
    its bytes only, or of its sender, who could have sent anything.
    """

    scheme: str
    key_id: str
    proof: bytes = field(repr=False)
    covers: Literal["request", "body", "sender"]
    request_id: str | None = None
    sent_at: datetime | None = None

    @property
    def proof_hash(self) -> bytes:
        """What is stored of the proof."""
        return hashlib.sha256(b"headgate:proof:1\0" + self.proof).digest()


class Web(Protocol):
    """How a door asks for the public keys of a provider. Only guarded clients implement it."""

    async def get(self, url: str, *, trusted: bool = False, most_bytes: int = 1 << 20) -> bytes:
        """The body of a successful answer; redirects are not followed. Raises `Unavailable`.

        `trusted`: the address was written by the operator.
        """
        ...
