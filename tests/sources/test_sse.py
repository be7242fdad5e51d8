"""Server-sent events: every event once, from where we left off, however the bytes are cut."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime
from itertools import islice, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.net.webs import Asked, Speaking, say, speaking

from headgate.errors import ObjectMissing, PipelineError, Unavailable
from headgate.model.envelope import Envelope, Refused
from headgate.model.identity import change_key
from headgate.model.ports import Advance, Followed
from headgate.sources import ServerSentEvents
from headgate.sources.events import KEPT_BYTES, Event, EventParser


def parse(*chunks: bytes, most_bytes: int = 1000) -> list[Event]:
    parser = EventParser(most_bytes)
    return [event for chunk in chunks for event in parser.feed(chunk)]


STREAM = (
    b"\xef\xbb\xbf: hello\n\n"
    b"data: one\nid: 1\n\n"
    b"event: trade\r\ndata:two\r\ndata:  lines\r\nid: 2\r\n\r\n"
    b"data\rdata\rid\r\r"
    b"id: a\x00b\ndata: kept\nunknown: x\nretry: 250\nretry: soon\n\n"
    b": heartbeat\n\n"
    b"event: nothing\n\n"
    b"data: \xc3\xa9\xff\n\n"
    b"id: 9\n\n"
    b"data: never finished"
)
EVENTS = [
    Event(b"one", "message", "1"),
    Event(b"two\n lines", "trade", "2"),
    Event(b"\n", "message", ""),
    Event(b"kept", "message", None),
    Event(b"\xc3\xa9\xff", "message", None),
    Event(b"", "", "9"),
]


def test_the_format_is_read_as_the_standard_says() -> None:
    """BOM, comments, lines of data, ids with NUL, unknown fields, what is not finished."""
    parser = EventParser(1000)
    assert list(parser.feed(STREAM)) == EVENTS
    assert parser.retry_seconds == 0.25


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_it_does_not_matter_where_the_bytes_are_cut(cuts: list[int]) -> None:
    """Also in the middle of CRLF, of the BOM, of a character."""
    places = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[a:b] for a, b in pairwise(places)]
    assert parse(*chunks) == EVENTS


def test_byte_by_byte() -> None:
    """The worst of all cuts."""
    assert parse(*(STREAM[n : n + 1] for n in range(len(STREAM)))) == EVENTS


@given(st.binary(max_size=300), st.integers(1, 50))
def test_no_bytes_break_it(data: bytes, size: int) -> None:
    """Whatever is sent: the same events at any cut, and none larger than allowed."""
    pieces = [data[n : n + size] for n in range(0, len(data), size)]
    assert parse(*pieces, most_bytes=40) == parse(data, most_bytes=40)
    assert all(len(e.data) <= 40 for e in parse(data, most_bytes=40) if not e.too_large)


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"])
def test_an_event_without_end_is_not_gathered(ends: bytes) -> None:
    """Too large in one line or in many: its beginning is kept, its neighbours are whole."""
    line = b"data: " + b"x" * 100_000 + ends
    many = b"".join(b"data: " + b"y" * 100 + ends for _ in range(1000))
    comment = b":" + b"z" * 100_000 + ends
    good = b"data: good" + ends
    stream = line + ends + good + ends + many + ends + comment + good + ends
    parser = EventParser(5000)
    events: list[Event] = []
    for n in range(0, len(stream), 777):
        events += parser.feed(stream[n : n + 777])
        assert len(parser._line) <= 5000 + 777
    first, second, third, fourth = events
    assert first.too_large
    assert third.too_large
    assert max(len(first.data), len(third.data)) <= KEPT_BYTES
    assert second == fourth == Event(b"good")


def stream(*parts: bytes, stay: bool = False) -> Speaking:
    """A server that sends these parts and then hangs up, or stays silent."""

    async def speak(asked: Asked, writer: asyncio.StreamWriter) -> None:
        say(writer, "200 OK", Content_Type="text/event-stream; charset=utf-8", Content_Length="")
        for part in parts:
            writer.write(part)
            await writer.drain()
        if stay:
            await asyncio.sleep(60)

    return speak


async def told(
    source: ServerSentEvents, count: int, checkpoint: str | None = None
) -> list[Advance]:
    """Follow until so many events were told."""
    advances: list[Advance] = []
    async with aclosing(source.follow(checkpoint)) as steps:
        async for step in steps:
            if step is not None:
                advances.append(step)
            if sum(len(a.told) for a in advances) >= count:
                break
    return advances


def envelopes(advances: list[Advance]) -> list[Envelope]:
    return [one for a in advances for one in a.told if isinstance(one, Envelope)]


async def test_events_become_envelopes_with_their_data() -> None:
    """Id, uri, type and bytes are in the envelope; the checkpoint is the last id."""
    with speaking(stream(b"id: 7\nevent: trade\ndata: {}\n\nid: a b/c\ndata: x\n\n")) as web:
        source = ServerSentEvents(f"{web.url}/feed", content_type="application/json")
        assert isinstance(source, Followed)
        source.check()
        advances = await told(source, 2)
    one, two = envelopes(advances)
    assert (one.event_id, one.uri, one.data) == ("7", f"{web.url}/feed#7", b"{}")
    assert (one.provider, one.detector, one.source) == ("http", "sse", "sse:trade")
    assert (one.size, one.content_type, one.metadata) == (2, "application/json", {"event": "trade"})
    assert one.clock == "received"
    assert two.uri == f"{web.url}/feed#a%20b%2Fc"
    assert advances[-1].checkpoint == "a b/c"
    assert source.owns(one.uri)
    assert not source.owns(f"{web.url}/other#7")
    assert b"".join(source.fetch(one)) == b"{}"


async def test_a_broken_stream_goes_on_after_the_last_id() -> None:
    """Each connection asks for what came after; `retry:` sets the pause."""
    asked_with: list[str | None] = []

    async def speak(asked: Asked, writer: asyncio.StreamWriter) -> None:
        after = int(asked.headers.get("last-event-id", "0"))
        asked_with.append(asked.headers.get("last-event-id"))
        body = b"".join(b"id: %d\ndata: %d\n\n" % (n, n) for n in (after + 1, after + 2))
        body = b"retry: 10\n\n" + body + b"id: 99\ndata: cut of"
        # Half of them end in the middle of a chunk.
        length = str(len(body) + 50) if after % 4 else ""
        say(writer, "200 OK", body, Content_Type="text/event-stream", Content_Length=length)

    with speaking(speak) as web:
        advances = await told(ServerSentEvents(web.url), 9, "4")
    assert [e.event_id for e in envelopes(advances)] == [str(n) for n in range(5, 15)]
    assert asked_with == ["4", "6", "8", "10", "12"]


async def test_events_without_an_id_are_told_once_by_their_place() -> None:
    """What a server repeats after a reconnect has the same key; equal neighbours have two."""
    body = b"id: 1\ndata: a\n\ndata: tick\n\ndata: tick\n\ndata: tock\n\n"
    with speaking(stream(b"retry: 1\n", body)) as web:
        source = ServerSentEvents(web.url)
        first = [change_key(e) for e in envelopes(await told(source, 4))]
        again = [change_key(e) for e in envelopes(await told(source, 4))]
    assert len(set(first[:4])) == 4
    assert first[:4] == again[:4]
    with speaking(stream(b"data: other\n\ndata: tick\n\n")) as web:
        moved = ServerSentEvents(web.url, uri="urn:x")
        one, two = envelopes(await told(moved, 2, "1"))
    assert one.event_id.startswith("1+1:")
    assert two.event_id.startswith("1+2:")


async def test_the_uri_can_be_chosen() -> None:
    """One uri for the whole stream, or one per kind of event."""
    with speaking(stream(b"event: a/b\nid: 1\ndata: x\n\n")) as web:
        (one,) = envelopes(await told(ServerSentEvents(web.url, uri="urn:feed:{event}"), 1))
        assert one.uri == "urn:feed:a%2Fb"
    with speaking(stream(b"id: " + b"x" * 5000 + b"\ndata: x\n\n")) as web:
        (one,) = envelopes(await told(ServerSentEvents(web.url), 1))
        assert one.uri.startswith(f"{web.url}#sha256:")
        assert one.event_id.startswith("sha256:")


async def test_an_event_that_is_too_large_is_refused_and_the_rest_goes_on() -> None:
    """It is told as refused, with its beginning; the checkpoint moves past it."""
    body = b"id: 1\ndata: " + b"x" * 5000 + b"\n\nid: 2\ndata: ok\n\n"
    with speaking(stream(body)) as web:
        advances = await told(ServerSentEvents(web.url, max_event_bytes=1000), 2)
    refused, fine = [one for a in advances for one in a.told]
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.field) == ("event_too_large", "data")
    assert refused.raw.startswith(b"xxx")
    assert isinstance(fine, Envelope)
    assert advances[-1].checkpoint == "2"


async def test_204_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that has no more to say is not asked again."""

    async def over(_: Asked, writer: asyncio.StreamWriter) -> None:
        say(writer, "204 No Content")

    monkeypatch.setattr("headgate.sources.sse.QUIET_SECONDS", 0.01)
    monkeypatch.setattr("headgate.sources.sse.RETRY_SECONDS", 0.01)
    with speaking(over) as web:
        async with aclosing(ServerSentEvents(web.url).follow("5")) as steps:
            assert [await anext(steps) for _ in range(5)] == [None] * 5
    assert len(web.asked) == 1


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        ("503 Away", "text/event-stream", "503"),
        ("401 Unauthorized", "text/event-stream", "401"),
        ("200 OK", "text/html", "not with text/event-stream"),
        ("302 Found", "text/html", "link-local"),
    ],
)
async def test_what_cannot_be_followed_is_unavailable(status: str, kind: str, said: str) -> None:
    """Whatever stands in the way, the runtime tries again later from the same checkpoint."""

    async def speak(_: Asked, writer: asyncio.StreamWriter) -> None:
        to = "http://169.254.169.254/"
        say(writer, status, Content_Type=kind, Retry_After="9", Location=to)

    with speaking(speak) as web, pytest.raises(Unavailable, match=said) as error:
        await told(ServerSentEvents(web.url), 1)
    assert error.value.delay_seconds == (9 if "503" in status else None)


async def test_a_stream_that_has_fallen_silent_is_asked_again() -> None:
    """Comments keep it alive; without a byte for `idle` it is taken for dead."""
    with speaking(stream(b"id: 1\nretry: 1\ndata: x\n\n", stay=True)) as web:
        source = ServerSentEvents(web.url, idle="200ms")
        assert len(envelopes(await told(source, 2))) == 2
    assert [a.headers.get("last-event-id") for a in web.asked] == [None, "1"]


async def test_quiet_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """While there is nothing to tell the runtime hears None, and knows that it is up to date."""
    monkeypatch.setattr("headgate.sources.sse.QUIET_SECONDS", 0.02)
    with speaking(stream(b": hello\n\n", stay=True)) as web:
        async with aclosing(ServerSentEvents(web.url).follow(None)) as steps:
            heard = [await anext(steps) for _ in range(3)]
    assert heard == [None, None, None]


async def test_an_id_alone_moves_the_checkpoint() -> None:
    """A server may tell its place without telling anything else."""
    with speaking(stream(b"id: 41\n\nid: 42\n\n")) as web:
        async with aclosing(ServerSentEvents(web.url).follow(None)) as steps:
            async for step in steps:
                if step is not None and step.checkpoint == "42":
                    assert step.told == []
                    break


def test_an_event_cannot_be_read_twice() -> None:
    """A stream gives its data once; an envelope that lost it is missing."""
    source = ServerSentEvents("http://feed.example/")
    with pytest.raises(ObjectMissing):
        list(islice(source.fetch(_without_data()), 1))


def _without_data() -> Envelope:
    now = datetime(2024, 5, 1, tzinfo=UTC)
    return Envelope(
        event_id="1",
        source="sse:message",
        provider="http",
        detector="sse",
        uri="http://feed.example/#1",
        event_time=now,
        received_at=now,
    )


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("feed.example", {}),
        ("http://u:hush@feed.example/", {}),
        ("http://feed.example/", {"uri": "{url}#{ID}"}),
        ("http://feed.example/", {"uri": "{id}"}),
        ("http://feed.example/", {"uri": "{url"}),
        ("http://feed.example/", {"uri": ""}),
        ("http://feed.example/", {"idle": 0}),
        ("http://feed.example/", {"max_event_bytes": 0}),
    ],
)
def test_a_mistake_is_found_when_it_is_written(url: str, options: dict[str, Any]) -> None:
    """A declaration that cannot work fails at import."""
    with pytest.raises(PipelineError) as error:
        ServerSentEvents(url, **options)
    assert "hush" not in str(error.value)
