"""Restricted data is read by nobody who may not: on no page, in no document, by no question."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from tests.server.doors import Answer, app_of, ask
from tests.world import World, change

import headgate as hg
from headgate.ledger import quarantine, redrive, revert
from headgate.ledger import token as tokens
from headgate.ledger.redrive import Wanted
from headgate.model.redrive import Terms
from headgate.server.access import Needs, need_of

SECRET = "hush-hush"
# They go on until their reader leaves: `test_live.py` and `test_changes_stream` read them.
STREAMS = {"/v1/changes/stream", "/live"}


async def salted(world: World) -> FastAPI:
    """A restricted pipeline with one of everything, and the word in all that the data says."""
    salt = world.pipeline("salt", dataset=hg.Dataset("salt", access="restricted"))

    @salt.validate
    def refuse(obj: hg.Object) -> Any:
        if "bad" in obj.text():
            raise hg.Permanent(f"row 7 says {SECRET}-error", reason="broken")
        return hg.Check("looked", True, text=f"looked at {SECRET}-check")

    @salt.transform
    def keep(obj: hg.Object) -> Any:
        return {f"{SECRET}-file.json": obj.read()}

    @salt.item
    def where(item: dict[str, Any], obj: hg.Object) -> None:
        item["properties"]["said"] = f"{SECRET}-property"

    for minute, data in enumerate(("one", "two")):
        await world.receive(salt, _change("uri", data, minute))
        await world.run(salt)
    await world.receive(salt, *(_change(str(n), f"bad {n}") for n in range(3)))
    await world.run(salt)
    aside = [e for (e,) in await world.rows("SELECT entry FROM headgate.quarantine ORDER BY 1")]
    await quarantine.discard(world.db, aside[:1], because="a test", actor="t")
    await redrive.plan(world.db, Wanted(pipeline="salt"), Terms(), because="a test", actor="t")
    await revert.ask(world.db, 2, because="a test", actor="t")
    await world.run(salt)
    return await app_of(world.db, salt)


def _change(name: str, data: str, minute: float = 0) -> hg.Envelope:
    uri, said = f"{SECRET}-{name}", f"{SECRET}-{data}"
    return change(uri, said, event=f"{said}-event", subject=f"{uri}-subject", minute=minute)


async def addresses(world: World, app: FastAPI) -> list[str]:
    """Every address that is read, with what there is in its holes; and questions to it."""
    aside = await world.val("SELECT max(entry) FROM headgate.quarantine")
    listed = (await get(app, "/v1/changes", await by(world, "admin"))).json["changes"]
    changes = [told["change_event_id"] for told in listed]
    holes: dict[str, list[str]] = {
        "entry": ["1", "2", str(aside)],
        "id": ["1"],
        "name": ["salt", "qa.json", "provenance.prov.jsonld"],
        "run": ["1-1", "2-1"],
        "change_event_id": changes,
        "pipeline": ["salt"],
        "item": ["nothing"],
        "which": ["1", "2", str(aside)],
    }
    found: list[str] = []
    for route in app.router.routes:
        if not isinstance(route, APIRoute) or "GET" not in (route.methods or ()):
            continue
        if not isinstance(need_of(route), Needs) or route.path in STREAMS:
            continue
        if route.path.startswith(
            ("/stac", "/hooks", "/metrics", "/readyz", "/openapi", "/v1/tokens")
        ):
            continue
        made = [route.path]
        for hole in re.findall(r"{(\w+)(?::path)?}", route.path):
            filling = holes.get(hole, ["1"])
            made = [re.sub(r"{" + hole + r"(:path)?}", f, path) for path in made for f in filling]
        found += made
    return found


async def by(world: World, role: str, **limits: Any) -> dict[str, str]:
    made = await tokens.make(world.db, role, role, 600, **limits)
    return {"authorization": f"Bearer {made.token}", "accept": "text/html, application/json"}


async def get(app: FastAPI, path: str, who: dict[str, str]) -> Answer:
    return await ask(app, "GET", path, who)


async def test_no_page_and_no_document_has_a_word_of_it(world: World) -> None:
    """Every address that can be read, by who may read it; and by a steward of other pipelines."""
    app = await salted(world)
    steward = await by(world, "steward")
    others = [
        await by(world, "viewer"),
        await by(world, "operator"),
        await by(world, "steward", pipelines=["other"]),
    ]
    said: set[str] = set()
    for path in await addresses(world, app):
        if SECRET.encode() in (await get(app, path, steward)).body:
            said.add(path)
        for who in others:
            answer = await get(app, path, who)
            assert answer.status in (200, 400, 403, 404), (path, answer.status, answer.body[:200])
            assert SECRET.encode() not in answer.body, (path, _around(answer.body))
    # The steward reads it where it belongs: or this test has looked at nothing.
    assert len(said) > 8, said


def _around(body: bytes) -> bytes:
    at = body.find(SECRET.encode())
    return body[max(0, at - 80) : at + 40]


async def test_no_question_finds_out_what_may_not_be_read(world: World) -> None:
    """A filter that restricted data answers would tell it a letter at a time."""
    app = await salted(world)
    who, steward = await by(world, "operator"), await by(world, "steward")
    found: set[str] = set()
    for route in app.router.routes:
        if not isinstance(route, APIRoute) or route.path in STREAMS or "{" in route.path:
            continue
        names = {p.alias for p in route.dependant.query_params}
        for name in sorted(names & {"uri", "uri_prefix", "q", "search", "key", "subject", "text"}):
            none = await get(app, f"{route.path}?{name}=test://nothing-like-it", who)
            for guess in (SECRET, f"test://{SECRET}", f"*{SECRET}*"):
                question = f"{route.path}?{name}={guess}"
                assert rows(await get(app, question, who)) == rows(none), question
                if rows(await get(app, question, steward)):
                    found.add(route.path)
    assert {"/v1/changes", "/v1/entries", "/v1/publications"} <= found


def rows(answer: Answer) -> int | None:
    """How many the first list of a document has; of a page, how many rows its tables have."""
    if answer.headers["content-type"].startswith("text/html"):
        return answer.body.count(b"<tr")
    told = answer.json.values()
    return next((len(v) for v in told if isinstance(v, list)), None)
