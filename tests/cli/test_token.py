"""`headgate token`: made once, shown once, ended at will."""

from __future__ import annotations

import socket

from tests.cli.conftest import Headgate


def test_a_token_is_made_listed_and_ended(headgate: Headgate) -> None:
    """It is on stdout alone; the list knows it by its id; a second end is an error."""
    assert headgate("db", "migrate").code == 0
    made = headgate("token", "create", "prometheus", "--role", "scraper", "--for", "30d")
    assert made.code == 0, made.err
    token = made.out.strip()
    assert token.startswith("hg_")
    assert "cannot be shown again" in made.err
    listed = headgate("token", "list", "--json").json["tokens"]
    (one,) = listed
    assert (one["name"], one["role"], one["state"]) == ("prometheus", "scraper", "good")
    assert token not in headgate("token", "list").out
    assert headgate("token", "revoke", one["id"]).code == 0
    assert headgate("token", "list", "--json").json["tokens"][0]["state"] == "revoked"
    again = headgate("token", "revoke", one["id"])
    assert (again.code, "headgate token list" in again.err) == (2, True)


def test_a_role_that_is_not_there_is_named(headgate: Headgate) -> None:
    """Exit 2, and the roles there are."""
    assert headgate("db", "migrate").code == 0
    said = headgate("token", "create", "x", "--role", "root")
    assert said.code == 2
    assert "scraper, viewer, operator" in said.err


def test_a_token_may_be_limited_to_pipelines(headgate: Headgate) -> None:
    """The list says which; sessions are listed when they are asked for."""
    assert headgate("db", "migrate").code == 0
    create = ("token", "create", "shift", "--role", "operator", "--pipeline", "rain")
    made = headgate(*create, "--pipeline", "snow", "--json").json
    assert (made["role"], made["pipelines"]) == ("operator", ["rain", "snow"])
    assert "rain, snow" in headgate("token", "list", "--sessions").out


def test_the_link_to_the_console_holds_a_ticket(headgate: Headgate) -> None:
    """It leads where the server is reached, and is not listed among the tokens."""
    assert headgate("db", "migrate").code == 0
    said = headgate("console", "--role", "viewer")
    assert said.out.startswith("http://127.0.0.1:8420/login?ticket=hg_")
    assert "viewer" in said.err
    assert headgate("token", "list", "--sessions", "--json").json["tokens"] == []
    assert headgate("console", "--role", "root").code == 2
    told = headgate("console", "--json", HEADGATE_SERVE_URL="https://headgate.example").json
    assert told["url"].startswith("https://headgate.example/login?ticket=hg_")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        said = headgate("console", HEADGATE_SERVE_PORT=port)
        assert (said.code, "Nothing answers there" in said.err) == (0, False)
    said = headgate("console", HEADGATE_SERVE_PORT=port)
    assert (said.code, "Nothing answers there" in said.err) == (0, True)
    nowhere = headgate("console", HEADGATE_SERVE_PORT="0")
    assert (nowhere.code, "HEADGATE_SERVE_URL" in nowhere.err) == (2, True)
