"""Server-sent events pass the suite that every followed source passes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.net.webs import Asked, say, speaking

from headgate.sources import ServerSentEvents
from headgate.testing.sources import FollowedConformance, FollowedWorld


class Feed:
    """A server that has all its events at hand and sends those after the last id."""

    def __init__(self) -> None:
        self.last = 0
        self.away = False
        self.source: ServerSentEvents

    async def speak(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if self.away:
            say(writer, "503 Service Unavailable")
            return
        say(writer, "200 OK", Content_Type="text/event-stream", Content_Length="")
        at = int(asked.headers.get("last-event-id", "0"))
        while not writer.is_closing():
            for n in range(at + 1, self.last + 1):
                writer.write(b"id: %d\ndata: %d\n\n" % (n, n))
            at = self.last
            writer.write(b": still here\n\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    def happen(self, times: int) -> None:
        self.last += times

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.away = True
        yield
        self.away = False


class TestServerSentEvents(FollowedConformance):
    @pytest.fixture
    def world(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[FollowedWorld]:
        monkeypatch.setattr("headgate.sources.sse.QUIET_SECONDS", 0.1)
        feed = Feed()
        with speaking(feed.speak) as web:
            feed.source = ServerSentEvents(web.url)
            yield feed
