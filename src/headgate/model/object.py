"""What a handler is given: the object it works on, and the values it may give back."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from headgate.errors import SchemaError

from .envelope import Envelope
from .lookup import Lookup

Content = bytes | str | Path | BinaryIO


class Object:
    """One version of one object: its bytes do not change while you look at them."""

    __slots__ = ("_ask", "_body", "_digest", "_envelope", "_file", "size", "uri")

    def __init__(
        self,
        *,
        uri: str,
        digest: bytes,
        size: int,
        body: bytes | Path,
        envelope: Callable[[], Envelope],
    ) -> None:
        self.uri = uri
        self.size = size
        self._digest = digest
        self._body = body
        self._ask = envelope
        self._envelope: Envelope | None = None

    def __repr__(self) -> str:
        return f"<Object {self.uri} {self.size} bytes sha256:{self.digest[:12]}…>"

    def moved(self, body: Path) -> None:
        """The bytes are at their final place now."""
        self._body = body

    @property
    def envelope(self) -> Envelope:
        """The change that brought this object, as it was received."""
        if self._envelope is None:
            self._envelope = self._ask()
        return self._envelope

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes, in hex."""
        return self._digest.hex()

    @property
    def event_time(self) -> datetime:
        """When it changed, by the source's account."""
        return self.envelope.event_time

    @property
    def name(self) -> str:
        """The last part of the uri."""
        return self.uri.rstrip("/").rpartition("/")[2]

    def open(self) -> BinaryIO:
        """A stream of the bytes. Memory stays constant however large the object is."""
        if isinstance(self._body, bytes):
            return io.BytesIO(self._body)
        return self._body.open("rb")

    def read(self) -> bytes:
        """All bytes."""
        return self._body if isinstance(self._body, bytes) else self._body.read_bytes()

    def path(self) -> Path:
        """A local file with these bytes, for libraries that want one. Do not write to it."""
        if isinstance(self._body, bytes):
            # It came inside its message. The file lives as long as this object does.
            self._file = tempfile.NamedTemporaryFile(prefix="headgate-")  # noqa: SIM115  (closed with this object)
            self._file.write(self._body)
            self._file.flush()
            self._body = Path(self._file.name)
        return self._body

    def text(self, encoding: str = "utf-8") -> str:
        """All of it as text."""
        try:
            return self.read().decode(encoding)
        except UnicodeDecodeError as error:
            raise self._undecodable(error) from None

    def lines(self, encoding: str = "utf-8") -> Iterator[str]:
        """Line by line, line ends kept, as `csv` wants them. Constant memory."""
        with self.open() as raw, io.TextIOWrapper(raw, encoding, newline="") as lines:
            try:
                yield from lines
            except UnicodeDecodeError as error:
                # It counts from the piece that was being decoded, which ends where we have read to.
                raise self._undecodable(error, raw.tell() - len(error.object)) from None

    def json(self) -> Any:
        """The parsed JSON document."""
        try:
            return json.loads(self.read())
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"{self.uri} is no JSON: {error}", reason="not_json") from None

    def _undecodable(self, error: UnicodeDecodeError, offset: int = 0) -> SchemaError:
        return SchemaError(
            f"{self.uri} is no {error.encoding} text: byte {offset + error.start}: {error.reason}",
            reason="not_text",
        )


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that a transform made: bytes, text, a path or a stream, and its media type."""

    name: str
    content: Content
    media_type: str = "application/octet-stream"


class Run(Protocol):
    """One attempt at one entry.

    `seed` and `now` are frozen: a retry and a replay get the same. `now` is when the change was
    received. `trace` is a `traceparent` to hand on to others, if there is a trace.
    """

    id: str
    entry: int
    attempt: int
    key: str
    pipeline: str
    version: str
    params: Mapping[str, Any]
    seed: int
    now: datetime
    trace: str | None

    def lookup(self, name: str) -> Lookup:
        """A file that the pipeline declares (`lookups=`), as it was when the worker started."""
        ...

    def call(
        self, name: str, fn: Callable[..., Any], *, undo: Callable[..., Any] | None = None
    ) -> Any:
        """Do something outside Postgres once. `fn` gets the step's idempotency key if it takes one.

        A step that finished is not made again on retry: its stored answer is returned. The other
        side must honour the key; where it does not, the call is at-least-once. In an async handler
        it is awaited: `await run.call("name", fn)`.
        """
        ...


class Transaction(Protocol):
    """SQL inside the finalize transaction, for async handlers. asyncpg's `$1` style."""

    async def execute(self, sql: str, *args: Any) -> str: ...
    async def executemany(self, sql: str, args: list[tuple[Any, ...]]) -> None: ...
    async def fetch(self, sql: str, *args: Any) -> list[Mapping[str, Any]]: ...
    async def fetchrow(self, sql: str, *args: Any) -> Mapping[str, Any] | None: ...
    async def fetchval(self, sql: str, *args: Any) -> Any: ...
    def later(self, sql: str, *args: Any) -> None:
        """A statement that needs no answer. Many of them travel together: much faster."""
        ...


class BlockingTransaction(Protocol):
    """The same for plain handlers."""

    def execute(self, sql: str, *args: Any) -> str: ...
    def executemany(self, sql: str, args: list[tuple[Any, ...]]) -> None: ...
    def fetch(self, sql: str, *args: Any) -> list[Mapping[str, Any]]: ...
    def fetchrow(self, sql: str, *args: Any) -> Mapping[str, Any] | None: ...
    def fetchval(self, sql: str, *args: Any) -> Any: ...
    def later(self, sql: str, *args: Any) -> None: ...
