"""*Datasets*: what is published, where it lies, and in which versions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from fastapi import Request
from starlette.responses import Response

from headgate.ledger import pipelines
from headgate.ledger.pipelines import Declared
from headgate.ledger.search import Look, Place, Question, look
from headgate.model.dataset import Dataset
from headgate.model.facts import Facts
from headgate.server.doors import Serving, ledger
from headgate.server.problem import Refusal

from .draw import Box, Footprint, Map, world
from .page import asker, pages, render, with_query

router = pages()
MOST = 50
# So many items of each dataset are looked at for the list: enough for a small map.
GLANCE = 40
VERSIONS = 50


@dataclass(frozen=True, slots=True)
class Card:
    """One dataset of the list. Of a restricted one only its name is told."""

    name: str
    dataset: Dataset
    pipelines: list[str]
    seen: bool
    items: int
    more: bool
    map: Map | None


@dataclass(frozen=True, slots=True)
class Item:
    """One item: its newest version."""

    id: str
    href: str
    facts: Facts
    starts: datetime | None
    parts: int


@router.get("/datasets")
async def list_(request: Request) -> Response:
    """All of them."""
    serving: Serving = request.app.state.serving
    by = asker(request)
    async with serving.readers, ledger():
        declared = [p for p in await pipelines.pipelines(serving.db) if by.sees(p.name)]
        async with _look(request) as seen:
            named = await seen.collections()
            cards = [await _card(seen, name, d, declared) for name, d in named.items()]
    hidden = [
        Card(p.dataset.name, p.dataset, [p.name], False, 0, False, None)
        for p in declared
        if p.dataset is not None and p.dataset.name not in named
    ]
    told = sorted([*cards, *hidden], key=lambda card: card.name)
    return render(request, "datasets.html", "Datasets", here="datasets", live=True, cards=told)


@router.get("/datasets/{name}")
async def one(request: Request, name: str) -> Response:
    """One dataset: a page of its items, on a map and in a table."""
    serving: Serving = request.app.state.serving
    after = request.query_params.get("after")
    async with serving.readers, ledger(), _look(request) as seen:
        named = await seen.collections()
        if name not in named:
            raise Refusal("unknown_collection", f"there is no dataset {name!r}", hint=_HINT)
        start: Place | None = (name, after) if after else None
        items = await _items(seen, name, start, MOST + 1)
    page = items[:MOST]
    older = ""
    if len(items) > MOST:
        older = with_query(f"/datasets/{name}", after=page[-1].id)
    return render(
        request,
        "dataset.html",
        named[name].title or name,
        here="datasets",
        live=True,
        dataset=named[name],
        name=name,
        items=page,
        map=_map(page),
        first=f"/datasets/{name}" if after else "",
        older=older,
    )


@router.get("/datasets/{name}/{item:path}")
async def item(request: Request, name: str, item: str) -> Response:
    """One item: what it is made of, and every version of that."""
    serving: Serving = request.app.state.serving
    async with serving.readers, ledger(), _look(request) as seen:
        parts = await seen.parts(name, item)
        if not parts:
            raise Refusal("unknown_item", f"dataset {name!r} has no item {item!r}", hint=_HINT)
        versions = [await seen.versions(part.entry, VERSIONS) for part in parts]
    told = Item(item, "", parts[0], _starts(parts[0]), len(parts))
    return render(
        request,
        "item.html",
        item,
        here="datasets",
        live=True,
        name=name,
        item=told,
        map=_map([told]),
        parts_of=list(zip(parts, versions, strict=True)),
    )


_HINT = "See what there is for you: /datasets."


@asynccontextmanager
async def _look(request: Request) -> AsyncGenerator[Look]:
    serving: Serving = request.app.state.serving
    by = asker(request)
    async with look(serving.db, restricted=by.sees_restricted, pipelines=by.pipelines) as seen:
        yield seen


async def _card(seen: Look, name: str, dataset: Dataset, declared: list[Declared]) -> Card:
    of = [p.name for p in declared if p.dataset is not None and p.dataset.name == name]
    items = await _items(seen, name, None, GLANCE + 1)
    shown = items[:GLANCE]
    return Card(name, dataset, of, True, len(shown), len(items) > GLANCE, _map(shown, 200, 150))


async def _items(seen: Look, name: str, after: Place | None, most: int) -> list[Item]:
    found = await seen.search(Question(collections=(name,)), after, most)
    facts = {f.entry: f for f in await seen.facts([f.entries[0] for f in found])}
    return [
        Item(
            f.item,
            f"/datasets/{name}/{quote(f.item)}",
            facts[f.entries[0]],
            _starts(facts[f.entries[0]]),
            len(f.entries),
        )
        for f in found
        if f.entries[0] in facts
    ]


def _starts(facts: Facts) -> datetime | None:
    return None if facts.item is None else facts.item.start


def _map(items: list[Item], width: int = 480, height: int | None = None) -> Map | None:
    found: list[Footprint] = []
    for one in items:
        said = one.facts.item
        if said is not None and said.bbox is not None:
            bounds, crosses = _bounds(said.bbox)
            shape = None if crosses else said.geometry
            found.append(Footprint(bounds, one.id, one.href or "#versions", shape))
    return world(found, width=width, height=height)


def _bounds(bbox: tuple[float, ...]) -> tuple[Box, bool]:
    """Flat; beyond 180 degrees where it crosses the antimeridian."""
    half = len(bbox) // 2
    west, south, east, north = bbox[0], bbox[1], bbox[half], bbox[half + 1]
    return (west, south, east + 360 if west > east else east, north), west > east
