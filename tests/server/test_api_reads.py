"""What the API shows: everything that happened, in the shapes it announces, to who may see it."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from tests.server.doors import Answer, app_of, ask
from tests.world import NOON, World, change

import headgate as hg
from headgate.ledger import quarantine, redrive
from headgate.ledger import token as tokens
from headgate.model.redrive import Terms
from headgate.server.app import description

SECRET = "the-secret-well"
LISTS = (
    "/v1/changes", "/v1/entries", "/v1/entries?status=finalized", "/v1/entries?status=waiting",
    "/v1/entries?status=quarantined", "/v1/entries?uri=test://", "/v1/publications",
    "/v1/publications?all=true", "/v1/quarantine", "/v1/quarantine?discarded=true",
    "/v1/quarantine/summary", "/v1/redrives", "/v1/replays", "/v1/pipelines", "/v1/watermarks",
    "/v1/flow", "/v1/slos", "/v1/activity",
)  # fmt: skip
ONES = (
    "/v1/changes/{change}", "/v1/entries/{published}", "/v1/entries/{published}/explain",
    "/v1/entries/{aside}", "/v1/entries/{aside}/explain", "/v1/publications/{published}",
    "/v1/publications/{published}/diff", "/v1/publications/{published}/diff?from=1",
    "/v1/quarantine/{aside}", "/v1/redrives/{redrive}", "/v1/pipelines/soil",
)  # fmt: skip


class Api:
    """The API over a world in which much has happened, asked by whom one likes."""

    def __init__(self, world: World, app: Any, names: dict[str, Any]) -> None:
        self.world, self.app, self.names = world, app, names
        self.paths = description(app)["paths"]
        self._tokens: dict[str, str] = {}

    async def token(self, role: str, **limits: Any) -> str:
        return (await tokens.make(self.world.db, "test", role, 60, **limits)).token

    async def get(self, path: str, token: str, **headers: str) -> Answer:
        said = {"authorization": f"Bearer {token}", **headers}
        return await ask(self.app, "GET", path.format(**self.names), said)

    def check(self, path: str, answer: Answer) -> None:
        """Is it what the description announces?"""
        shape = next(p for p in (path.partition("?")[0], _template(path)) if p in self.paths)
        schema = self.paths[shape]["get"]["responses"]["200"]["content"]["application/json"]
        whole = {**schema["schema"], "components": description(self.app)["components"]}
        jsonschema.validate(answer.json, whole)


def _template(path: str) -> str:
    for name, said in {
        "{change}": "{change_event_id}",
        "{published}": "{entry}",
        "{aside}": "{entry}",
        "{redrive}": "{id}",
        "/pipelines/soil": "/pipelines/{name}",
    }.items():
        path = path.replace(name, said)
    return path.partition("?")[0]


async def _much(world: World) -> Api:
    """A restricted dataset with two versions, something bad, something discarded, a plan."""
    soil = world.pipeline(
        "soil",
        dataset=hg.Dataset("soil", access="restricted"),
        event_time=hg.EventTime(lateness=60),
    )
    rain = world.pipeline("rain")

    @soil.validate
    def good(obj):
        assert not obj.read().startswith(b"bad"), f"{SECRET} is bad"

    for minute, body in enumerate(("1", "2")):
        await world.receive(soil, change(f"{SECRET}/a", body, minute=minute))
        await world.run(soil)
    await world.receive(rain, change("b", b"1"))
    await world.receive(soil, *[change(f"{SECRET}/c{n}", f"bad{n}") for n in range(3)])
    await world.run(soil, rain)
    rows = await world.rows("SELECT entry FROM headgate.quarantine ORDER BY entry")
    aside = [entry for (entry,) in rows]
    await quarantine.discard(world.db, aside[:1], because="a test", actor="me")
    plan = await redrive.plan(world.db, redrive.Wanted(), Terms(), because="a test", actor="me")
    await world.run(soil)
    ((newest,),) = await world.rows(
        "SELECT max(entry) AS entry FROM headgate.publication WHERE version = 2"
    )
    ((first,),) = await world.rows("SELECT min(pos) AS pos FROM headgate.commit")
    names = {
        "change": f"{first}-1",
        "published": newest,
        "aside": aside[1],
        "redrive": plan,
    }
    return Api(world, await app_of(world.db, soil, rain), names)


async def test_every_answer_has_the_shape_that_is_announced(world: World):
    """A client that was made from the description understands what it gets."""
    api = await _much(world)
    for role in ("steward", "viewer"):
        token = await api.token(role)
        for path in (*LISTS, *ONES):
            answer = await api.get(path, token)
            assert answer.status == 200, (path, answer.body)
            api.check(path, answer)
            known = await api.get(path, token, **{"if-none-match": answer.headers["etag"]})
            assert known.status in (
                (304, 200) if path in ("/v1/flow", "/v1/watermarks") else (304,)
            )
    full = (await api.get("/v1/changes", await api.token("steward"))).json["changes"]
    assert len(full) >= 6


async def test_what_is_restricted_is_hidden_from_viewers_wherever_it_is(world: World):
    """No answer of any route has a word of it; a steward sees it."""
    api = await _much(world)
    viewer, steward = await api.token("viewer"), await api.token("steward")
    seen = 0
    for path in (*LISTS, *ONES):
        answer = await api.get(path, viewer)
        assert SECRET.encode() not in answer.body, path
        seen += SECRET.encode() in (await api.get(path, steward)).body
    assert seen > 10
    change = (await api.get("/v1/changes/{change}", viewer)).json
    assert (change["source_uri"], change["object_identity"]) == ("restricted", "restricted")
    assert change["outcome"] == "finalized"
    run = (await api.get("/v1/changes/{change}", steward)).json["prov_ref"]
    assert (await api.get(run, viewer)).reason == "restricted"
    prov = await api.get(run, steward)
    assert prov.headers["content-type"] == "application/ld+json"
    assert json.loads(prov.body)


async def test_who_is_limited_to_pipelines_sees_nothing_of_others(world: World):
    """Neither in lists nor by asking for it."""
    api = await _much(world)
    token = await api.token("steward", pipelines=["rain"])
    for path in LISTS:
        answer = await api.get(path, token)
        assert answer.status == 200, path
        assert b"soil" not in answer.body, (path, answer.body)
    for path in ONES:
        assert (await api.get(path, token)).status == 404, path
    assert (await api.get("/v1/changes?pipeline=soil", token)).json["changes"] == []
    assert (await api.get("/v1/quarantine?pipeline=soil", token)).json["entries"] == []


async def test_references_of_a_change_lead_somewhere(world: World):
    """Each can be followed, and says the same as the file beside the data."""
    api = await _much(world)
    token = await api.token("steward")
    told = (await api.get("/v1/changes?pipeline=soil&outcome=finalized", token)).json["changes"]
    for ref, kind in (
        ("delta_manifest_ref", "application/json"),
        ("prov_ref", "application/ld+json"),
        ("openlineage_ref", "application/x-ndjson"),
    ):
        answer = await api.get(told[0][ref], token)
        assert (answer.status, answer.headers["content-type"]) == (200, kind)
        name = told[0][ref].removeprefix("/v1/")
        assert answer.body == (world.lake / name).read_bytes()
    assert (await api.get("/v1/runs/999-1/qa.json", token)).reason == "unknown_run"
    assert (await api.get("/v1/runs/1-1/passwords", token)).reason == "bad_request"


async def test_lists_go_on_behind_their_cursor(world: World):
    """Page after page, nothing twice and nothing left out."""
    api = await _much(world)
    token = await api.token("steward")
    for path, what, key in (
        ("/v1/entries", "entries", "entry"),
        ("/v1/publications?all=true", "publications", "entry"),
        ("/v1/quarantine", "entries", "entry"),
        ("/v1/activity", "actions", "id"),
    ):
        mark = "&" if "?" in path else "?"
        whole = [one[key] for one in (await api.get(path, token)).json[what]]
        found: list[int] = []
        at = f"{path}{mark}limit=1"
        while True:
            page = (await api.get(at, token)).json
            found += [one[key] for one in page[what]]
            if not page["more"]:
                break
            at = f"{path}{mark}limit=1&after={page['cursor']}"
        assert found == whole == sorted(set(whole), reverse=True), path
    assert (await api.get("/v1/entries?after=x", token)).reason == "bad_request"
    assert (await api.get("/v1/entries/999", token)).reason == "unknown_entry"
    assert (await api.get("/v1/publications/999", token)).reason == "unknown_publication"
    assert (await api.get("/v1/publications/1/diff?from=9", token)).reason == "unknown_version"
    assert (await api.get("/v1/redrives/99", token)).reason == "unknown_redrive"
    assert (await api.get("/v1/replays/99", token)).reason == "unknown_replay"
    assert (await api.get("/v1/pipelines/snow", token)).reason == "no_such_pipeline"
    assert NOON.isoformat() in json.dumps((await api.get("/v1/entries/1", token)).json)
