"""The user's own source: a function that says what there is, and maybe one that reads it.

    @rain.source(every="6h")
    def stations():
        for station in api.stations():
            yield hg.Change(f"stations://{station.id}", version=station.revision)

    @stations.fetch
    def read(change: hg.Change) -> bytes:
        return api.download(change.uri)

What it says is compared with what it said before. Only what it calls removed is removed, unless it
promises with `complete=True` that what it does not say is gone; and even then not when too much
would go at once.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from headgate.errors import ObjectMissing, Permanent, PipelineError, Unavailable
from headgate.model.change import Change
from headgate.model.duration import seconds
from headgate.model.envelope import Envelope, Provider, Strength
from headgate.model.ports import Known, Noticed, Scan, Source

from .calling import Lister
from .numbered import numbered
from .shrinking import shrank

CHUNK_BYTES = 1 << 20
_PROVIDERS: Mapping[str, Provider] = {"s3": "s3", "gs": "gcs", "az": "azure", "file": "file"}

Reader = Callable[[Change], "bytes | Iterable[bytes]"]


class OwnSource:
    """What a function of the user's tells, looked at every so often."""

    def __init__(
        self,
        function: Callable[[], Any],
        *,
        name: str,
        every: str | float,
        complete: bool = False,
        shrink_limit: float = 0.5,
        owns: str | None = None,
        deadline: str | float = "10m",
        others: Callable[[], Sequence[Source]] = tuple,
    ) -> None:
        self.name = name
        self.every_seconds = seconds(every, f"source {name}: every")
        deadline_seconds = seconds(deadline, f"source {name}: deadline")
        for what, given in (("every", self.every_seconds), ("deadline", deadline_seconds)):
            if given == 0:
                raise PipelineError(f"source {name}: {what} is 0", hint='as in "15m"')
        if not 0 < shrink_limit <= 1:
            hint = "0.5 refuses a list that has lost more than half; 1 believes any."
            raise PipelineError(f"source {name}: shrink_limit={shrink_limit!r}", hint=hint)
        self.complete = complete
        self.shrink_limit = shrink_limit
        self.prefix = owns
        self.reader: Reader | None = None
        self._others = others
        self._list = Lister(function, name, deadline_seconds)

    def check(self) -> None:
        """Raise `PipelineError` when it says what it reads and has no way to read it."""
        if self.prefix is not None and self.reader is None:
            raise PipelineError(
                f"source {self.name} owns {self.prefix} and cannot read it",
                hint="Write a function under it with @….fetch, or leave owns=… out.",
            )

    def scan(self, known: Mapping[str, Known], now: datetime) -> Scan:
        """Compare what the function says with what is known. Raises `Unavailable` if it fails."""
        said: dict[str, Change] = {}
        for change in self._list():
            if said.setdefault(change.uri, change) != change:
                raise self._list.trouble(f"said two different things of {change.uri}")
        noticed = [
            new
            for change in said.values()
            if (new := _compared(change, known.get(change.uri), now)) is not None
        ]
        if self.complete:
            noticed += self._missing(said, known, now)
        return Scan(noticed, 0)

    def _missing(
        self, said: Mapping[str, Change], known: Mapping[str, Known], now: datetime
    ) -> list[Noticed]:
        standing = [uri for uri, before in known.items() if not before.removed]
        gone = sorted(uri for uri in standing if uri not in said)
        # Nothing at all is more often the answer of something broken than the end of everything.
        empty = bool(gone) and not said and self.shrink_limit < 1
        if empty or shrank(len(gone), len(standing), self.shrink_limit):
            raise Unavailable(
                f"source {self.name} has lost {len(gone):,} of {len(standing):,} objects since the"
                " last look; nothing is taken for deleted (if they are really gone, declare it"
                " with shrink_limit=1 until the next look has seen it)",
                reason="source_shrank",
                upstream=self.name,
            )
        return [_removed(uri, known[uri], now) for uri in gone]

    def envelope(self, change: Noticed, generation: int, received_at: datetime) -> Envelope:
        """The change as an envelope, once the ledger has numbered it."""
        provider = _PROVIDERS.get(change.uri.partition("://")[0], "http")
        return numbered(change, generation, received_at, source=self.name, provider=provider)

    def owns(self, uri: str) -> bool:
        """With a reader: what begins with `owns`; without that, whatever no other source reads."""
        if self.reader is None:
            return False
        if self.prefix is not None:
            return uri.startswith(self.prefix)
        return bool(uri) and not any(other.owns(uri) for other in self._others())

    def has_rival(self) -> bool:
        """Is there another reader of whatever no other source reads?"""
        own = (other for other in self._others() if isinstance(other, OwnSource))
        return any(other.reader is not None and other.prefix is None for other in own)

    def fetch(self, envelope: Envelope) -> Iterator[bytes]:
        """What the user's reader gives for it, in chunks."""
        if self.reader is None:
            raise ObjectMissing(f"source {self.name} has no function that reads {envelope.uri}")
        given = self.reader(_as_said(envelope))
        if inspect.iscoroutine(given):
            given = _finished(cast("Coroutine[Any, Any, bytes | Iterable[bytes]]", given))
        if isinstance(given, bytes):
            given = (given,)
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise self._not_bytes(given)
        for piece in cast("Iterable[object]", given):
            if not isinstance(piece, bytes | bytearray | memoryview):
                raise self._not_bytes(piece)
            whole = bytes(cast("bytes", piece))
            for at in range(0, len(whole), CHUNK_BYTES):
                yield whole[at : at + CHUNK_BYTES]

    def _not_bytes(self, given: object) -> Permanent:
        return Permanent(
            f"the reader of source {self.name} gave a {type(given).__name__}",
            hint="Return bytes, or yield them piece by piece; then release the entry.",
            reason="source_function",
        )


class SourceFunction:
    """What `@pipeline.source(…)` leaves: the function itself, and `fetch` to add a reader."""

    def __init__(self, function: Callable[[], Any], source: OwnSource) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self.source = source

    def __call__(self) -> Any:
        return self._function()

    def fetch(self, reader: Reader) -> Reader:
        """Read an object that this source told of: return bytes, or yield them piece by piece."""
        if inspect.isasyncgenfunction(reader):
            raise PipelineError(
                f"source {self.source.name}: {reader.__name__} yields asynchronously",
                hint="Return the bytes from an async function, or yield them from a plain one.",
            )
        if self.source.prefix is None and self.source.has_rival():
            raise PipelineError(
                f"source {self.source.name}: two readers would read every uri",
                hint='say which are whose: @….source(every=…, owns="stations://")',
            )
        self.source.reader = reader
        return reader


def _compared(change: Change, before: Known | None, now: datetime) -> Noticed | None:
    standing = None if before is None or before.removed else before
    if change.kind == "removed":
        return standing and _removed(change.uri, standing, change.event_time or now)
    hint, strength = _hint(change)
    if standing is not None and hint and standing.hint == hint:
        return None
    return Noticed(
        uri=change.uri,
        kind="created",
        hint=hint,
        strength=strength,
        event_time=change.event_time or now,
        expected=0 if before is None else before.generation,
        size=change.size if change.data is None else len(change.data),
        content_type=change.content_type,
        clock="received" if change.event_time is None else "producer",
        item=change.item,
        data=change.data,
    )


def _removed(uri: str, before: Known, at: datetime) -> Noticed:
    return Noticed(uri, "removed", before.hint, "weak", at, before.generation, clock="received")


def _hint(change: Change) -> tuple[str, Strength]:
    if change.version is not None:
        return str(change.version), "strong"
    if change.data is not None:
        return f"sha256:{hashlib.sha256(change.data).hexdigest()}", "weak"
    if change.event_time is not None:
        size = "" if change.size is None else f"-{change.size}"
        return f"{change.event_time.astimezone(UTC).isoformat()}{size}", "weak"
    return "", "none"


def _as_said(envelope: Envelope) -> Change:
    return Change(
        envelope.uri,
        version=envelope.version_hint if envelope.strength == "strong" else None,
        event_time=envelope.event_time,
        item=envelope.item,
        kind=envelope.kind,
        size=envelope.size,
        content_type=envelope.content_type,
    )


def _finished(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Its result. In a thread of its own, since this one may be that of a running event loop."""
    ended: list[Any] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            ended.append(asyncio.run(coroutine))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="fetch", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return ended[0]
