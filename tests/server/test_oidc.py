"""OIDC: who an issuer of yours vouches for, with the role that its words have here."""

from __future__ import annotations

import json
import time
from typing import Any

import jwt
import pytest
from fastapi import FastAPI
from tests.server import keys
from tests.server.doors import Answer, Dark, app_of, ask
from tests.world import World

from headgate.errors import ConfigError
from headgate.net import bearer
from headgate.runtime.tuning import Tuning
from headgate.server.oidc import Terms

ISSUER = "https://login.example/realms/main"
KEYS = f"{ISSUER}/certs"
TUNING = Tuning(
    oidc_issuer=ISSUER,
    oidc_audience="headgate",
    oidc_role_claim="realm_access.roles",
    oidc_roles="data-team=operator, readers = viewer, boss=admin",
)


def pages(*names: str, **said: Any) -> dict[str, bytes]:
    about = {"issuer": ISSUER, "jwks_uri": KEYS, **said}
    known = {"keys": [keys.jwk(keys.rsa_key(name), name) for name in names]}
    return {
        f"{ISSUER}/.well-known/openid-configuration": json.dumps(about).encode(),
        KEYS: json.dumps(known).encode(),
    }


def token(*roles: str, key: str = "one", kid: str | None = None, **claims: Any) -> str:
    now = int(time.time())
    told: dict[str, Any] = {
        "iss": ISSUER,
        "aud": ["account", "headgate"],
        "sub": "0001",
        "iat": now,
        "exp": now + 60,
        "preferred_username": "olga",
        "realm_access": {"roles": list(roles)},
        **claims,
    }
    told = {name: value for name, value in told.items() if value is not None}
    return jwt.encode(told, keys.rsa_key(key), "RS256", {"kid": kid or key})


async def look(app: FastAPI, given: str, path: str = "/openapi.json") -> Answer:
    return await ask(app, "GET", path, {"authorization": f"Bearer {given}"})


async def test_a_claim_has_a_role_and_the_highest_counts(world: World) -> None:
    """Whose words mean nothing here is known, and may nothing."""
    app = await app_of(world.db, web=Dark(pages("one")), tuning=TUNING)
    assert (await look(app, token("readers"))).status == 200
    assert (await look(app, token("readers"), "/v1/tokens")).reason == "role_needed"
    assert (await look(app, token("readers", "boss", "x"), "/v1/tokens")).status == 200
    for nothing in (
        token("strangers"),
        token(realm_access=None),
        token(realm_access="boss"),
        token(realm_access={"roles": {"boss": True}}),
        token(realm_access={"roles": [["boss"]]}),
    ):
        said = await look(app, nothing)
        assert (said.status, said.reason) == (403, "role_needed")
    assert (await look(app, token(realm_access={"roles": "boss"}), "/v1/tokens")).status == 200


async def test_what_somebody_does_is_kept_with_the_name_the_issuer_gives(world: World) -> None:
    """An unverified address is not a name."""
    app = await app_of(world.db, web=Dark(pages("one")), tuning=TUNING)
    for claims in ({}, {"preferred_username": None, "email": "boss@example"}):
        made = await ask(
            app,
            "POST",
            "/v1/tokens",
            {"authorization": f"Bearer {token('boss', **claims)}"},
            json.dumps({"name": "t", "role": "viewer", "because": "why not"}).encode(),
        )
        assert made.status == 200
    actors = [
        actor for (actor,) in await world.rows("SELECT actor FROM headgate.action ORDER BY id")
    ]
    assert actors == ["olga", "0001"]


async def test_a_token_of_anybody_else_is_none(world: World) -> None:
    """Another key, audience, issuer, time or algorithm; a token that leads us to its own keys."""
    app = await app_of(world.db, web=Dark(pages("one")), tuning=TUNING)
    now = int(time.time())
    secret = jwt.encode({"iss": ISSUER, "aud": "headgate"}, "x" * 32, "HS256", {"kid": "one"})
    public = keys.public_pem(keys.rsa_key("one"))
    unsigned = jwt.encode({"iss": ISSUER}, "", "none", {"kid": "one"})
    assert public
    for wrong in (
        token("boss", key="two", kid="one"),
        token("boss", key="two"),
        token("boss", aud="other"),
        token("boss", aud=None),
        token("boss", iss="https://login.example/realms/other"),
        token("boss", iss=None),
        token("boss", exp=now - 60),
        token("boss", exp=None),
        token("boss", iat=None),
        token("boss", nbf=now + 600),
        token("boss", sub=None),
        token("boss", sub=""),
        token("boss", sub=7),
        token("boss")[:-4] + "AAAA",
        secret,
        unsigned,
        "x.y.z",
        "a" * 9000,
        "hg_" + token("boss"),
    ):
        said = await look(app, wrong)
        assert (said.status, said.reason) == (401, "token_needed"), wrong[:40]


async def test_keys_are_kept_and_looked_for_anew_when_they_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An issuer that turns its keys is asked again, and not for every token that names none."""
    web = Dark(pages("one"))
    app = await app_of(world.db, web=web, tuning=TUNING)
    for _ in range(3):
        assert (await look(app, token("readers"))).status == 200
    assert len(web.asked) == 2
    web.pages = pages("two")
    assert (await look(app, token("readers", key="two"))).status == 401  # asked a moment ago
    monkeypatch.setattr(bearer, "ASK_AGAIN_SECONDS", -1.0)
    assert (await look(app, token("readers", key="two"))).status == 200
    assert (await look(app, token("readers", key="one"))).status == 401


async def test_an_issuer_that_is_away_or_is_another_is_not_believed(world: World) -> None:
    """503, to be asked again; tokens of our own are good meanwhile."""
    for broken in (
        {},
        pages("one", issuer="https://evil.example"),
        pages("one", jwks_uri=7),
        {f"{ISSUER}/.well-known/openid-configuration": b"<html>"},
    ):
        app = await app_of(world.db, web=Dark(broken), tuning=TUNING)
        said = await look(app, token("boss"))
        assert (said.status, said.reason) == (503, "keys_unavailable")
        assert said.headers["retry-after"]
    assert (await look(app, "hg_nothing")).status == 401


def test_settings_that_say_half_are_refused() -> None:
    """An issuer needs an audience and roles, and the roles are ours."""
    assert Terms.of(Tuning()) is None
    for half in (
        Tuning(oidc_issuer=ISSUER),
        Tuning(oidc_issuer=ISSUER, oidc_audience="headgate"),
        Tuning(oidc_issuer=ISSUER, oidc_audience="headgate", oidc_roles="a=root"),
        Tuning(oidc_issuer=ISSUER, oidc_audience="headgate", oidc_roles="admin"),
    ):
        with pytest.raises(ConfigError):
            Terms.of(half)
