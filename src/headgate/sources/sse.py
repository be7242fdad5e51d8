"""Server-sent events as a source: a stream we follow and, when it breaks, go on with.

The checkpoint is the id of the last event; a server that is asked with it (`Last-Event-ID`) sends
what came after. Each event is one change, with its data inside the envelope.

What makes an event this event and no other is its id. One without an id is known by its place: the
checkpoint before it, how many came since, and a digest of what it says. A server that repeats what
came after the checkpoint, as it should, repeats the same places with the same words, and they are
taken once. Count alone would confuse two events where the server leaves some out; words alone would
drop the second of two equal ones. What is left: after a reconnect, an event that says the same at
the same place is taken for the one we have. A server that gives ids leaves nothing to guess.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from string import Formatter
from urllib.parse import quote

from headgate.errors import HeadgateError, ObjectMissing, PipelineError, Unavailable
from headgate.model.duration import seconds
from headgate.model.envelope import Envelope, Provider, Refused
from headgate.model.ports import Advance
from headgate.model.secret import Secret, reveal
from headgate.model.trace import carried
from headgate.net.http import Answer, Client, Limits, need_aiohttp, shown

from .address import LONGEST_URI, check_headers, check_url
from .events import Event, EventParser

# How long to wait before asking again when the server has not said.
RETRY_SECONDS = 3.0
SHORTEST_RETRY_SECONDS = 0.05
LONGEST_RETRY_SECONDS = 300.0
# How often we say that there is nothing to tell.
QUIET_SECONDS = 1.0
_FIELDS = {"url", "id", "event"}
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Place:
    """Where in the stream we are: the last id, and how many events without one came since."""

    id: str
    since: int = 0
    over: bool = False


class ServerSentEvents:
    """The events of one stream. `uri` says what an event is called: `{url}`, `{id}`, `{event}`."""

    name: str
    provider: Provider = "http"

    def __init__(
        self,
        url: str,
        *,
        uri: str = "{url}#{id}",
        name: str | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        content_type: str | None = None,
        idle: str | float = "5m",
        max_event_bytes: int = 1_048_576,
    ) -> None:
        check_url(url)
        self.url = url
        self.name = name or url
        self._uri = _template(uri)
        self._headers = check_headers(headers or {})
        self._content_type = content_type
        self._idle_seconds = seconds(idle, "idle")
        if self._idle_seconds == 0 or max_event_bytes < 1:
            raise PipelineError(f"{self.name}: idle and max_event_bytes must be more than 0")
        self._most_bytes = max_event_bytes
        self._prefix = self._uri.partition("{id}")[0].partition("{event}")[0].format(url=url)
        if not self._prefix:
            hint = 'Begin it with {url} or with words, as in uri="urn:trade:{id}".'
            raise PipelineError(f"uri={uri!r} does not tell whose event it is", hint=hint)
        self._retry_seconds = RETRY_SECONDS

    def check(self) -> None:
        """Raise `UsageError` when the extra or a secret is not there. Asks no server."""
        need_aiohttp()
        for value in self._headers.values():
            reveal(value)

    def owns(self, uri: str) -> bool:
        """Does the uri look like one of the stream's events?"""
        return uri.startswith(self._prefix)

    def fetch(self, envelope: Envelope) -> Iterator[bytes]:
        """An event's bytes came with it; a stream does not give them twice."""
        if envelope.data is None:
            raise ObjectMissing(f"{envelope.uri} was an event, and its data is not with it")
        yield envelope.data

    async def follow(self, checkpoint: str | None) -> AsyncGenerator[Advance | None]:
        """Every event after the checkpoint. After 204, "there is no more", nothing is asked again.

        A stream that breaks is asked again after the server's `retry:`; one that cannot be opened
        raises `Unavailable`.
        """
        place = _Place(checkpoint or "")
        async with Client(Limits(read_seconds=self._idle_seconds)) as client:
            while not place.over:
                told = False
                try:
                    async with aclosing(self._connection(client, place)) as steps:
                        async for step in steps:
                            told = told or step is not None
                            yield step
                except HeadgateError as error:
                    raise self._unavailable(error) from error
                if not told:
                    yield None
                await asyncio.sleep(self._pause_seconds(told))
        _log.info("%s: the server says that there is no more", self.name)
        while True:
            yield None
            await asyncio.sleep(QUIET_SECONDS)

    def _pause_seconds(self, told: bool) -> float:
        """Before asking again: what the server wants, and never a tight loop.

        Not to the point, so that all do not come at once when a server that fell over is back.
        """
        least = SHORTEST_RETRY_SECONDS if told else min(1.0, RETRY_SECONDS)
        return max(self._retry_seconds, least) * random.uniform(0.8, 1.2)

    async def _connection(self, client: Client, place: _Place) -> AsyncGenerator[Advance | None]:
        """One connection, from its answer to its end."""
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store", **self._headers}
        if place.id:
            headers["Last-Event-ID"] = place.id
        place.since = 0
        async with client.ask(self.url, headers=headers, trusted=True) as answer:
            if answer.status == 204:
                place.over = True
                return
            self._expect_stream(answer)
            parser = EventParser(self._most_bytes)
            now = asyncio.get_running_loop().time
            spoke = now()
            async with aclosing(_pieces(answer)) as pieces:
                async for data in pieces:
                    if events := list(parser.feed(data)):
                        spoke = now()
                        yield self._advance(events, place)
                    elif now() - spoke >= QUIET_SECONDS:
                        # Heartbeats, half an event, or nothing at all.
                        spoke = now()
                        yield None
                    if parser.retry_seconds is not None:
                        self._retry_seconds = min(parser.retry_seconds, LONGEST_RETRY_SECONDS)

    def _expect_stream(self, answer: Answer) -> None:
        kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        answer.expect()
        if kind != "text/event-stream":
            raise Unavailable(
                f"{shown(self.url)} answered with {kind or 'no type'}, not with text/event-stream",
                upstream=self.name,
                hint="Is this the address of the stream, and are the headers right?",
            )

    def _unavailable(self, error: HeadgateError) -> Unavailable:
        """Whatever the trouble is, somebody may mend it: the stream is asked again later."""
        if isinstance(error, Unavailable):
            return error
        return Unavailable(str(error), upstream=self.name, hint=error.hint)

    def _advance(self, events: list[Event], place: _Place) -> Advance:
        now = datetime.now(UTC)
        told: list[Envelope | Refused] = []
        for event in events:
            if event.data or event.kind:
                told.append(self._told(event, place, now))
            if event.id is not None:
                place.id, place.since = event.id, 0
        return Advance(told, place.id)

    def _told(self, event: Event, place: _Place, now: datetime) -> Envelope | Refused:
        if event.id is None or not event.id:
            place.since += 1
        event_id = event.id or _nameless(event, place)
        if event.too_large:
            said = f"an event of {shown(self.url)} has more than {self._most_bytes:,} bytes"
            raw = event.data + f"\n… cut; event {event_id}".encode()
            return Refused("event_too_large", "data", said, raw)
        envelope = Envelope(
            event_id=event_id if len(event_id) <= 1024 else _digest(event_id),
            source=f"sse:{event.kind}"[:1024],
            provider="http",
            detector="sse",
            uri=self._uri_of(event, event_id),
            size=len(event.data),
            content_type=self._content_type,
            event_time=now,
            clock="received",
            received_at=now,
            metadata={"event": event.kind},
            data=event.data,
        )
        return carried(envelope, event.trace)

    def _uri_of(self, event: Event, event_id: str) -> str:
        def written(id: str) -> str:
            kind = quote(event.kind, safe="")
            return self._uri.format(url=self.url, id=quote(id, safe=":@+,"), event=kind)

        whole = written(event_id)
        return whole if len(whole) <= LONGEST_URI else written(_digest(event_id))[:LONGEST_URI]


async def _pieces(answer: Answer) -> AsyncGenerator[bytes]:
    """The pieces of the body, and an empty one whenever nothing came for a while.

    A stream that is cut ends, like one that is closed: both are asked again.
    """
    pieces = answer.chunks()
    reading: asyncio.Task[bytes] | None = None
    try:
        while True:
            reading = reading or asyncio.ensure_future(anext(pieces, b""))
            done, _ = await asyncio.wait({reading}, timeout=QUIET_SECONDS)
            if not done:
                yield b""
                continue
            piece, reading = await reading, None
            if not piece:
                return
            yield piece
    except Unavailable:
        return
    finally:
        if reading is not None:
            reading.cancel()


def _nameless(event: Event, place: _Place) -> str:
    digest = hashlib.sha256(b"%b\0%b" % (event.kind.encode(), event.data)).hexdigest()
    return f"{place.id}+{place.since}:{digest[:32]}"


def _digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _template(uri: str) -> str:
    try:
        named = {name for _, name, _, _ in Formatter().parse(uri) if name is not None}
    except ValueError:
        named = {""}
    if not named <= _FIELDS or not uri:
        hint = 'It may have {url}, {id} and {event} in it, as in uri="{url}#{id}".'
        raise PipelineError(f"uri={uri!r} cannot be filled in", hint=hint)
    return uri
