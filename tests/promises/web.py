"""Web addresses and event streams on their way through the ledger: once, whatever happens."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TypedDict

from tests.net.webs import Asked, say, speaking
from tests.world import World

import headgate as hg


class Seen(TypedDict):
    uri: str
    text: str


def keep(pipeline: hg.Pipeline) -> hg.Pipeline:
    """Write each object's name and text into a table."""

    @pipeline.rows("seen", key=("uri",), schema=Seen)
    def seen(obj: hg.Object) -> object:
        yield {"uri": obj.uri, "text": obj.text()}

    return pipeline


async def test_a_web_address_is_ingested_once_per_version(world: World) -> None:
    """Polled again and again, each version has one effect, and quiet polls write nothing."""
    body = b"first"

    async def speak(asked: Asked, writer: asyncio.StreamWriter) -> None:
        tag = f'"{hashlib.md5(body).hexdigest()}"'
        if asked.headers.get("if-none-match") == tag:
            return say(writer, "304 Not Modified")
        say(writer, "200 OK", body, ETag=tag)

    with speaking(speak) as web:
        source = hg.Http(f"{web.url}/rain.csv", every="50ms")
        rain = keep(world.pipeline(sources=[source]))
        await world.run(rain)
        await world.run(rain)
        written = await world.val("SELECT count(*) FROM headgate.entry")
        body = b"second"
        await world.run(rain)
    assert (written, await world.outcomes()) == (1, {"finalized": 2})
    assert await world.table("seen", "text") == [("second",)]


async def test_a_stream_of_events_is_ingested_once_though_it_breaks(world: World) -> None:
    """It hangs up after every few events and repeats itself; each event has one effect."""

    async def speak(asked: Asked, writer: asyncio.StreamWriter) -> None:
        after = int(asked.headers.get("last-event-id", "0"))
        if after >= 20:
            return say(writer, "204 No Content")
        first = max(after - 2, 1)  # a server that is unsure repeats some
        events = [b"id: %d\ndata: event %d\n\n" % (n, n) for n in range(first, after + 6)]
        say(
            writer,
            "200 OK",
            b"retry: 1\n" + b"".join(events) + b"id: 77\ndata: cut o",
            Content_Type="text/event-stream",
            Content_Length="",
        )

    with speaking(speak) as web:
        feed = keep(world.pipeline(sources=[hg.ServerSentEvents(f"{web.url}/feed")]))
        await world.run(feed)
    texts = {text for (text,) in await world.table("seen", "text")}
    assert texts == {f"event {n}" for n in range(1, 21)}
    assert await world.outcomes() == {"finalized": 20}
