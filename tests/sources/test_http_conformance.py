"""Web addresses pass the suite that every polled source passes, against a real server."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from aiohttp import web
from tests.net.webs import Web, serving

from headgate.sources import Http
from headgate.testing.sources import SourceConformance

NAMES = ["a.csv", "b.csv", "deep/b.csv", "large.bin"]


class Shelf:
    """A server that keeps versions its own way: `etag`, `modified`, or not at all."""

    def __init__(self, versions: str) -> None:
        self.versions = versions
        self.down = False
        self.there: dict[str, tuple[bytes, int]] = {}
        self.gone: set[str] = set()
        self.ticks = 0
        self.source: Http
        self.web: Web

    async def answer(self, request: web.Request) -> web.StreamResponse:
        name = request.path[1:]
        if self.down:
            return web.Response(status=503)
        if name not in self.there:
            return web.Response(status=410 if name in self.gone else 404)
        content, tick = self.there[name]
        headers = {"Content-Type": "text/csv; charset=utf-8"}
        if self.versions == "etag":
            headers["ETag"] = f'"{hashlib.md5(content).hexdigest()}"'
            if request.headers.get("If-None-Match") == headers["ETag"]:
                return web.Response(status=304, headers={"ETag": headers["ETag"]})
        if self.versions == "modified":
            headers["Last-Modified"] = f"Wed, 21 Oct 2015 07:{tick // 60:02}:{tick % 60:02} GMT"
            if request.headers.get("If-Modified-Since") == headers["Last-Modified"]:
                return web.Response(status=304)
        return web.Response(body=content, headers=headers)

    def put(self, name: str, content: bytes) -> str:
        self.ticks += 1
        self.there[name] = content, self.ticks
        return f"{self.web.url}/{name}"

    def remove(self, name: str) -> None:
        del self.there[name]
        self.gone.add(name)

    def now(self) -> datetime:
        return datetime.now(UTC)

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.down = True
        yield
        self.down = False


class TestHttp(SourceConformance):
    @pytest.fixture(params=["etag", "modified", "none"])
    def world(self, request: pytest.FixtureRequest) -> Iterator[Shelf]:
        shelf = Shelf(request.param)
        with serving(shelf.answer) as shelf.web:
            shelf.source = Http([f"{shelf.web.url}/{name}" for name in NAMES], name="shelf")
            yield shelf
