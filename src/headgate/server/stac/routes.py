"""The addresses under `/stac`. Each answer is read in one snapshot of the ledger."""

from __future__ import annotations

import html
import re
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute

from headgate.catalog import run as runs
from headgate.catalog.assets import RUN_FILES, readable
from headgate.ledger.search import Look
from headgate.model.dataset import Dataset
from headgate.model.facts import Facts
from headgate.server.access import BEARER, REFUSALS
from headgate.server.limits import read_body
from headgate.server.problem import Refusal, documented

from . import pages
from .answers import body, document
from .asked import LIMIT, LIMIT_MOST, Asked, by_body, by_query
from .download import send
from .pages import GEOJSON, HTML, JSON
from .reader import Reader, reader

router = APIRouter(prefix="/stac", dependencies=[Depends(BEARER)])

BODY_BYTES = 1 << 16
ENTRY_MOST = 2**63 - 1
_RUN = re.compile(r"([1-9]\d{0,18})-([1-9]\d{0,9})", re.ASCII)
_RUN_TYPES = {name: kind for _, name, kind, _ in RUN_FILES}

Reading = Annotated[Reader, Depends(reader)]
CollectionId = Annotated[str, Path(description="The collection's id.")]
ItemId = Annotated[
    str, Path(description="The item's id; an older version has `.v` and its number behind it.")
]
RunName = Annotated[str, Path(description="The run that published it, as in `12-1`.")]


def _answers(kind: str, *reasons: str, text: str = "Yes") -> dict[int | str, dict[str, Any]]:
    known = (*REFUSALS, "bad_request", *reasons)
    return {200: {"description": text, "content": {kind: {}}}, **documented(*known)}


def _parameter(name: str, schema: dict[str, Any], text: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, "description": text, **more}


_TEXT = {"type": "string"}
_LIST = {"type": "array", "items": _TEXT}
_PARAMETERS = {
    "bbox": _parameter(
        "bbox",
        {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 6},
        "West, south, east, north; or six numbers, whose heights are left aside.",
        style="form",
        explode=False,
    ),
    "datetime": _parameter("datetime", _TEXT, "A moment, or START/END, ../END, START/.."),
    "limit": _parameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": LIMIT_MOST, "default": LIMIT},
        "How many items a page has at most.",
    ),
    "token": _parameter("token", _TEXT, "Where to go on: as the link `next` has it."),
    "collections": _parameter("collections", _LIST, "Only of these.", style="form", explode=False),
    "ids": _parameter("ids", _LIST, "Only these items.", style="form", explode=False),
    "intersects": _parameter("intersects", _TEXT, "A GeoJSON geometry, as JSON."),
}


_QUERY: dict[str, Any] = {"parameters": list(_PARAMETERS.values())}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "properties": {
                        **{name: told["schema"] for name, told in _PARAMETERS.items()},
                        "intersects": {"type": "object", "description": "A GeoJSON geometry."},
                    },
                    "additionalProperties": False,
                }
            }
        },
    }
}


@router.get("", summary="What is published here", responses=_answers(JSON))
async def landing(request: Request, by: Reading) -> Response:
    """The landing page: the catalog, its collections, and where to search."""
    async with by.look() as seen:
        collections = await seen.collections()
    return document(request, by, pages.landing(by.base, collections), JSON)


@router.get("/conformance", summary="Which rules are kept", responses=_answers(JSON))
async def conformance(request: Request, by: Reading) -> Response:
    """The conformance classes: exactly what is there."""
    return document(request, by, {"conformsTo": list(pages.CONFORMS)}, JSON)


@router.get("/api.html", summary="This API, for people", responses=_answers(HTML))
async def help_page(request: Request, by: Reading) -> Response:
    """A page with the addresses of this API."""
    routes = [route for route in router.routes if isinstance(route, APIRoute)]
    rows = [
        f"<tr><td>{method}</td><td>{html.escape(route.path)}</td><td>{route.summary}</td></tr>"
        for route in sorted(routes, key=lambda route: route.path)
        for method in sorted(route.methods or ())
    ]
    page = f"<!doctype html><title>Headgate</title><h1>STAC API</h1><table>{''.join(rows)}</table>"
    return body(request, by, page.encode(), HTML)


@router.get("/collections", summary="All collections", responses=_answers(JSON))
async def collections(request: Request, by: Reading) -> Response:
    """Every collection, with where and when its items are."""
    async with by.look() as seen:
        found = await seen.collections()
        covered = await seen.extents(list(found))
    return document(request, by, pages.collections(by.base, found, covered), JSON)


@router.get(
    "/collections/{collection}",
    summary="One collection",
    responses=_answers(JSON, "unknown_collection"),
)
async def collection(request: Request, by: Reading, collection: CollectionId) -> Response:
    """A collection, with where and when its items are."""
    async with by.look() as seen:
        dataset = await _dataset(seen, collection)
        covered = await seen.extents([collection])
    made = pages.collection(by.base, collection, dataset, covered.get(collection))
    return document(request, by, made, JSON)


@router.get(
    "/collections/{collection}/items",
    summary="The items of a collection",
    openapi_extra=_QUERY,
    responses=_answers(GEOJSON, "unknown_collection", "search_refused"),
)
async def items(request: Request, by: Reading, collection: CollectionId) -> Response:
    """A page of the collection's items, and a link to the next one."""
    asked = by_query(request.query_params.multi_items()).within(collection)
    async with by.look() as seen:
        await _dataset(seen, collection)
        page = await pages.page(seen, by.base, asked)
    here = f"{by.base}/collections/{collection}/items"
    links = pages.links_by_query(by.base, here, asked, page)
    return document(request, by, pages.feature_collection(page, links), GEOJSON)


@router.get(
    "/collections/{collection}/items/{item}/assets/{name}",
    summary="A file of an item as it is now",
    status_code=307,
    responses={
        307: {"description": "Where its bytes are"},
        **documented(
            *REFUSALS, "bad_request", "unknown_collection", "unknown_item", "unknown_asset",
        ),
    },
)  # fmt: skip
async def asset(by: Reading, collection: CollectionId, item: ItemId, name: str) -> Response:
    """Leads to the bytes of an asset. An address that stays while versions come and go."""
    found = (await _item(by, collection, item))["assets"].get(name)
    if found is None:
        raise Refusal("unknown_asset", f"the item has no asset {name[:100]!r}")
    return RedirectResponse(found["href"], 307, {"Cache-Control": "no-cache"})


@router.get(
    "/collections/{collection}/items/{item}",
    summary="One item, or an older version of it",
    responses=_answers(GEOJSON, "unknown_collection", "unknown_item"),
)
async def item(request: Request, by: Reading, collection: CollectionId, item: ItemId) -> Response:
    """An item as it is now; `<id>.v<number>` as it was."""
    return document(request, by, await _item(by, collection, item), GEOJSON)


@router.get(
    "/search",
    summary="Search all items",
    openapi_extra=_QUERY,
    responses=_answers(GEOJSON, "search_refused"),
)
async def search(request: Request, by: Reading) -> Response:
    """A page of the items that match, and a link to the next one."""
    asked = by_query(request.query_params.multi_items())
    page = await _search(by, asked)
    links = pages.links_by_query(by.base, f"{by.base}/search", asked, page)
    return document(request, by, pages.feature_collection(page, links), GEOJSON)


@router.post(
    "/search",
    summary="Search all items, with a body",
    openapi_extra=_BODY,
    responses=_answers(GEOJSON, "search_refused", "body_too_large", "body_too_slow"),
)
async def search_by_body(request: Request, by: Reading) -> Response:
    """The same with the search as JSON. It changes nothing."""
    asked = by_body(await read_body(request, BODY_BYTES))
    page = await _search(by, asked)
    links = pages.links_by_body(by.base, f"{by.base}/search", asked, page)
    return document(request, by, pages.feature_collection(page, links), GEOJSON)


@router.get(
    "/runs/{run}/files/{name:path}",
    summary="A file that a run published",
    responses={
        206: {"description": "A part of it"},
        **_answers(
            "*/*", "unknown_asset", "asset_gone", "range_outside", "store_unavailable",
            "too_many_requests", text="Its bytes",
        ),
    },
)  # fmt: skip
async def file(request: Request, by: Reading, run: RunName, name: str) -> Response:
    """The bytes of a file. The same address has the same bytes for ever."""
    facts = await _run(by, run)
    found = next((f for f in readable(facts) if f.name == name), None)
    if found is None:
        raise Refusal("unknown_asset", f"run {run} published no file {name[:100]!r}")
    return await send(request, by, facts.store, found)


@router.get(
    "/runs/{run}/{name}",
    summary="What is told about a run",
    responses=_answers("*/*", "unknown_asset"),
)
async def record(request: Request, by: Reading, run: RunName, name: str) -> Response:
    """The provenance of a run, or what it checked: rendered from the ledger each time."""
    if name not in _RUN_TYPES:
        raise Refusal("unknown_asset", f"there is no {name[:100]!r} of a run here")
    facts = await _run(by, run)
    return body(request, by, runs.files(facts)[name], _RUN_TYPES[name])


async def _search(by: Reader, asked: Asked) -> pages.Page:
    async with by.look() as seen:
        return await pages.page(seen, by.base, asked)


async def _dataset(seen: Look, collection: str) -> Dataset:
    dataset = (await seen.collections()).get(collection)
    if dataset is None:
        raise Refusal("unknown_collection", f"there is no collection {collection[:100]!r}")
    return dataset


async def _item(by: Reader, collection: str, item: str) -> dict[str, Any]:
    async with by.look() as seen:
        await _dataset(seen, collection)
        found = None if "\0" in item else await pages.item(seen, by.base, collection, item)
    if found is None:
        raise Refusal("unknown_item", f"there is no item {item[:100]!r} in {collection!r}")
    return found


async def _run(by: Reader, run: str) -> Facts:
    """What a run published, if it is in the catalog and the reader may see it."""
    shaped = _RUN.fullmatch(run)
    facts = None
    if shaped is not None and int(shaped[1]) <= ENTRY_MOST:
        async with by.look() as seen:
            facts = await seen.publication(int(shaped[1]))
    if facts is None or facts.run != run or facts.item is None:
        raise Refusal("unknown_asset", f"no run {run[:50]!r} published anything here")
    return facts
