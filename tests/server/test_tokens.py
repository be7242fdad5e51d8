"""Tokens: everything that is not signed by its sender needs one, or this machine."""

from __future__ import annotations

import pytest
from tests.server import keys
from tests.server.conftest import House
from tests.server.doors import signed

from headgate.errors import UsageError
from headgate.ledger import token as tokens

HERE = ("127.0.0.1", 5000)
LOOKS = {"/metrics": "scraper", "/readyz": "scraper", "/openapi.json": "viewer"}


def test_health_is_open(house: House) -> None:
    """Whoever restarts processes needs no secret."""
    assert house.ask("GET", "/healthz").status == 200


@pytest.mark.parametrize("path", LOOKS)
def test_looks_need_a_token_of_their_role(house: House, path: str) -> None:
    """Unknown, revoked, ended, of a lower role or other kind, in the wrong place: none is good."""
    role = LOOKS[path]
    good = house.token(role)
    assert house.ask("GET", path, {"authorization": f"Bearer {good}"}).status == 200
    lower = house.ask("GET", path, {"authorization": f"Bearer {house.token('scraper')}"})
    assert lower.status == (200 if role == "scraper" else 403)
    if role != "scraper":
        assert lower.reason == "role_needed"
    revoked, ended = house.token(role), house.token(role, seconds=0.001)
    assert house.do(tokens.revoke(house.db, revoked.split("_")[1]))
    tampered = good[:-1] + ("A" if good[-1] != "A" else "B")
    for wrong in (
        revoked,
        ended,
        house.token("admin", kind="session"),
        house.token("admin", kind="ticket"),
        tampered,
        good.upper(),
        good[:-1],
        good + "a",
        good[3:],
        "",
        "hg_",
    ):
        assert house.ask("GET", path, {"authorization": f"Bearer {wrong}"}).reason == "token_needed"
    for headers in (
        [],
        [("authorization", good)],
        [("authorization", f"Basic {good}")],
        [("authorization", f"Bearer {good}")] * 2,
        [("cookie", f"token={good}")],
        [("x-api-key", good)],
    ):
        assert house.ask("GET", path, headers).status == 401
    assert house.ask("GET", f"{path}?token={good}").status == 401


@pytest.mark.parametrize("path", LOOKS)
def test_this_machine_may_look_but_no_proxy_on_it(house: House, path: str) -> None:
    """A proxy beside us makes everyone look local: what it adds gives it away."""
    assert house.ask("GET", path, client=HERE).status == 200
    for header in ("x-forwarded-for", "forwarded", "via", "x-real-ip", "x-forwarded-host"):
        assert house.ask("GET", path, {header: "127.0.0.1"}, client=HERE).status == 401
    for name in ("localhost:8420", "127.0.0.1", "[::1]:80"):
        assert house.ask("GET", path, {"host": name}, client=HERE).status == 200
    for name in ("attacker.example", "127.0.0.1.attacker.example", "localhost.attacker.example"):
        assert house.ask("GET", path, {"host": name}, client=HERE).reason == "host_unknown"
    for spoofed in ("x-forwarded-for", "host", "x-client-ip"):
        assert house.ask("GET", path, {spoofed: "127.0.0.1"}).status == 401


def test_what_became_of_a_request_is_told_to_readers(house: House) -> None:
    """The first answer and where the entry is now; not even this machine without a token."""
    house.ask("POST", "/hooks/standard", signed(keys.STANDARD_NEW, b"{}", id="to/ld"), b"{}")
    where = "/hooks/standard/requests/to/ld"
    reader = {"authorization": f"Bearer {house.token('viewer')}"}
    said = house.ask("GET", where, reader)
    assert (said.status, said.json["verdict"], said.json["now"]["status"]) == (
        200, "admitted", "received",
    )  # fmt: skip
    assert house.ask("GET", where, client=HERE).status == 401
    assert house.ask("GET", "/hooks/standard/requests/other", reader).reason == "unknown_request"


def test_a_token_is_stored_as_its_hash(house: House) -> None:
    """Who reads the ledger cannot use what is in it."""
    made = house.token("viewer")
    rows = house.do(house.db.fetch("SELECT t::text AS row FROM headgate.token t"))
    assert made.split("_", 2)[2] not in str(rows)
    for wrong in (
        ("x", "root", 60.0),
        (" ", "viewer", 60.0),
        ("x", "", 60.0),
        ("x", "viewer", 0),
    ):
        with pytest.raises(UsageError):
            house.do(tokens.make(house.db, *wrong))
    with pytest.raises(UsageError):
        house.do(tokens.make(house.db, "x", "viewer", 60.0, pipelines=[]))
