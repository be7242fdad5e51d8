"""The STAC API: what is asked is what is answered, and nobody reads what is not theirs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from fastapi import FastAPI
from tests.server.doors import Answer, app_of, ask
from tests.server.shelf import point, shelf, square, thing
from tests.world import World, change

import headgate as hg
from headgate.ledger import token as tokens
from headgate.server.stac import asked

HERE = ("127.0.0.1", 4711)
JANUARY = "2026-01-01T00:00:00Z"
THINGS: dict[str, tuple[dict[str, Any] | None, str]] = {
    "fiji": (square(177, -19, 179, -16), "2026-01-01T00:00:00Z"),
    "samoa": (square(-173, -15, -171, -13), "2026-02-01T00:00:00Z"),
    "bergen": (point(5.3, 60.4), "2026-03-01T00:00:00Z"),
    "corner": (
        {"type": "Polygon", "coordinates": [[[0, 0], [10, 0], [0, 10], [0, 0]]]},
        "2026-04-01T00:00:00Z",
    ),
    "nowhere": (None, "2026-05-01T00:00:00Z"),
    "both-sides": (
        {
            "type": "MultiPolygon",
            "coordinates": [
                square(178, 50, 180, 52)["coordinates"],
                square(-180, 50, -178, 52)["coordinates"],
            ],
        },
        "2026-06-01T00:00:00Z",
    ),
}


async def filled(world: World, **declared: Any) -> hg.Pipeline:
    p = shelf("soil", world.lake, **declared)
    told = [change(name, thing(where, when, id=name)) for name, (where, when) in THINGS.items()]
    await world.receive(p, *told)
    await world.work(p)
    assert await world.outcomes() == {"finalized": len(THINGS)}
    return p


async def get(
    app: FastAPI, path: str, headers: Mapping[str, str] | None = None, **how: Any
) -> Answer:
    return await ask(app, "GET", path, headers or {}, **{"client": HERE, **how})


async def found(app: FastAPI, **search: Any) -> set[str]:
    """What a search finds: by address and by body, which must be the same."""
    body = json.dumps(search).encode()
    posted = await ask(app, "POST", "/stac/search", {}, body, client=HERE)
    said = {
        k: json.dumps(v)
        if isinstance(v, dict)
        else ",".join(map(str, v))
        if isinstance(v, list)
        else v
        for k, v in search.items()
    }
    query = "&".join(f"{k}={quote(str(v))}" for k, v in said.items())
    got = await get(app, f"/stac/search?{query}")
    assert got.status == posted.status == 200, (got.body, posted.body)
    ids = {f["id"] for f in got.json["features"]}
    assert ids == {f["id"] for f in posted.json["features"]}
    return ids


async def test_a_box_finds_what_lies_in_it_also_across_the_antimeridian(world: World):
    """West of 180 and east of it is one place."""
    app = await app_of(world.db, await filled(world))
    assert await found(app, bbox=[0, 50, 10, 70]) == {"bergen"}
    assert await found(app, bbox=[170, -30, -160, 0]) == {"fiji", "samoa"}
    assert await found(app, bbox=[176, -30, 180, 0]) == {"fiji"}
    assert await found(app, bbox=[170, -30, -5, -160, 0, 5]) == {"fiji", "samoa"}
    assert await found(app, bbox=[-180, 45, -179, 55]) == {"both-sides"}
    assert await found(app, bbox=[179, 45, 180, 55]) == {"both-sides"}
    assert await found(app, bbox=[179.5, 45, -179.5, 55]) == {"both-sides"}
    assert await found(app, bbox=[-180, -90, 180, 90]) == THINGS.keys() - {"nowhere"}


async def test_what_only_touches_a_bounding_box_is_not_there(world: World):
    """A triangle is not in the corner it leaves empty, and a search by shape is one by shape."""
    app = await app_of(world.db, await filled(world))
    assert await found(app, bbox=[8, 8, 12, 12]) == set()
    assert await found(app, bbox=[1, 1, 2, 2]) == {"corner"}
    assert await found(app, intersects=square(8, 8, 12, 12)) == set()
    assert await found(app, intersects=point(2, 2)) == {"corner"}
    line = {"type": "LineString", "coordinates": [[-20, 60.4], [20, 60.4]]}
    assert await found(app, intersects=line) == {"bergen"}
    triangle = {"type": "Polygon", "coordinates": [[[20, 20], [20, 0], [0, 20], [20, 20]]]}
    assert await found(app, intersects=triangle) == set()


async def test_a_moment_and_every_kind_of_interval(world: World):
    """Closed, open at either end, to the microsecond, and in any zone."""
    app = await app_of(world.db, await filled(world))
    assert await found(app, datetime="2026-02-01T00:00:00Z") == {"samoa"}
    assert await found(app, datetime="2026-02-01t01:00:00.000+01:00") == {"samoa"}
    assert await found(app, datetime="2026-02-01T00:00:00.000001Z") == set()
    assert await found(app, datetime=f"{JANUARY}/2026-02-01T00:00:00Z") == {"fiji", "samoa"}
    assert await found(app, datetime="../2026-02-15T00:00:00Z") == {"fiji", "samoa"}
    assert await found(app, datetime="/2026-02-15T00:00:00Z") == {"fiji", "samoa"}
    assert await found(app, datetime="2026-05-01T00:00:00Z/..") == {"nowhere", "both-sides"}
    assert await found(app, datetime=f"{JANUARY}/..", bbox=[0, 50, 10, 70]) == {"bergen"}


async def test_by_names(world: World):
    """Items and collections that are asked for, and no others."""
    app = await app_of(world.db, await filled(world))
    assert await found(app, ids=["fiji", "bergen", "nobody"]) == {"fiji", "bergen"}
    assert await found(app, ids=["fiji"], collections=["soil"]) == {"fiji"}
    assert await found(app, ids=["fiji"], collections=["air"]) == set()
    assert len(await found(app, collections=["soil", "air"])) == len(THINGS)


BAD = {
    "bbox": ["1,2,3", "a,b,c,d", "1,2,3,4,5", "0,10,1,0", "0,0,200,10", "nan,0,1,1",
             "0,0,9,1,1,1", ""],
    "datetime": ["", "/", "../..", "yesterday", "2026-01-01", "2026-01-01T00:00:00",
                 "2026-13-01T00:00:00Z", "2026-02-01T00:00:00Z/2026-01-01T00:00:00Z",
                 f"{JANUARY}/{JANUARY}/{JANUARY}",
                 "0000-01-01T00:00:00Z", "2026-01-01T00:00:00+99:00"],
    "limit": ["0", "-1", "1000000000", "1001", "many", "1.5", ""],
    "token": ["forged", "!!!!", "WzFd", "", "bnVsbA"],
    "ids": [",", "%00", "a,,b"],
    "collections": ["%00", ""],
    "intersects": ["{}", "1", "nonsense", '{"type":"Point","coordinates":[]}',
                   '{"type":"Point","coordinates":[900,0]}',
                   '{"type":"Polygon","coordinates":[[[0,0],[1,1],[1,0],[0,1],[0,0]]]}'],
    "sortby": ["id"], "filter": ["a=1"], "fields": ["id"], "nonsense": ["1"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in BAD.items() for v in values])
def test_a_search_that_cannot_be_understood_names_its_parameter(name: str, value: str) -> None:
    """400 with the name of the parameter; a parameter we do not know is not passed over."""
    from urllib.parse import unquote

    with pytest.raises(asked.Refusal) as refusal:
        asked.by_query([(name, unquote(value))])
    assert refusal.value.kind.status == 400
    assert refusal.value.more["parameter"] == name


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"nonsense", b'{"bbox":"1,2,3,4"}', b'{"bbox":[1,2,3,true]}', b'{"limit":true}',
     b'{"limit":1e9}', b'{"ids":"a"}', b'{"ids":[1]}', b'{"intersects":[1]}', b'{"datetime":5}',
     b'{"bbox":[0,0,1,1],"intersects":{"type":"Point","coordinates":[0,0]}}', b'{"token":[]}',
     b'{"query":{}}'],
)  # fmt: skip
def test_a_body_that_cannot_be_understood_is_refused(body: bytes) -> None:
    """Whatever is sent, it is a 400 that says what is wrong."""
    with pytest.raises(asked.Refusal) as refusal:
        asked.by_body(body)
    assert refusal.value.kind.status == 400


def test_moments_are_those_of_rfc_3339() -> None:
    """Leap seconds and long fractions are moments too."""
    question = asked.by_query([("datetime", "2016-12-31T23:59:60Z")]).question
    assert question.since == datetime(2017, 1, 1, tzinfo=UTC)
    question = asked.by_query([("datetime", "2026-01-01T00:00:00.1234567891Z")]).question
    assert question.until == datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)


async def test_what_is_not_there_is_a_problem_and_no_error(world: World):
    """Unknown collections, items, versions, files and runs: 404, each with its reason."""
    app = await app_of(world.db, await filled(world))
    for path, reason in {
        "/stac/collections/air": "unknown_collection",
        "/stac/collections/%00": "unknown_collection",
        "/stac/collections/air/items": "unknown_collection",
        "/stac/collections/air/items/fiji": "unknown_collection",
        "/stac/collections/soil/items/nobody": "unknown_item",
        "/stac/collections/soil/items/%00": "unknown_item",
        "/stac/collections/soil/items/fiji.v1": "unknown_item",
        "/stac/collections/soil/items/fiji.v99999999999": "unknown_item",
        "/stac/collections/soil/items/fiji/assets/nothing": "unknown_asset",
        "/stac/runs/1-1/files/nothing": "unknown_asset",
        "/stac/runs/1-2/files/copy.json": "unknown_asset",
        "/stac/runs/9999999999999999999-1/files/copy.json": "unknown_asset",
        "/stac/runs/x/qa.json": "unknown_asset",
        "/stac/runs/1-1/wal.json": "unknown_asset",
        "/stac/nothing": "not_found",
    }.items():
        answer = await ask(app, "GET", path.replace("%00", "\0"), client=HERE)
        assert (answer.status, answer.reason) == (404, reason), path


async def test_restricted_data_is_for_stewards(world: World):
    """On this machine without one, only what is public; from elsewhere nothing at all."""
    await filled(world)
    secret = shelf("salt", world.lake, dataset=hg.Dataset("salt", access="restricted"))
    await world.receive(secret, change("mine", thing(point(1, 1), JANUARY, id="mine")))
    await world.work(secret)
    app = await app_of(world.db)
    read = (await tokens.make(world.db, "t", "steward", 60)).token
    other = (await tokens.make(world.db, "t", "scraper", 60)).token
    low = (await tokens.make(world.db, "t", "operator", 60)).token
    apart = (await tokens.make(world.db, "t", "steward", 60, pipelines=["soil"])).token
    seen = await get(app, "/stac/collections/salt/items/mine", {"authorization": f"Bearer {read}"})
    assert seen.status == 200
    assert seen.headers["cache-control"] == "private, no-cache"
    links = [a["href"] for a in seen.json["assets"].values()]
    paths = [
        "/stac/collections/salt", "/stac/collections/salt/items",
        "/stac/collections/salt/items/mine", "/stac/collections/salt/items/mine/assets/copy.json",
        *(urlsplit(link).path for link in links),
    ]  # fmt: skip
    for path in paths:
        assert (await get(app, path)).status == 404, path
        for client in (HERE, ("192.0.2.1", 1)):
            good = await get(app, path, {"authorization": f"Bearer {read}"}, client=client)
            assert good.status in (200, 307), path
            bad = await get(app, path, {"authorization": "Bearer hg_forged"}, client=client)
            assert bad.status == 401
            wrong = await get(app, path, {"authorization": f"Bearer {other}"}, client=client)
            assert wrong.status == 403
            for blind in (low, apart):
                seen = await get(app, path, {"authorization": f"Bearer {blind}"}, client=client)
                assert seen.status == 404, path
    for path in ("/stac", "/stac/collections", "/stac/search?limit=100"):
        assert b"salt" not in (await get(app, path)).body
        assert b"salt" in (await get(app, path, {"authorization": f"Bearer {read}"})).body
        assert (await get(app, path, client=("192.0.2.1", 1))).status == 401
        assert (await get(app, path, {"x-forwarded-for": "127.0.0.1"})).status == 401


async def test_what_a_pipeline_declared_last_counts(world: World):
    """Restricted is restricted from the next start on, for everything, and so is public again."""
    await filled(world)
    app = await app_of(world.db)
    assert (await get(app, "/stac/collections/soil")).status == 200
    await world.register(shelf("soil", world.lake, dataset=hg.Dataset("soil", access="non-public")))
    assert (await get(app, "/stac/collections/soil")).status == 404
    await world.register(shelf("soil", world.lake))
    assert (await get(app, "/stac/collections/soil")).status == 200


async def test_an_older_version_stays_readable_under_its_number(world: World):
    """`<id>.v1` is what it was, with its bytes, linked to what it became."""
    p = await filled(world)
    for said in (2, 3):
        new = thing(point(5.3, 60.4), JANUARY, said, id="bergen")
        await world.receive(p, change("bergen", new, minute=said))
        await world.work(p)
    app = await app_of(world.db, p)
    now = (await get(app, "/stac/collections/soil/items/bergen")).json
    assert (now["id"], now["properties"]["version"]) == ("bergen", "3")
    rels = {}
    for number in ("1", "2"):
        old = (await get(app, f"/stac/collections/soil/items/bergen.v{number}")).json
        assert (old["id"], old["properties"]["version"]) == (f"bergen.v{number}", number)
        assert old["properties"]["deprecated"]
        rels[number] = {link["rel"]: urlsplit(link["href"]).path for link in old["links"]}
        body = (await get(app, urlsplit(old["assets"]["copy.json"]["href"]).path)).body
        assert (
            f"1220{hashlib.sha256(body).hexdigest()}" == old["assets"]["copy.json"]["file:checksum"]
        )
    items = "/stac/collections/soil/items"
    assert rels["1"]["successor-version"] == f"{items}/bergen.v2"
    assert rels["2"]["predecessor-version"] == f"{items}/bergen.v1"
    assert rels["2"]["successor-version"] == rels["2"]["latest-version"] == f"{items}/bergen"
    assert (await get(app, f"{items}/bergen.v3")).status == 404


async def test_bytes_come_whole_in_part_or_not_at_all(world: World):
    """Ranges as clients of rasters send them, and 304 to those who have them."""
    p = await filled(world)
    app = await app_of(world.db, p)
    item = (await get(app, "/stac/collections/soil/items/fiji")).json
    named = await get(app, "/stac/collections/soil/items/fiji/assets/copy.json")
    path = urlsplit(item["assets"]["copy.json"]["href"]).path
    assert (named.status, urlsplit(named.headers["location"]).path) == (307, path)
    whole = await get(app, path)
    size = len(whole.body)
    digest = hashlib.sha256(whole.body).hexdigest()
    assert whole.headers["etag"] == f'"sha256:{digest}"'
    assert (
        whole.headers["content-length"]
        == str(size)
        == str(item["assets"]["copy.json"]["file:size"])
    )
    assert whole.headers["content-type"] == item["assets"]["copy.json"]["type"]
    for said, first, last in [
        ("bytes=0-0", 0, 0), ("bytes=3-", 3, size - 1), ("bytes=-4", size - 4, size - 1),
        ("bytes=2-99999", 2, size - 1), ("bytes=-99999", 0, size - 1),
    ]:  # fmt: skip
        part = await get(app, path, {"range": said})
        assert part.body == whole.body[first : last + 1], said
        assert part.status == (200 if part.body == whole.body else 206)
    for odd in ("bytes=5-2", "bytes=-", "lines=1-2", "bytes=0-1,3-4"):
        assert (await get(app, path, {"range": odd})).body == whole.body
    outside = await get(app, path, {"range": f"bytes={size}-"})
    assert (outside.status, outside.headers["content-range"]) == (416, f"bytes */{size}")
    other = await get(app, path, {"range": "bytes=0-0", "if-range": '"other"'})
    assert other.body == whole.body
    assert (await get(app, path, {"if-none-match": whole.headers["etag"]})).status == 304
    head = await ask(app, "HEAD", path, client=HERE)
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(size))
    for file in (world.lake / "staging").rglob(digest):
        file.rename(world.folder / "aside")
    assert (await get(app, path)).reason == "asset_gone"
    (world.folder / "aside").rename(world.lake / "staging" / "sha256" / digest[:2] / digest)
    assert app.state.serving.downloads == 0


async def test_documents_are_sent_once(world: World):
    """An ETag spares who has it already; a new version has another one."""
    p = await filled(world)
    app = await app_of(world.db, p)
    path = "/stac/collections/soil/items/bergen"
    first = await get(app, path)
    again = {"if-none-match": first.headers["etag"]}
    assert (await get(app, path, again)).status == 304
    new = thing(point(5.3, 60.4), JANUARY, 2, id="bergen")
    await world.receive(p, change("bergen", new, minute=1))
    await world.work(p)
    assert (await get(app, path, again)).status == 200
    head = await ask(app, "HEAD", path, client=HERE)
    assert (head.status, head.body) == (200, b"")


async def test_pages_of_other_origins_read_only_what_they_are_allowed_to(world: World):
    """No origin by default; then those that are named, for reading, without credentials."""
    closed = await app_of(world.db)
    origin = {"origin": "https://browser.example"}
    preflight = origin | {"access-control-request-method": "GET"}
    for app_origins, allowed in (
        ((), None),
        (("https://browser.example",), "https://browser.example"),
        (("*",), "*"),
        (("https://other.example",), None),
    ):
        app = closed if not app_origins else await app_of(world.db, origins=app_origins)
        got = await get(app, "/stac", origin)
        assert got.headers.get("access-control-allow-origin") == allowed
        asked_first = await ask(app, "OPTIONS", "/stac/search", preflight, client=HERE)
        assert asked_first.status == 204
        assert asked_first.headers.get("access-control-allow-origin") == allowed
        assert asked_first.headers.get("access-control-allow-methods") == (
            "GET, HEAD" if allowed else None
        )
        assert "access-control-allow-credentials" not in {**got.headers, **asked_first.headers}
        # Only the catalog: whatever else is served is not for pages.
        health = await get(app, "/healthz", origin)
        assert "access-control-allow-origin" not in health.headers


async def test_links_begin_where_the_reader_is(world: World):
    """With the address that was called, or the one that is set; never with nonsense of a header."""
    app = await app_of(world.db)
    reader = (await tokens.make(world.db, "t", "viewer", 60)).token

    async def root(app: FastAPI, host: str) -> str:
        page = (await get(app, "/stac", {"host": host, "authorization": f"Bearer {reader}"})).json
        return next(link["href"] for link in page["links"] if link["rel"] == "self")

    assert await root(app, "data.example:8420") == "http://data.example:8420/stac"
    assert await root(app, "[::1]:8420") == "http://[::1]:8420/stac"
    assert await root(app, 'x"/><script>') == "http://127.0.0.1:80/stac"
    named = await app_of(world.db, url="https://data.example/headgate")
    assert await root(named, "inside:1") == "https://data.example/headgate/stac"
