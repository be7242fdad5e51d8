"""The feed: changes as they end, read once for everybody who follows them here.

One task looks for new commits while somebody follows, and keeps what it found lately. Each reader
has a place and takes what is behind it: from what is kept, and when they are further behind, from
the ledger. Nobody is pushed: a slow reader holds one piece and their place, nothing piles up for
them, and nobody waits for them. Whoever is cut off goes on from the last id they saw.

Who reads must not slow down who writes. All streams of a process together read and tell only so
much in a second. When more changes end than that, readers fall behind, and catch up later.

While the ledger is away, streams stay open, say so in a comment, and go on when it is back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from headgate.errors import LedgerUnavailable
from headgate.ledger import changes as ledger
from headgate.ledger.changes import Change, Cursor, Outcome
from headgate.telemetry.log import get_logger

from .doors import Serving
from .problem import Refusal

log = get_logger("headgate.serve")

MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "Vary": "Authorization, Cookie"}
# One piece: it is what a reader who does not read holds of our memory.
PIECE = 100
KEPT_PIECES = 50
# What all streams together may take of this machine.
CHANGES_PER_SECOND = 1_000.0
BYTES_PER_SECOND = 32_000_000.0
# Connections are for calls that bring something, too.
STREAMS_MOST = 500
POLL_SECONDS, BUSY_SECONDS, AWAY_SECONDS = 0.25, 0.02, 5.0
HEARTBEAT_SECONDS = 15.0
# Then it ends, and whoever may still follow comes back: what they may see is asked anew.
STREAM_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which changes a reader follows, and whether they see what is restricted."""

    sees_restricted: bool
    pipelines: frozenset[str] | None = None
    outcomes: frozenset[Outcome] | None = None
    uri: str | None = None

    def asks_like(self, other: Wanted) -> bool:
        """Do both ask for the same changes, however much of them they may see?"""
        return replace(self, sees_restricted=other.sees_restricted) == other

    def takes(self, change: Change) -> bool:
        """Is it one of these?"""
        return (
            (self.pipelines is None or change.pipeline in self.pipelines)
            and (self.outcomes is None or change.outcome in self.outcomes)
            and (self.uri is None or change.source_uri.startswith(self.uri))
        )


# How a change is told, as an event; True: with what is restricted.
Form = Callable[[Change, bool], bytes]


@dataclass(slots=True)
class Piece:
    """Changes of a stretch of the feed, and how they were told: the same bytes for everybody."""

    after: Cursor
    upto: Cursor
    changes: list[Change]
    _events: dict[tuple[Form, bool], list[bytes]] = field(
        default_factory=dict[tuple[Form, bool], list[bytes]]
    )
    _told: dict[tuple[Form, Wanted], bytes] = field(
        default_factory=dict[tuple[Form, Wanted], bytes]
    )

    def told(self, place: Cursor, wanted: Wanted, form: Form) -> bytes:
        """What is told of it to a reader at this place."""
        key = form, wanted
        if place > self.after:  # it has a part of it already
            return self._join(place, wanted, form)
        if key not in self._told:
            self._told[key] = self._join(place, wanted, form)
        return self._told[key]

    def _join(self, place: Cursor, wanted: Wanted, form: Form) -> bytes:
        how = form, wanted.sees_restricted
        if how not in self._events:
            self._events[how] = [form(c, wanted.sees_restricted) for c in self.changes]
        pairs = zip(self.changes, self._events[how], strict=True)
        return b"".join(e for c, e in pairs if c.cursor > place and wanted.takes(c))


class Feed:
    """What changed lately, for everybody who follows it in this process."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._pieces: deque[Piece] = deque(maxlen=KEPT_PIECES)
        # What readers further behind read lately; others are behind, too.
        self._older: deque[tuple[Wanted, Piece]] = deque(maxlen=KEPT_PIECES)
        self._told_bytes = 0
        self._paid_until = 0.0
        self._end: Cursor | None = None
        self._looking: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()
        self.readers = 0
        self.away = ""
        self.closed = False

    def close(self) -> None:
        """End all streams: this process stops."""
        self.closed = True
        self._wake()

    def admit(self) -> None:
        """Raises `Refusal` when so many follow that one more would be in others' way."""
        if self.readers >= STREAMS_MOST:
            raise Refusal("too_many_requests", "too many follow already", retry_after=30)

    async def follow(
        self, place: Cursor, wanted: Wanted, form: Form
    ) -> AsyncGenerator[tuple[Cursor, bytes]]:
        """What is behind a place, piece by piece, for as long as it is asked for.

        Empty bytes come with every step that has nothing for this reader: something moved, so
        much time has passed, or `away` says something else than before.
        """
        with self.reading():
            while not self.closed:
                moved, end = self._moved, self._end
                if end is None or place >= end:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(HEARTBEAT_SECONDS):
                            await moved.wait()
                    yield place, b""
                    continue
                piece = self._piece(place) or self._older_piece(place, wanted)
                if piece is None:
                    piece = await self._catch_up(place, end, wanted)
                if piece is None:
                    yield place, b""
                    continue
                told, place = piece.told(place, wanted, form), piece.upto
                self._told_bytes += len(told)
                yield place, told

    def lately(self, place: Cursor | None, most: int) -> tuple[list[Change], Cursor | None]:
        """The last changes behind a place that are kept, and the end of the feed now.

        For who wants to see what happens, not to follow it: of many, the newest are enough.
        """
        if place is None or self._end is None or place >= self._end:
            return [], self._end if place is None else max(place, self._end or place)
        kept = [c for piece in self._pieces for c in piece.changes if c.cursor > place]
        return kept[-most:], self._end

    def _piece(self, place: Cursor) -> Piece | None:
        """The piece that is next, if it is still kept."""
        for piece in reversed(self._pieces):
            if piece.after <= place < piece.upto:
                return piece
        return None

    def _older_piece(self, place: Cursor, wanted: Wanted) -> Piece | None:
        for alike, piece in reversed(self._older):
            if piece.after <= place < piece.upto and alike.asks_like(wanted):
                return piece
        return None

    def _owes(self, changes: int) -> float:
        """How long to wait, so that all streams together stay within what they may take."""
        now = asyncio.get_running_loop().time()
        told, self._told_bytes = self._told_bytes, 0
        cost = changes / CHANGES_PER_SECOND + told / BYTES_PER_SECOND
        self._paid_until = max(self._paid_until, now) + cost
        return self._paid_until - now

    async def _catch_up(self, place: Cursor, end: Cursor, wanted: Wanted) -> Piece | None:
        """The next piece from the ledger, for a reader who is further behind."""
        serving = self._serving
        try:
            async with serving.readers:
                page = await ledger.changes(
                    serving.db,
                    place,
                    PIECE,
                    pipelines=wanted.pipelines,
                    outcome=wanted.outcomes,
                    uri_prefix=wanted.uri,
                )
        except LedgerUnavailable:
            await asyncio.sleep(POLL_SECONDS)
            return None
        # With nothing more behind it, it has seen all that there was before it looked.
        upto = page.cursor if page.more else max(page.cursor, end)
        piece = Piece(place, upto, page.changes)
        self._older.append((wanted, piece))
        await asyncio.sleep(self._owes(len(page.changes)))
        return piece

    @contextmanager
    def reading(self) -> Generator[None]:
        """Somebody follows; while anybody does, what is new is looked for."""
        self.readers += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        try:
            yield
        finally:
            self.readers -= 1
            if not self.readers:
                self._looking.cancel()
                self._looking, self._end = None, None
                self._pieces.clear()
                self._older.clear()

    async def _look(self) -> None:
        """Find what is new, for as long as somebody follows."""
        pause = POLL_SECONDS
        while True:
            try:
                pause = await self._look_once()
                self._say("")
            except LedgerUnavailable as error:
                self._say(f"the ledger is away ({error.reason}); this goes on when it is back")
                pause = min(2 * max(pause, POLL_SECONDS), AWAY_SECONDS)
            except Exception as error:
                log.error("the feed failed", why=f"{type(error).__name__}: {error}")
                self._say("the feed failed; it is tried again")
                pause = AWAY_SECONDS
            await asyncio.sleep(pause)

    async def _look_once(self) -> float:
        """One look; how long to wait for the next."""
        if self._end is None:
            self._end = await ledger.latest(self._serving.db)
            self._wake()
        page = await ledger.changes(self._serving.db, self._end, PIECE)
        if page.cursor > self._end:
            self._pieces.append(Piece(self._end, page.cursor, page.changes))
            self._end = page.cursor
            self._wake()
        return max(self._owes(len(page.changes)), BUSY_SECONDS if page.more else POLL_SECONDS)

    def _say(self, away: str) -> None:
        if away != self.away:
            self.away = away
            self._wake()

    def _wake(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


def event(name: str, id: Cursor | None, data: bytes) -> bytes:
    """One event of a stream. `data` is a line of JSON."""
    place = b"" if id is None else b"id: %b\n" % str(id).encode()
    return b"%bevent: %b\ndata: %b\n\n" % (place, name.encode(), data)


def comment(text: str, place: Cursor | None = None) -> bytes:
    """A comment; with a place, where to go on although nothing was told of what lies before it."""
    kept = "" if place is None else f"id: {place}\n"
    return f": {' '.join(text.split())}\n{kept}\n".encode()


class EventStream(StreamingResponse):
    """An answer that goes on. When its reader is gone, so is what was opened for them."""

    media_type = MEDIA_TYPE

    def __init__(self, events: AsyncGenerator[bytes], status_code: int = 200) -> None:
        super().__init__(events, status_code, HEADERS)
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._events.aclose()


async def stream(
    feed: Feed, place: Cursor, wanted: Wanted, form: Form, seconds: float = STREAM_SECONDS
) -> AsyncGenerator[bytes]:
    """The changes behind a place, as server-sent events. It ends after so many seconds."""
    loop = asyncio.get_running_loop()
    ends, silent, away = loop.time() + seconds, loop.time(), ""
    yield b"retry: 1000\n" + comment("changes follow", place)
    following = feed.follow(place, wanted, form)
    try:
        async for place, told in following:
            if feed.away != away:
                away = feed.away
                yield comment(away or "the ledger is back")
            if told:
                silent = loop.time()
                yield told
            elif loop.time() - silent >= HEARTBEAT_SECONDS - 1:
                silent = loop.time()
                yield comment("nothing new", place)
            if loop.time() > ends:
                yield comment("come back: what you may see is asked anew", place)
                return
    finally:
        await following.aclose()
