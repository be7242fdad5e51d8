"""What rooms ask of one another, as protocols. `pipeline` and `runtime` hand the services in.

Stores and sources are plain, blocking and safe to call from several threads: the path calls them
from its worker threads, a slice of entries at a time.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Literal, Protocol, runtime_checkable

from .call import Call, Vouched, Web
from .envelope import Clock, Envelope, Kind, Provider, Refused, Strength
from .watermark import Watermark


class Spool(Protocol):
    """Bytes on their way in: a private local file that knows its digest. Nobody else sees it."""

    path: Path
    size: int

    def write(self, chunk: bytes | memoryview) -> None:
        """Append. Memory stays constant however much is written."""
        ...

    @property
    def digest(self) -> bytes:
        """SHA-256 of what was written so far."""
        ...

    def discard(self) -> None:
        """Forget it. Harmless when it was kept or discarded already."""
        ...


class Store(Protocol):
    """Where bytes live, by digest. What is kept is durable when `keep` returns."""

    uri: str

    def spool(self) -> Spool:
        """A place to write to."""
        ...

    def keep(self, spool: Spool) -> None:
        """Make the spool's bytes durable under their digest. Keeping them again is harmless."""
        ...

    def has(self, digest: bytes) -> bool: ...

    def open(self, digest: bytes) -> BinaryIO:
        """A stream of the bytes. Raises `ObjectMissing`."""
        ...

    def path(self, digest: bytes) -> Path:
        """A local file with these bytes; it must not be written to."""
        ...

    def delete(self, digest: bytes) -> None:
        """Remove the bytes. Harmless when they are gone."""
        ...

    def digests(self) -> Iterator[bytes]:
        """Every digest that is kept."""
        ...

    def check(self, digest: bytes) -> bool:
        """Do the kept bytes still have this digest? Reads all of them."""
        ...

    def project(self, files: Mapping[str, bytes]) -> None:
        """Replace small named files, each atomically; all of them are durable when it returns.

        A reader sees the old file or the new one, never a part. After an error any of them may be
        there: do it again.
        """
        ...

    def names(self, folder: str) -> Iterator[str]:
        """Every named file below a folder, by its whole name."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Remove named files for good. Harmless when they are gone."""
        ...

    def read(self, name: str) -> bytes | None:
        """The small named file, or None."""
        ...

    def sweep(self, older_than_seconds: float) -> int:
        """Remove spools that a dead process left behind; how many."""
        ...


class Chunks(Protocol):
    """A growing list of byte strings, in memory or not."""

    def append(self, chunk: bytes, /) -> None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Known:
    """What the ledger remembers of a uri that a polled source showed us."""

    hint: str
    generation: int
    removed: bool = False


@dataclass(frozen=True, slots=True)
class Noticed:
    """What a polled source noticed. The ledger decides by compare-and-swap whether it is new.

    `expected` is the generation the detector had compared with (0: never seen). `data` are the
    object's bytes where the source has them at hand; otherwise they are fetched. `trace` is the
    `traceparent` that the source told with it.
    """

    uri: str
    kind: Kind
    hint: str
    strength: Strength
    event_time: datetime
    expected: int
    size: int | None = None
    content_type: str | None = None
    clock: Clock = "object"
    item: str | None = None
    data: bytes | None = None
    trace: str | None = None

    def after(self, before: Known | None) -> Noticed:
        """The same, compared with what is known. A version that is back is another change than
        when it came.
        """
        if before is None:
            return self
        back = before.removed and self.strength == "immutable"
        strength = "strong" if back else self.strength
        return replace(self, expected=before.generation, strength=strength)


@dataclass(frozen=True, slots=True)
class Shown:
    """One object of a whole listing. It is not `settled` while it is still being written."""

    change: Noticed
    settled: bool = True


@dataclass(frozen=True, slots=True)
class Scan:
    """One look at a polled source. `unsettled` counts what was seen but is still being written."""

    changes: list[Noticed]
    unsettled: int


class Source(Protocol):
    """Something that tells us about changes and lets us read the objects it told us about.

    How it tells is one of four ways: we look and compare (`Polled`), it goes on from where we left
    off (`Followed`), a queue hands us messages (`Wired`), or others call us (`Pushed`).
    """

    name: str

    def check(self) -> None:
        """Raise `UsageError` when this source cannot work as declared (there is no such folder)."""
        ...

    def owns(self, uri: str) -> bool:
        """Can this source read the object?"""
        ...

    def fetch(self, envelope: Envelope) -> Iterable[bytes | memoryview]:
        """The object's bytes in chunks.

        Raises `ObjectMissing`, `PermissionDenied`, `ObjectChanged`, `Unavailable`.
        """
        ...


@runtime_checkable
class Polled(Source, Protocol):
    """A source we look at every so often and compare with what the ledger knows of it."""

    every_seconds: float

    def scan(self, known: Mapping[str, Known], now: datetime) -> Scan:
        """Compare what is there with what is known. Raises `Unavailable` rather than guess."""
        ...

    def envelope(self, change: Noticed, generation: int, received_at: datetime) -> Envelope:
        """The change as an envelope, once the ledger has numbered it."""
        ...


@runtime_checkable
class Listable(Polled, Protocol):
    """A polled source that can say everything it has, so that it can be held against the ledger."""

    def everything(self, now: datetime) -> Iterator[Shown]:
        """All there is, in any order and without holding all of it. `Unavailable` rather than
        a part of it.
        """
        ...

    def covers(self, uri: str) -> bool | None:
        """Would a listing show this object if it were there? None: only the listing can say."""
        ...


@dataclass(frozen=True, slots=True)
class Advance:
    """What a followed source told next, and where to go on once that is durable."""

    told: Sequence[Envelope | Refused]
    checkpoint: str


@runtime_checkable
class Followed(Source, Protocol):
    """A source with one place to go on from: a stream of events, a clock."""

    provider: Provider

    def follow(self, checkpoint: str | None) -> AsyncGenerator[Advance | None]:
        """Everything after the checkpoint, for ever; None whenever there is nothing to tell yet.

        The checkpoint moves in the transaction that admits what was told. Raises `Unavailable`;
        it is then followed again from the last checkpoint that was kept.
        """
        ...


# Up to when a pipeline is complete; asked with the moment that is waited for, if there is one.
Stands = Callable[[Watermark, datetime | None], Awaitable[datetime | None]]


@runtime_checkable
class Waiting(Followed, Protocol):
    """A followed source that may go by the watermark of a pipeline instead of the clock."""

    by: Watermark | None

    def going_by(self, stands: Stands) -> Followed:
        """The same, with the watermark at hand."""
        ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message of a queue. `handle` acknowledges this delivery of it and no other."""

    id: str
    body: bytes
    handle: str
    times: int = 1
    sent_at: datetime | None = None
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])


class Wire(Protocol):
    """A queue of deliveries. What is not acknowledged comes again, after `hidden_seconds`.

    `at_once` is the most that one receive brings.
    """

    hidden_seconds: float
    at_once: int

    async def receive(self) -> Sequence[Delivery]:
        """Wait for deliveries, some seconds at most. Raises `Unavailable`."""
        ...

    async def ack(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """These are durable with us: never again. Those that could not be acknowledged."""
        ...

    async def later(self, deliveries: Sequence[Delivery], seconds: float) -> None:
        """Show them again after a while."""
        ...

    async def left(self) -> int:
        """About how many there still are, with those that others have in hand."""
        ...

    async def close(self) -> None:
        """Stop. What was received and is not acknowledged comes again at once."""
        ...


@runtime_checkable
class Wired(Source, Protocol):
    """A source that tells through a queue; `queue` names it to `transports.open_wire`.

    `ack` says when a message is ours for good: once what it tells is in the ledger, or only when
    that is done.
    """

    provider: Provider
    queue: str
    dead_letters: str | None
    ack: Literal["admitted", "finalized"]

    def read(self, delivery: Delivery, received_at: datetime) -> Sequence[Envelope | Refused]:
        """What one message tells. One bad record never costs its neighbours. Never raises."""
        ...


@runtime_checkable
class Pushed(Source, Protocol):
    """A source that others call. `door` says where: `webhook`, or the provider of the pushes."""

    door: str
    provider: Provider

    async def vouch(self, call: Call, web: Web) -> Vouched:
        """Who sent this? Raises `Unproven`; `Unavailable` when that cannot be found out now."""
        ...

    def read(self, call: Call, vouched: Vouched) -> Sequence[Envelope | Refused]:
        """What a call that was vouched for tells. Never raises."""
        ...
