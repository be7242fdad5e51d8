"""The change feed over HTTP: pages, one change, and what is refused."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from tests.server.doors import Answer, app_of, ask
from tests.world import World, change

from headgate.ledger import token as tokens


class Api:
    """The API, asked by somebody who may read."""

    def __init__(self, app: FastAPI, token: str) -> None:
        self.app, self.token = app, token

    async def get(self, path: str, **headers: str) -> Answer:
        said = {"authorization": f"Bearer {self.token}"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        return await ask(self.app, "GET", path, said)


async def api_of(world: World, *pipelines: Any) -> Api:
    app = await app_of(world.db, *pipelines)
    return Api(app, (await tokens.make(world.db, "test", "steward", 60)).token)


async def _two_pipelines(world: World) -> Api:
    p, q = world.pipeline("p", dataset="soil"), world.pipeline("q")
    await world.receive(p, *[change(f"a{n}", b"1") for n in range(3)])
    await world.receive(q, *[change(f"b{n}", b"1") for n in range(2)])
    await world.run(p, q)
    return await api_of(world, p, q)


async def test_the_feed_is_read_page_by_page(world: World):
    """Each page says where to go on, and together they say everything once."""
    api = await _two_pipelines(world)
    told: list[Any] = []
    at = "/v1/changes?limit=2"
    while True:
        page = (await api.get(at)).json
        told += page["changes"]
        if not page["more"]:
            break
        at = f"/v1/changes?limit=2&after={page['cursor']}"
    assert sorted(c["source_uri"] for c in told) == [
        "test://a0", "test://a1", "test://a2", "test://b0", "test://b1",
    ]  # fmt: skip
    newest = (await api.get("/v1/changes?order=newest")).json["changes"]
    assert newest == told[::-1]
    only = (await api.get("/v1/changes?pipeline=q&outcome=finalized")).json["changes"]
    assert {c["pipeline"] for c in only} == {"q"}
    assert (await api.get("/v1/changes?uri=test://a")).json["changes"] == [
        c for c in told if c["pipeline"] == "p"
    ]
    one = await api.get(f"/v1/changes/{told[0]['change_event_id']}")
    assert one.json == told[0]


async def test_who_has_it_already_is_sent_nothing(world: World):
    """The ETag of an answer is good for asking whether it is still the same."""
    api = await _two_pipelines(world)
    first = await api.get("/v1/changes")
    assert first.headers["cache-control"] == "private, no-cache"
    again = await api.get("/v1/changes", if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")


async def test_what_is_not_understood_is_refused(world: World):
    """An answer to another question than was asked looks like an answer."""
    api = await _two_pipelines(world)
    for wrong in (
        "after=x", "limit=0", "limit=1001", "limit=x", "pipeline=No", "outcome=done",
        "order=up", "since=1", "uri=%00",
    ):  # fmt: skip
        refused = await api.get(f"/v1/changes?{wrong}")
        assert (refused.status, refused.reason) == (400, "bad_request"), wrong
    assert (await api.get("/v1/changes/1-99")).reason == "unknown_change"
    assert (await api.get("/v1/changes/x")).reason == "bad_request"
    ahead = await api.get("/v1/changes?after=999-1")
    assert (ahead.status, ahead.reason) == (409, "cursor_ahead")
    assert (await ask(api.app, "GET", "/v1/changes")).reason == "token_needed"
