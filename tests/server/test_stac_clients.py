"""Clients that others wrote browse a running server, and every document is what they expect."""

from __future__ import annotations

import asyncio
import hashlib
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import pystac
import pystac_client
import pytest
from fastapi import FastAPI
from pystac.validation.stac_validator import JsonSchemaSTACValidator
from tests.catalog import public
from tests.server.doors import app_of, ask
from tests.server.shelf import point, shelf, thing
from tests.world import World, change

from headgate.ledger import token as tokens
from headgate.server import listen

MANY = 250
HERE = ("127.0.0.1", 4711)


@asynccontextmanager
async def served(app: FastAPI) -> AsyncIterator[str]:
    """The address of the application on a port of this machine."""
    listening, stopping = listen.bind("127.0.0.1", 0), asyncio.Event()
    answering = asyncio.create_task(listen.serve(app, listening, stopping))
    try:
        yield listen.address(listening)
    finally:
        stopping.set()
        await answering
        listening.close()


def name(n: int) -> str:
    return f"i{n:03}"


async def filled(world: World) -> FastAPI:
    """250 items, a degree and a day apart."""
    p = shelf("soil", world.lake)
    told = [
        change(name(n), thing(point(n % 100, n // 100), _day(n), id=name(n))) for n in range(MANY)
    ]
    await world.receive(p, *told)
    await world.work(p)
    return await app_of(world.db)


def _day(n: int) -> str:
    return f"20{10 + n // 28:02}-01-{1 + n % 28:02}T00:00:00Z"


def browse(url: str) -> None:
    client = pystac_client.Client.open(f"{url}/stac")
    assert client.conforms_to("ITEM_SEARCH")
    (collection,) = client.get_collections()
    assert collection.id == "soil"
    assert collection.extent.spatial.bboxes == [[0, 0, 99, 2]]
    walked = [item.id for item in collection.get_items()]
    assert walked == [name(n) for n in range(MANY)]
    for method in ("GET", "POST"):
        pages = list(client.search(limit=20, method=method).pages_as_dicts())
        assert [len(page["features"]) for page in pages] == [20] * 12 + [10]
        ids = [feature["id"] for page in pages for feature in page["features"]]
        assert ids == [name(n) for n in range(MANY)]
        by_place = client.search(bbox=[9.5, -0.5, 12.5, 1.5], method=method, limit=2)
        assert {i.id for i in by_place.items()} == {
            "i010", "i011", "i012", "i110", "i111", "i112",
        }  # fmt: skip
        by_time = client.search(datetime="2010-01-03/2010-01-05", method=method)
        assert {i.id for i in by_time.items()} == {"i002", "i003", "i004"}
        by_id = client.search(ids=["i001", "i249"], method=method)
        assert {i.id for i in by_id.items()} == {"i001", "i249"}
        by_shape = client.search(intersects=point(5, 1), method=method)
        assert {i.id for i in by_shape.items()} == {"i105"}
    item = collection.get_item("i042")
    assert item is not None
    asset = item.assets["copy.json"]
    with urllib.request.urlopen(asset.href, timeout=10) as answer:
        content = answer.read()
    assert f"1220{hashlib.sha256(content).hexdigest()}" == asset.extra_fields["file:checksum"]


async def test_pystac_client_browses_a_running_server(world: World):
    """Opens, lists, walks, searches, pages through 250 items, and downloads what was promised."""
    async with served(await filled(world)) as url:
        await asyncio.to_thread(browse, url)


async def test_pystac_client_brings_its_token(world: World):
    """What is restricted is browsed by who has a token, and looks empty to others."""
    import headgate as hg

    p = shelf("salt", world.lake, dataset=hg.Dataset("salt", access="restricted"))
    await world.receive(p, change("a", thing(point(1, 1), _day(1), id="a")))
    await world.work(p)
    token = (await tokens.make(world.db, "t", "steward", 60)).token

    def look(url: str) -> None:
        assert not list(pystac_client.Client.open(f"{url}/stac").search().items())
        client = pystac_client.Client.open(
            f"{url}/stac", headers={"Authorization": f"Bearer {token}"}
        )
        assert [i.id for i in client.search().items()] == ["a"]

    async with served(await app_of(world.db)) as url:
        await asyncio.to_thread(look, url)


@cache
def validator() -> JsonSchemaSTACValidator:
    made = JsonSchemaSTACValidator()
    for known in ("file", "processing", "version"):
        schema = public.schema(f"stac/{known}.json")
        made.schema_cache[schema["$id"].rstrip("#")] = schema
    return made


KINDS = {
    "Catalog": pystac.STACObjectType.CATALOG,
    "Collection": pystac.STACObjectType.COLLECTION,
    "Feature": pystac.STACObjectType.ITEM,
}


def documents(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    inside = answer.get("collections") or answer.get("features")
    yield from inside if inside is not None else [answer]


@public.NEEDED
async def test_every_document_validates(world: World, monkeypatch: pytest.MonkeyPatch):
    """By pystac with the schemas of core and extensions, offline."""

    def refuse(_: Any, source: Any, *args: Any, **more: Any) -> str:
        raise AssertionError(f"{source} would have been fetched")

    monkeypatch.setattr(pystac.stac_io.DefaultStacIO, "read_text", refuse)
    p = shelf("soil", world.lake)
    empty = shelf("air", world.lake)
    await world.register(empty)
    for said in (1, 2):
        told = [
            change(f"{n}", thing(point(n, n), _day(n), said, id=f"i{n}"), minute=said)
            for n in (1, 2)
        ]
        await world.receive(p, *told, change("nowhere", thing(None, None, said), minute=said))
        await world.work(p)
    app = await app_of(world.db)
    seen: list[str] = []
    for path in ("", "/collections", "/collections/soil", "/collections/air", "/search?limit=2",
                 "/collections/soil/items", "/collections/soil/items/i1",
                 "/collections/soil/items/i1.v1"):  # fmt: skip
        answer = await ask(app, "GET", f"/stac{path}", client=HERE)
        assert answer.status == 200, path
        for document in documents(answer.json):
            extensions = document.get("stac_extensions", [])
            validator().validate(document, KINDS[document["type"]], "1.1.0", extensions)
            seen.append(document["type"])
            assert all(link["href"].startswith("http") for link in document["links"]
                       if link["rel"] != "derived_from")  # fmt: skip
    assert set(seen) == set(KINDS)


async def test_the_landing_page_leads_everywhere(world: World):
    """Every link of it answers, with the media type it announces; and says no more than is kept."""
    app = await filled(world)
    page = (await ask(app, "GET", "/stac", {"host": "localhost"}, client=HERE)).json
    rels = {link["rel"] for link in page["links"]}
    assert rels >= {
        "self", "root", "data", "conformance", "search", "service-desc", "service-doc", "child",
    }  # fmt: skip
    conforms = (await ask(app, "GET", "/stac/conformance", client=HERE)).json
    assert conforms["conformsTo"] == page["conformsTo"]
    for link in page["links"]:
        body = b"{}" if link.get("method") == "POST" else b""
        path = link["href"].removeprefix("http://localhost")
        answer = await ask(app, link.get("method", "GET"), path, {}, body, client=HERE)
        assert answer.status == 200, link
        assert answer.headers["content-type"].startswith(link["type"]), link


async def test_pages_neither_repeat_nor_miss_while_items_come_and_go(world: World):
    """Between two pages others are published, changed and removed: what stays is seen once."""
    p = shelf("soil", world.lake, removed="remove")
    await world.receive(
        p, *(change(f"s{n:02}", thing(point(n, 0), _day(n), id=f"s{n:02}")) for n in range(30))
    )
    await world.work(p)
    app = await app_of(world.db)
    path: str | None = "/stac/search?limit=4"
    seen: list[str] = []
    turn = 0
    while path is not None:
        page = (await ask(app, "GET", path, {"host": "localhost"}, client=HERE)).json
        seen += [f["id"] for f in page["features"]]
        following = [link["href"] for link in page["links"] if link["rel"] == "next"]
        path = following[0].removeprefix("http://localhost") if following else None
        turn += 1
        changed = f"s{turn * 4:02}"
        await world.receive(
            p,
            change(f"new{turn}", thing(point(1, 1), _day(turn), id=f"r{turn}")),
            change(changed, thing(point(2, 2), _day(turn), turn, id=changed), minute=turn),
            change(f"s{turn:02}", None, removed=True, minute=turn),
        )
        await world.work(p)
    assert len(seen) == len(set(seen))
    removed = {f"s{n:02}" for n in range(1, turn + 1)}
    assert {f"s{n:02}" for n in range(30)} - removed <= set(seen)
