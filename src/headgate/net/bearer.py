"""Tokens of others, on pushes and of people: made by whom we expect, for us, and still good.

A token says itself which key and which algorithm it was made with. Neither is believed: keys come
from the address in the pipeline, algorithms from the list below, and whatever else a token points
to (`jku`, `x5u`, `jwk`) is not looked at.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from headgate.errors import Unavailable
from headgate.model.call import Call, Unproven, Vouched, Web

if TYPE_CHECKING:
    from jwt import PyJWK

ALGORITHMS = ("RS256", "ES256")
LEEWAY_SECONDS = 30
KEEP_SECONDS = 3600.0
ASK_AGAIN_SECONDS = 60.0
LONGEST_TOKEN = 8192
_TOKEN = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)
_KEY_ID = re.compile(r"[!-~]{1,256}")


class Keys:
    """The keys at one address, fetched now and then and when one is missing."""

    def __init__(self, url: str, *, trusted: bool = True) -> None:
        self.url = url
        self._trusted = trusted  # did the operator write the address?
        self._keys: dict[str, PyJWK] = {}
        self._at = float("-inf")
        self._fetching = asyncio.Lock()

    async def key(self, key_id: str, web: Web) -> PyJWK | None:
        """The key of this id, or None when there is none. Raises `Unavailable`."""
        if self._is_due(key_id):
            async with self._fetching:
                if self._is_due(key_id):
                    await self._fetch(key_id, web)
        return self._keys.get(key_id)

    def _is_due(self, key_id: str) -> bool:
        age = time.monotonic() - self._at
        return age > KEEP_SECONDS or (key_id not in self._keys and age > ASK_AGAIN_SECONDS)

    async def _fetch(self, key_id: str, web: Web) -> None:
        try:
            self._keys = _keys(await web.get(self.url, trusted=self._trusted))
            self._at = time.monotonic()
        except Unavailable:
            # While the issuer is away, a key that was good an hour ago is good for a minute more.
            if key_id not in self._keys:
                raise
            self._at = time.monotonic() - KEEP_SECONDS + ASK_AGAIN_SECONDS


async def verify(
    call: Call,
    keys: Keys,
    web: Web,
    *,
    audience: str,
    issuers: tuple[str, ...],
    claims: Mapping[tuple[str, ...], str],
) -> Vouched:
    """Does the bearer token of this call hold what it must? Raises `Unproven`, `Unavailable`.

    `claims` names what else it must say; of several names the first that is there counts.
    """
    token = _token(call)
    key_id, told = await read(token, keys, web, audience=audience, issuers=issuers, strict=True)
    for names, value in claims.items():
        if next((told[name] for name in names if name in told), None) != value:
            raise Unproven("token_refused", f"the token was made for another {names[0]}")
    if ("email",) in claims and told.get("email_verified") is not True:
        raise Unproven("token_refused", "the token's email is not verified")
    return Vouched("bearer", key_id, token.encode(), "sender")


async def read(
    token: str,
    keys: Keys,
    web: Web,
    *,
    audience: str,
    issuers: tuple[str, ...],
    strict: bool,
) -> tuple[str, dict[str, Any]]:
    """The id of a token's key, and its claims. Raises `Unproven`, `Unavailable`.

    With `strict` it is made for this audience alone; otherwise, among others.
    """
    import jwt

    if len(token) > LONGEST_TOKEN or not _TOKEN.fullmatch(token):
        raise Unproven("token_refused", "this is no token")
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        raise Unproven("token_refused", "the token cannot be read") from None
    key_id = header.get("kid")
    if not isinstance(key_id, str) or not _KEY_ID.fullmatch(key_id):
        raise Unproven("token_refused", "the token names no key")
    if header.get("alg") not in ALGORITHMS or "crit" in header:
        raise Unproven("token_refused", "the token is made in a way that is not accepted")
    key = await keys.key(key_id, web)
    if key is None:
        raise Unproven("token_refused", "the token names a key that its issuer does not have")
    try:
        told: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(ALGORITHMS),
            audience=audience,
            issuer=list(issuers),
            leeway=LEEWAY_SECONDS,
            options={"require": ["exp", "iat", "aud", "iss"], "strict_aud": strict},
        )
    except jwt.PyJWTError as error:
        raise Unproven("token_refused", f"the token is refused: {type(error).__name__}") from None
    return key_id, told


def _token(call: Call) -> str:
    given = call.header("authorization")
    if not given:
        raise Unproven("token_missing")
    kind, _, token = given.partition(" ")
    if kind.lower() != "bearer":
        raise Unproven("token_refused", "Authorization holds no bearer token")
    return token


def _keys(document: bytes) -> dict[str, PyJWK]:
    import jwt

    try:
        found = jwt.PyJWKSet.from_dict(orjson.loads(document)).keys
    except (ValueError, AttributeError, TypeError, jwt.PyJWTError) as error:
        raise Unavailable(f"the keys of a token's issuer cannot be read: {error}") from error
    # A key that both sides know (oct) would make everyone who can read it an issuer.
    return {k.key_id: k for k in found if k.key_id and k.key_type in ("RSA", "EC")}
