"""The examples of the web do what their pages say, with the servers and scripts they bring."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.examples.test_examples import Example
from tests.pg.processes import eventually
from tests.server.doors import whsec
from tests.world import World


@contextmanager
def running(*command: str, **env: str) -> Iterator[str]:
    """A server in the folder we are in; the address it says it has."""
    said = ""

    def address() -> re.Match[str] | None:
        nonlocal said
        with open("said") as file:
            said = file.read()
        return re.search(r"http://127\.0\.0\.1:[1-9]\d*", said)

    clean = {k: v for k, v in os.environ.items() if not k.startswith("HEADGATE_")}
    with open("said", "w") as out:
        process = subprocess.Popen(
            [sys.executable, "-u", *command], stdout=out, stderr=out, env={**clean, **env}
        )
    try:
        eventually(lambda: address() is not None or process.poll() is not None, seconds=60)
        found = address()
        assert found, said
        yield found[0]
    finally:
        process.terminate()
        process.wait(60)


async def test_http(world: World, monkeypatch: pytest.MonkeyPatch):
    """Each version is read once, equal bytes are skipped, and what is gone twice is gone."""
    example = Example("http", world, monkeypatch)
    public = example.folder / "public"
    server = ("-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", "public")
    with running(*server) as url:
        monkeypatch.setenv("SITE", url)
        assert "stations        2   2" in example.up()
        (public / "switzerland.csv").write_text("name,height\nBern,554\n")
        os.utime(public / "norway.csv")
        await example.again()
        assert await world.outcomes() == {"finalized": 3, "skipped:unchanged": 1}
        (public / "norway.csv").unlink()
        await example.again()
    assert await world.table("station", "name", "height") == [("Bern", 554)]


async def test_sse(world: World, monkeypatch: pytest.MonkeyPatch):
    """What was sent while nobody listened comes with the next run, and nothing comes twice."""
    example = Example("sse", world, monkeypatch)
    with running("feed.py", "0") as url:
        monkeypatch.setenv("FEED", f"{url}/trades")
        assert "trades          3   3" in example.up()
        with (example.folder / "trades.jsonl").open("a") as lines:
            lines.write('{"number": 4, "symbol": "ELM", "price": "7.50"}\n')
        await example.again()
    assert (await world.tally())["received"] == 4
    assert await world.table("trade", "number") == [(1,), (2,), (3,), (4,)]


async def test_push(world: World, monkeypatch: pytest.MonkeyPatch):
    """Twice, in a batch, broken, late: every answer is on the page, and the newest level stands."""
    example = Example("push", world, monkeypatch)
    env = {
        "EVENTS_SECRET": whsec(),
        "HEADGATE_DATABASE_URL": world.url,
        "HEADGATE_HOME": str(example.folder / ".headgate"),
        "HEADGATE_SERVE_PORT": "0",
        "HEADGATE_WORKERS": "1",
    }

    def send(url: str, name: str) -> str:
        command = [sys.executable, "send.py", f"{url}/events/cloudevents", f"events/{name}.json"]
        sender = {**os.environ, "EVENTS_SECRET": env["EVENTS_SECRET"]}
        return subprocess.run(
            command, env=sender, capture_output=True, text=True, timeout=60
        ).stdout

    with running("-m", "headgate", "up", "pipeline.py", "--log-format", "json", **env) as url:
        answers = ""
        for name in ("one", "one", "batch", "late"):
            # The row of `one` is there before a newer one is, as it is for a person who types.
            answers += await asyncio.to_thread(send, url, name)
            await world.idle()
    assert re.findall("^200 .*\n", example.page, re.MULTILINE) == answers.splitlines(keepends=True)
    assert await world.outcomes() == {
        "finalized": 2,
        "skipped:stale": 1,
        "quarantined:impossible": 1,
        "quarantined:missing_field": 1,
    }
    tally = await world.tally()
    assert (tally["received"], tally["admitted"], tally["duplicate"]) == (7, 5, 2)
    assert await world.table("level", "gauge", "centimetres") == [("aare", 118)]
