"""OIDC: people and programs that an issuer of yours vouches for.

A token that is not one of ours is read as one of the issuer's: signed by a key that it publishes,
for our audience, not ended. What one of its claims says is mapped to a role; who has none mapped is
known, and may nothing. Keys are fetched when they are first needed, kept for an hour, and looked
for anew when a token names one that is not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlsplit

import orjson

from headgate.errors import ConfigError, Unavailable
from headgate.model.call import Unproven, Web
from headgate.model.role import ROLES, Principal, Role
from headgate.net import bearer
from headgate.runtime.tuning import Tuning
from headgate.telemetry.log import get_logger

from .problem import Refusal

log = get_logger("headgate.serve")

DISCOVERY = "/.well-known/openid-configuration"
NAME_CHARACTERS = 100
RETRY_AFTER_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Terms:
    """Whom we believe, and what their words mean here. `claim` may lead inside: `realm.roles`."""

    issuer: str
    audience: str
    claim: str
    roles: Mapping[str, Role]

    @classmethod
    def of(cls, tuning: Tuning) -> Terms | None:
        """As the settings have it; None when there is no issuer. Raises `ConfigError`."""
        if not tuning.oidc_issuer:
            return None
        if not tuning.oidc_audience or not tuning.oidc_roles:
            raise ConfigError(
                "oidc_issuer needs oidc_audience and oidc_roles beside it",
                hint="HEADGATE_OIDC_AUDIENCE=headgate HEADGATE_OIDC_ROLES='data-team=operator'",
            )
        roles: dict[str, Role] = {}
        for pair in tuning.oidc_roles.split(","):
            word, _, role = (part.strip() for part in pair.partition("="))
            if not word or role not in ROLES:
                raise ConfigError(
                    f"oidc_roles: {pair.strip()!r} is no word and role",
                    hint=f"write word=role, with a role of {', '.join(ROLES)}",
                )
            roles[word] = role
        return cls(tuning.oidc_issuer, tuning.oidc_audience, tuning.oidc_role_claim, roles)


class Issuer:
    """One issuer, asked for its keys when they are needed."""

    def __init__(self, terms: Terms, web: Web) -> None:
        self._terms = terms
        self._web = web
        self._keys: bearer.Keys | None = None
        self._finding = asyncio.Lock()

    async def principal(self, token: str) -> Principal:
        """Who holds this token. Raises `Refusal`."""
        terms = self._terms
        try:
            keys = await self._found()
            _, told = await bearer.read(
                token,
                keys,
                self._web,
                audience=terms.audience,
                issuers=(terms.issuer,),
                strict=False,
            )
        except Unproven as error:
            raise Refusal("token_needed", str(error)) from error
        except Unavailable as error:
            log.warning("keys cannot be fetched", issuer=terms.issuer, why=str(error))
            raise Refusal("keys_unavailable", retry_after=RETRY_AFTER_SECONDS) from error
        subject = told.get("sub")
        if not isinstance(subject, str) or not subject:
            raise Refusal("token_needed", "the token says nothing about who holds it")
        ends = datetime.fromtimestamp(told["exp"], UTC)
        id = f"{terms.issuer}#{subject}"
        return Principal(_name(told, subject), self._role(told), None, "oidc", id, ends)

    def _role(self, told: Mapping[str, Any]) -> Role:
        said: object = told
        for part in self._terms.claim.split("."):
            said = cast("Mapping[str, object]", said).get(part) if isinstance(said, dict) else None
        words = [said] if isinstance(said, str) else said
        found: list[Role] = [
            self._terms.roles[word]
            for word in cast("list[object]", words if isinstance(words, list) else [])
            if isinstance(word, str) and word in self._terms.roles
        ]
        if not found:
            raise Refusal("role_needed", f"nothing in {self._terms.claim!r} has a role here")
        return ROLES[max(ROLES.index(role) for role in found)]

    async def _found(self) -> bearer.Keys:
        """Where its keys are, by its own description. Raises `Unavailable`."""
        async with self._finding:
            if self._keys is None:
                self._keys = await self._discover()
        return self._keys

    async def _discover(self) -> bearer.Keys:
        issuer = self._terms.issuer
        raw = await self._web.get(issuer.rstrip("/") + DISCOVERY, trusted=True)
        try:
            said: Any = orjson.loads(raw)
            named, where = said["issuer"], said["jwks_uri"]
        except (ValueError, TypeError, KeyError) as error:
            raise Unavailable(f"{issuer} does not describe itself", upstream=issuer) from error
        if named != issuer or not isinstance(where, str):
            raise Unavailable(f"{issuer} says that it is {named!r}", upstream=issuer)
        # The operator wrote the issuer's address. One that leads elsewhere passes the guard.
        same = urlsplit(where).netloc == urlsplit(issuer).netloc
        return bearer.Keys(where, trusted=same)


def _name(told: Mapping[str, Any], subject: str) -> str:
    """What people call them; an address only if it is verified."""
    said = [told.get("preferred_username")]
    if told.get("email_verified") is True:
        said.append(told.get("email"))
    for one in (*said, subject):
        if isinstance(one, str) and one.strip() and one.isprintable():
            return one.strip()[:NAME_CHARACTERS]
    return "somebody"
