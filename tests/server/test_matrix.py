"""Who may do what, for every address, verb and role that the API describes. None is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi.routing import APIRoute
from tests.server.conftest import House

from headgate.model.role import ROLES
from headgate.server.access import Needs, Opened, need_of
from headgate.server.app import description

VERBS = ("get", "head", "post", "put", "patch", "delete", "options")
# Whoever sits on this machine may look at these without saying who they are.
HERE = {"/metrics", "/readyz", "/openapi.json"}
# What is open, and why: its calls are signed, or there is nothing to hide.
OPEN = {
    ("get", "/healthz"), ("post", "/hooks/{pipeline}"), ("post", "/events/{provider}"),
    ("options", "/events/{provider}"), ("get", "/login"), ("post", "/login"),
}  # fmt: skip
# The role that each address needs, by what it begins with; the longest counts.
NEEDED = {
    "/": "viewer",
    "/metrics": "scraper",
    "/readyz": "scraper",
    "/logout": "scraper",
    "/v1/tokens": "admin",
}
STEWARDS = {"/v1/publications/{entry}/revert"}


def needed(verb: str, path: str) -> str:
    """The role, as the page about it says."""
    if path in STEWARDS:
        return "steward"
    begin = max((p for p in NEEDED if path.startswith(p)), key=len)
    acts = verb == "post" and path.startswith("/v1/") and not path.startswith("/v1/tokens")
    return "operator" if acts else NEEDED[begin]


def cells(house: House) -> list[tuple[str, str, dict[str, Any]]]:
    """Every address and verb that is described."""
    return [
        (verb, path, operation)
        for path, verbs in description(house.app)["paths"].items()
        for verb, operation in verbs.items()
    ]


def filled(path: str) -> str:
    """An address with something in its holes that is not there."""
    for hole, value in {
        "{pipeline}": "nothing", "{provider}": "gcs", "{id}": "987654321", "{entry}": "987654321",
        "{collection}": "nothing", "{item}": "nothing", "{name}": "nothing", "{run}": "1-1",
        "{id:path}": "x", "{name:path}": "x",
    }.items():  # fmt: skip
        path = path.replace(hole, value)
    if "{" in path:
        path = path.partition("{")[0] + "987654321" + path.partition("}")[2]
    return path


@pytest.mark.parametrize("role", [None, "expired", *ROLES])
def test_every_cell_of_role_address_and_verb(house: House, role: str | None) -> None:
    """A role too low is 403, nobody is 401; who may is answered by the route itself."""
    if role is None:
        headers: dict[str, str] = {}
    elif role == "expired":
        headers = {"authorization": f"Bearer {house.token('admin', seconds=0.001)}"}
    else:
        headers = {"authorization": f"Bearer {house.token(role)}"}
    known = cells(house)
    assert len(known) > 25
    for verb, path, _ in known:
        if path in STREAMS:
            continue
        body = json.dumps({}).encode() if verb == "post" else b""
        answer = house.ask(verb.upper(), filled(path), headers, body)
        said = f"{role} {verb} {path}: {answer.status} {answer.body[:100]!r}"
        if (verb, path) in OPEN:
            assert answer.status not in (403,), said
        elif role in (None, "expired"):
            assert (answer.status, answer.reason) == (401, "token_needed"), said
        elif ROLES.index(role) < ROLES.index(needed(verb, path)):
            assert (answer.status, answer.reason) == (403, "role_needed"), said
        else:
            assert answer.status not in (401, 403, 500), said


# They go on until their reader leaves; who may is asked before the first byte, as for any other.
STREAMS = {"/v1/changes/stream", "/live"}


@pytest.mark.parametrize("path", sorted(STREAMS))
def test_who_may_not_read_a_stream_does_not_hear_its_first_byte(house: House, path: str) -> None:
    """The streams, whose answer has no end, for those who are refused."""
    assert house.ask("GET", path).reason == "token_needed"
    low = {"authorization": f"Bearer {house.token('scraper')}"}
    assert house.ask("GET", path, low).reason == "role_needed"


def test_a_verb_that_is_not_there_is_told_to_who_may_look(house: House) -> None:
    """401 to strangers, 405 to who is known, for each address and each verb it does not have."""
    paths: dict[str, set[str]] = {}
    for verb, path, _ in cells(house):
        paths.setdefault(path, set()).add(verb)
    admin = {"authorization": f"Bearer {house.token('admin')}"}
    for path, verbs in paths.items():
        if path.startswith(("/stac", "/hooks", "/events")) or path in ("/healthz", "/login"):
            continue  # HEAD and OPTIONS are answered there; and what is open says 405 to all
        for verb in set(VERBS) - verbs:
            assert house.ask(verb.upper(), filled(path)).status == 401, (verb, path)
            # Another address may have the verb, and read this one's last word as a number.
            known = house.ask(verb.upper(), filled(path), admin)
            assert known.status in (400, 405), (verb, path)


def test_this_machine_may_look_at_nothing_more(house: House) -> None:
    """Without a token, from here: health, metrics, the description, public data. No action."""
    here = ("127.0.0.1", 5000)
    for verb, path, _ in cells(house):
        if (verb, path) in OPEN or path in HERE or path.startswith("/stac"):
            continue
        assert house.ask(verb.upper(), filled(path), client=here).status == 401, (verb, path)


def test_every_route_declares_its_need_and_what_is_open_is_listed(house: House) -> None:
    """Also those that no description names: pages, streams, files."""
    for route in house.app.router.routes:
        need = need_of(route)
        assert need is not None, route
        if isinstance(need, Opened):
            assert need.why
            if isinstance(route, APIRoute) and route.include_in_schema:
                for method in route.methods or ():
                    assert (method.lower(), route.path.replace(":path", "")) in OPEN
        elif need.here:
            path = str(getattr(route, "path", ""))
            assert path in HERE or path.startswith("/stac"), path
        else:
            assert isinstance(need, Needs)


def test_a_route_that_declares_nothing_is_refused_to_everybody(house: House) -> None:
    """Whoever adds one and forgets has added nothing; and the application would not start."""

    async def forgotten() -> str:
        return "open to all"

    house.app.add_api_route("/forgotten", forgotten)
    try:
        admin = {"authorization": f"Bearer {house.token('admin')}"}
        for headers in ({}, admin):
            assert house.ask("GET", "/forgotten", headers).reason == "not_found"
    finally:
        house.app.router.routes.pop()
