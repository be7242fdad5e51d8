"""What a page must not do, whatever is in the ledger and whoever asks."""

from __future__ import annotations

import base64
import html
import json
import re
from typing import TypeGuard

import pytest
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from tests.console.visit import BROWSER, Markup, Visitor, hidden, visitor
from tests.server.doors import app_of, ask
from tests.server.shelf import shelf, thing
from tests.world import World, change

import headgate as hg
from headgate.ledger import quarantine, redrive
from headgate.model.redrive import Terms
from headgate.server.console.page import path_of
from headgate.server.console.routes import ROUTERS

EVIL = "<script>window.stolen=1</script>\"'><img src=x onerror=window.stolen=1>"
_SQUARE = [[[7, 46], [8, 46], [8, 47], [7, 47], [7, 46]]]


async def evil_world(world: World) -> None:
    """A ledger in which names, errors, payloads, people and reasons are markup."""
    rain = world.pipeline("rain")

    @rain.validate
    def sound(obj: hg.Object) -> None:
        raise hg.Permanent(f"refused: {EVIL} {obj.read().decode()}")

    await world.receive(rain, change(f"bad/{EVIL}", EVIL.encode()))
    await world.receive(rain, change(f"worse/{EVIL}", EVIL.encode()))
    await world.run(rain)
    entry = await world.val("SELECT min(entry) FROM headgate.quarantine")
    await quarantine.discard(world.db, [entry], because=EVIL, actor=EVIL)
    await quarantine.undiscard(world.db, [entry], because=EVIL, actor=EVIL)
    await redrive.plan(world.db, redrive.Wanted(), Terms(canary=1), because=EVIL, actor=EVIL)
    soil = shelf(
        "soil", world.lake, dataset=hg.Dataset("soil", title=EVIL, description=EVIL, publisher=EVIL)
    )
    place = {"type": "Polygon", "coordinates": _SQUARE}
    await world.receive(soil, change(f"field/{EVIL}", thing(place, id="north", said=EVIL)))
    await world.run(soil)


def routes() -> list[str]:
    """The address of every page of the console."""
    found = [route.path for router in ROUTERS for route in router.routes if _is_page(route)]
    return sorted(found)


def _is_page(route: BaseRoute) -> TypeGuard[APIRoute]:
    return (
        isinstance(route, APIRoute)
        and "GET" in (route.methods or ())
        and not route.path.startswith("/console/")
    )


def fill(path: str, entry: int) -> str:
    """An address with something of the evil world in the place of its parameters."""
    name = "soil" if "datasets" in path else "rain"
    path = path.replace("{name}", name).replace("{item:path}", "north")
    return re.sub(r"\{\w+\}", str(entry), path)


PLAIN = [path for path in routes() if "{" not in path]


async def test_whatever_is_in_the_ledger_shows_as_text(world: World) -> None:
    """Names, errors, payloads, people and reasons that are markup are read, and never run."""
    await evil_world(world)
    steward = await visitor(await app_of(world.db), world.db)
    entries = [row[0] for row in await world.rows("SELECT id FROM headgate.entry ORDER BY id")]
    told = ""
    for path in sorted({fill(path, entry) for path in routes() for entry in entries}):
        page = (await steward.get(path)).body.decode()
        assert EVIL not in page, path
        assert "<img src=x" not in page, path
        assert Markup(page).runs == [], path
        told += page
    assert html.escape(EVIL).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in told


@pytest.mark.parametrize("path", PLAIN)
async def test_a_page_guards_itself(world: World, path: str) -> None:
    """No inline anything, no frame around it, nothing kept by a browser or a proxy."""
    await evil_world(world)
    app = await app_of(world.db)
    answer = await (await visitor(app, world.db)).get(path)
    assert answer.status == 200
    policy = dict(
        part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"
    stranger = await ask(app, "GET", path, BROWSER)
    assert stranger.status == 303
    assert stranger.headers["location"].startswith("/login?next=")
    assert (await ask(app, "GET", path, {"host": "localhost"})).status == 401


ELSEWHERE = [
    "https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil.example",
    "javascript:1", "/ok\r\nSet-Cookie: a=b", "/ok\nX: y", "evil", "", "/\t/evil.example", "/\x00",
]  # fmt: skip


@pytest.mark.parametrize("where", ELSEWHERE)
async def test_nobody_is_sent_elsewhere_and_no_header_is_smuggled(world: World, where: str) -> None:
    """A link to us that says where to go next goes to a page of ours, in one header."""
    app = await app_of(world.db)
    someone = await visitor(app, world.db)
    answer = await someone.get("/console/theme/dark?" + _query(where))
    assert answer.status == 303
    assert answer.headers["location"] == "/"
    assert "a=b" not in answer.headers["set-cookie"]
    assert path_of(where) == "/"


def _query(where: str) -> str:
    from urllib.parse import urlencode

    return urlencode({"next": where})


async def test_a_theme_is_a_word_of_ours(world: World) -> None:
    """Whatever the cookie holds, a page has one of three themes."""
    app = await app_of(world.db)
    someone = await visitor(app, world.db)
    assert (await someone.get("/console/theme/pink")).status == 404
    for said, shown in {"dark": "dark", "light": "light", '"><b>': "auto", "": "auto"}.items():
        someone_else = Visitor(app, f"{someone.cookie}; headgate_theme={said}")
        assert f'data-theme="{shown}"' in await someone_else.page("/")


async def test_a_form_of_another_page_changes_nothing(world: World) -> None:
    """Without the form's own token, with another session's, or from another origin: 403."""
    app = await app_of(world.db)
    mine, other = await visitor(app, world.db), await visitor(app, world.db)
    field = hidden(await mine.page("/"), "csrf")
    theirs = hidden(await other.page("/"), "csrf")
    assert field != theirs
    for said, headers in (
        ({}, {}),
        ({"csrf": theirs}, {}),
        ({"csrf": field}, {"origin": "https://evil.example"}),
        ({"csrf": field}, {"origin": "null"}),
    ):
        answer = await mine.post("/logout", said, **headers)
        assert answer.status == 403, (said, headers)
        assert b"form_refused" in answer.body
    await mine.page("/")
    assert (await mine.post("/logout", {"csrf": field})).status == 303
    assert (await mine.get("/")).status == 303


async def test_a_flash_of_a_stranger_is_text_or_nothing(world: World) -> None:
    """A cookie is anybody's word: what is no message of ours is passed over, the rest is text."""
    app = await app_of(world.db)
    someone = await visitor(app, world.db)
    said = base64.urlsafe_b64encode(json.dumps([EVIL, "good", EVIL]).encode()).decode()
    page = await Visitor(app, f"{someone.cookie}; headgate_said={said}").page("/")
    assert EVIL not in page
    assert "&lt;script&gt;" in page
    odd = ["x", "e30=", base64.urlsafe_b64encode(b'["a","pink","b"]').decode(), "A" * 9000, "%00"]
    for given in odd:
        assert "data-flash" not in await Visitor(
            app, f"{someone.cookie}; headgate_said={given}"
        ).page("/")


async def test_who_is_limited_to_a_pipeline_sees_no_other(world: World) -> None:
    """Not by its name, not by its figures, not by what somebody decided about it."""
    await evil_world(world)
    app = await app_of(world.db)
    limited = await visitor(app, world.db, "viewer", ["soil"])
    for path in ("/", "/pipelines", "/activity", "/datasets"):
        page = await limited.page(path)
        assert "rain" not in page, path
    assert (await limited.get("/pipelines/rain")).status == 404
    assert "soil" in await limited.page("/pipelines/soil")


async def test_restricted_data_is_named_and_not_shown(world: World) -> None:
    """A viewer hears that a restricted dataset is there; a steward sees what is in it."""
    secret = shelf("secret", world.lake, dataset=hg.Dataset("secret", access="restricted"))
    await world.receive(secret, change("grave", thing(id="grave")))
    await world.run(secret)
    app = await app_of(world.db)
    viewer, steward = await visitor(app, world.db, "viewer"), await visitor(app, world.db)
    listed = await viewer.page("/datasets")
    assert "secret" in listed
    assert "grave" not in listed
    assert (await viewer.get("/datasets/secret")).status == 404
    assert (await viewer.get("/datasets/secret/grave")).status == 404
    assert "grave" in await steward.page("/datasets/secret")
    assert "grave" in await steward.page("/datasets/secret/grave")
