"""Readers: whoever reads the catalog while it changes sees whole states."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from tests.server.doors import Answer, app_of, ask
from tests.server.shelf import SHELF, point, shelf, thing
from tests.world import World, change

from headgate.runtime.ledger_home import Ledger
from headgate.runtime.supervise import up

HERE = ("127.0.0.1", 4711)
NAMES = [f"i{n:02}" for n in range(12)]
PIPELINE = (
    SHELF
    + """
p = shelf("soil", "lake", dataset="soil", sources=[hg.Directory("incoming", settle=0, every=0.05)])
"""
)


class Reader:
    """Somebody who reads everything, over and over."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self.rounds = 0
        self.versions: set[str] = set()

    async def forever(self) -> None:
        while True:
            await self.read()
            self.rounds += 1

    async def read(self) -> None:
        features: list[dict[str, Any]] = []
        path: str | None = "/stac/search?limit=5"
        while path is not None:
            page = (await self._get(path)).json
            features += page["features"]
            following = [link["href"] for link in page["links"] if link["rel"] == "next"]
            path = following[0].removeprefix("http://localhost") if following else None
        assert [f["id"] for f in features] == NAMES
        for feature in features:
            await self._check(feature)

    async def _check(self, feature: dict[str, Any]) -> None:
        """What an item says, its number and its bytes belong to one version."""
        said = feature["properties"]["said"]
        assert feature["properties"]["version"] == str(said)
        self.versions.add(str(said))
        copy = feature["assets"]["copy.json"]
        content = (await self._get(urlsplit(copy["href"]).path)).body
        assert f"1220{hashlib.sha256(content).hexdigest()}" == copy["file:checksum"]
        assert json.loads(content)["said"] == said
        checked = (await self._get(urlsplit(feature["assets"]["qa"]["href"]).path)).json
        assert checked["run"] == feature["properties"]["headgate:run"]
        for link in feature["links"]:
            if link["rel"] == "predecessor-version":
                old = (await self._get(urlsplit(link["href"]).path)).json
                assert old["properties"]["version"] == str(said - 1)

    async def _get(self, path: str) -> Answer:
        answer = await ask(self._app, "GET", path, {"host": "localhost"}, client=HERE)
        assert answer.status == 200, (path, answer.body)
        return answer


def write(world: World, said: int) -> None:
    for n, name in enumerate(NAMES):
        world.put(f"{name}.json", thing(point(n, n), "2026-01-01T00:00:00Z", said, id=name))


async def work(world: World, file: Path, crash_at: str = "") -> None:
    """`headgate up` with real workers, one of which is killed where it is told to."""
    tuning = replace(world.tuning, workers=2, batch_max=3)
    ledger = Ledger(world.url, world.folder / "home")
    await up(
        [str(file)], ledger, tuning, until_idle=True, log_to=("json", "error"), crash_at=crash_at
    )


async def test_a_reader_never_sees_half_of_a_promotion(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    """Versions are promoted by processes that are killed before and after their commits."""
    monkeypatch.chdir(world.folder)
    file = world.folder / "soil.py"
    file.write_text(PIPELINE)
    write(world, 1)
    await work(world, file)
    reader = Reader(await app_of(world.db))
    reading = asyncio.create_task(reader.forever())
    try:
        for said, crash_at in enumerate(("promoted", "after:finalize"), 2):
            write(world, said)
            await work(world, file, f"{crash_at}#2")
            assert not reading.done(), reading.exception()
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    assert reading.cancelled()
    assert reader.rounds > 3
    await reader.read()
    assert reader.versions == {"1", "2", "3"}
    killed = "SELECT count(*) FROM headgate.worker WHERE buried_why = 'process died'"
    assert await world.val(killed) >= 2


async def test_an_address_of_bytes_outlives_the_item_that_led_to_it(world: World):
    """Who read an item before it was replaced or removed still gets what it promised."""
    p = shelf("soil", world.lake, removed="remove")
    app = await app_of(world.db, p)
    await world.receive(p, change("a", thing(point(1, 1), None, 1, id="a")))
    await world.work(p)
    item = (await ask(app, "GET", "/stac/collections/soil/items/a", client=HERE)).json
    copy = item["assets"]["copy.json"]
    await world.receive(p, change("a", thing(point(1, 1), None, 2, id="a"), minute=1))
    await world.work(p)
    await world.receive(p, change("a", None, removed=True, minute=2))
    await world.work(p)
    gone = await ask(app, "GET", "/stac/collections/soil/items/a", client=HERE)
    assert (gone.status, gone.reason) == (404, "unknown_item")
    content = (await ask(app, "GET", urlsplit(copy["href"]).path, client=HERE)).body
    assert f"1220{hashlib.sha256(content).hexdigest()}" == copy["file:checksum"]
