"""Sessions: how somebody signs in with a browser, and what its cookie is good for."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from tests.console.visit import Markup
from tests.server.conftest import House
from tests.server.doors import Answer, app_of, ask

from headgate.ledger import token as tokens
from headgate.server.console.page import path_of
from headgate.server.cookie import form_token

FORM = {"content-type": "application/x-www-form-urlencoded", "host": "localhost"}
HTML = {"accept": "text/html,*/*", "host": "localhost"}


def post(house: House, path: str, said: dict[str, str], **headers: str) -> Answer:
    sent = {**FORM, **{k.replace("_", "-"): v for k, v in headers.items()}}
    return house.ask("POST", path, sent, urlencode(said).encode())


def signed_in(house: House, role: str = "operator", **limits: Any) -> str:
    """The cookie of a new session."""
    answer = post(house, "/login", {"token": house.token(role, **limits)})
    assert answer.status == 303
    return answer.headers["set-cookie"].partition(";")[0]


def form(house: House, cookie: str) -> str:
    """The token that a form of this session has."""

    class Asked:
        app = house.app
        cookies = dict([cookie.split("=", 1)])  # noqa: RUF012 (one request)

    return form_token(Asked())  # type: ignore[arg-type]


def test_a_ticket_signs_in_once(house: House) -> None:
    """The link only shows a page; its button signs in; the second one who has the link is late."""
    ticket = house.token("steward", kind="ticket")
    page = house.ask("GET", f"/login?ticket={ticket}&next=/changes", HTML)
    assert page.status == 200
    assert ticket.encode() in page.body
    first = post(house, "/login", {"token": ticket, "next": "/changes"})
    assert (first.status, first.headers["location"]) == (303, "/changes")
    second = post(house, "/login", {"token": ticket})
    assert (second.status, second.reason) == (401, "token_needed")
    late = house.token("steward", kind="ticket")
    house.do(house.db.execute("UPDATE headgate.token SET expires_at = clock_timestamp()"))
    assert post(house, "/login", {"token": late}).status == 401
    assert house.ask("GET", "/metrics", {"authorization": f"Bearer {ticket}"}).status == 401


def test_a_cookie_is_for_this_site_and_no_script(house: House) -> None:
    """HttpOnly, Strict, for the whole site; over https also Secure and for this host alone."""
    said = post(house, "/login", {"token": house.token("viewer")}).headers["set-cookie"].lower()
    assert said.startswith("headgate=hg_")
    assert {"httponly", "samesite=strict", "path=/"} <= {part.strip() for part in said.split(";")}
    assert "domain" not in said

    async def over_https() -> str:
        app = await app_of(house.db, url="https://headgate.example")
        token = (await tokens.make(house.db, "t", "viewer", 60)).token
        body = urlencode({"token": token}).encode()
        return (await ask(app, "POST", "/login", FORM, body)).headers["set-cookie"].lower()

    secure = house.do(over_https())
    assert secure.startswith("__host-headgate=hg_")
    assert "secure" in {part.strip() for part in secure.split(";")}


def test_a_session_ends_with_its_token_its_time_and_its_sign_out(house: House) -> None:
    """And is worth nothing as a bearer token."""
    token = house.token("viewer")
    answer = post(house, "/login", {"token": token})
    cookie = answer.headers["set-cookie"].partition(";")[0]
    assert int(answer.headers["set-cookie"].split("Max-Age=")[1].split(";")[0]) <= 60
    look = {"cookie": cookie, "host": "localhost"}
    assert house.ask("GET", "/openapi.json", look).status == 200
    bare = cookie.partition("=")[2]
    assert house.ask("GET", "/openapi.json", {"authorization": f"Bearer {bare}"}).status == 401
    house.do(tokens.revoke(house.db, token.split("_")[1]))
    assert house.ask("GET", "/openapi.json", look).status == 401
    other = signed_in(house)
    out = post(house, "/logout", {"csrf": form(house, other)}, cookie=other)
    assert (out.status, out.headers["location"]) == (303, "/login")
    assert "Max-Age=0" in out.headers["set-cookie"]
    assert house.ask("GET", "/openapi.json", {"cookie": other}).status == 401


def test_a_stolen_click_changes_nothing(house: House) -> None:
    """A cookie without its form's token, with another's, or from another origin is refused."""
    cookie, other = signed_in(house), signed_in(house)
    good = form(house, cookie)
    for said, headers in (
        ({}, {}),
        ({"csrf": ""}, {}),
        ({"csrf": form(house, other)}, {}),
        ({"csrf": good + "x"}, {}),
        ({"csrf": good}, {"origin": "https://attacker.example"}),
        ({"csrf": good}, {"origin": "null"}),
        ({"csrf": good}, {"sec_fetch_site": "cross-site"}),
        ({"csrf": good}, {"sec_fetch_site": "same-site"}),
        ({"csrf": good}, {"content_type": "text/plain"}),
        ({}, {"x_csrf_token": form(house, other)}),
    ):
        answer = post(house, "/logout", said, cookie=cookie, **headers)
        assert (answer.status, answer.reason) == (403, "form_refused"), (said, headers)
    wrong_name = post(house, "/logout", {"csrf": good}, cookie=cookie, host="attacker.example")
    assert wrong_name.reason == "host_unknown"
    look = house.ask("GET", "/openapi.json", {"cookie": cookie, "host": "attacker.example"})
    assert look.reason == "host_unknown"
    assert house.ask("GET", "/openapi.json", {"cookie": cookie}).status == 200
    fine = {"origin": "http://localhost", "sec_fetch_site": "same-origin"}
    assert post(house, "/logout", {"csrf": good}, cookie=cookie, **fine).status == 303


def test_nobody_is_signed_in_by_somebody_elses_page(house: House) -> None:
    """A page that signs its visitor in under its own account would learn what they do next."""
    token = house.token("viewer")
    stranger = post(house, "/login", {"token": token}, origin="https://attacker.example")
    assert stranger.reason == "form_refused"
    assert post(house, "/login", {"token": token}, host="attacker.example").reason == "host_unknown"


def test_a_browser_is_led_to_the_page_to_sign_in_and_back(house: House) -> None:
    """And to no other place, whatever the address says."""
    led = house.ask("GET", "/openapi.json?a=b&c=d", HTML)
    assert (led.status, led.headers["location"]) == (
        303,
        "/login?next=%2Fopenapi.json%3Fa%3Db%26c%3Dd",
    )
    assert house.ask("GET", "/openapi.json", {"accept": "application/json"}).status == 401
    for bad in (
        "//attacker.example", "/\\attacker.example", "https://attacker.example", "/a\r\nX: y",
        "javascript:alert(1)", "/a b", "/\t/attacker.example", "", "/\\/x", "/a\\b",
    ):  # fmt: skip
        assert path_of(bad) == "/", bad
        said = {"token": house.token("viewer"), "next": bad}
        assert post(house, "/login", said).headers["location"] == "/"
    assert path_of("/entries?status=waiting#top") == "/entries?status=waiting#top"


def test_pages_are_shut_against_scripts_frames_and_guessing(house: House) -> None:
    """No inline script, no frame, nothing kept, no type guessed; what is shown is text."""
    evil = '"><script>alert(1)</script>'
    page = house.ask("GET", f"/login?ticket={urlencode({'': evil})[1:]}", HTML)
    assert Markup(page.body.decode()).runs == []
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "same-origin"
    assert page.headers["x-frame-options"] == "DENY"
    assert house.ask("GET", "/healthz").headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/nothing", "/v1/nothing", "/../etc/passwd", "/login/x", "/%00"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "TRACE", "BREW"])
def test_what_is_not_there_is_told_to_nobody_unknown(house: House, path: str, method: str) -> None:
    """401 to strangers, 404 to who is signed in: addresses cannot be guessed from outside."""
    assert house.ask(method, path).status == 401
    assert house.ask(method, path, {"authorization": "Bearer hg_x"}).status == 401
    known = {"authorization": f"Bearer {house.token('scraper')}"}
    assert house.ask(method, path, known).status == 404


async def test_of_two_who_bring_a_ticket_one_signs_in(world: Any) -> None:
    """At the same moment, too."""
    import asyncio

    ticket = (await tokens.make(world.db, "t", "admin", 60, kind="ticket")).token
    got = await asyncio.gather(*(tokens.sign_in(world.db, ticket) for _ in range(8)))
    assert sum(one is not None for one in got) == 1
