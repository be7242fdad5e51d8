"""Reading `text/event-stream`: lines that end in any of three ways, cut at any byte.

Follows the rules of the HTML standard, with two limits of our own: an event larger than
`most_bytes` is told as too large instead of being gathered, and so is a line. The trace context of
an event is in its fields `traceparent` and `tracestate`, or in its data where that is a CloudEvent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headgate.model.trace import Context, of_json, told

_BOM = b"\xef\xbb\xbf"
# How much of an event that is too large is kept, to say what it was.
KEPT_BYTES = 4096
LONGEST_NAME = len("event: ")


@dataclass(slots=True)
class Event:
    """One event as it was sent. `id` is None when it had none of its own."""

    data: bytes
    kind: str = "message"
    id: str | None = None
    too_large: bool = False
    trace: Context | None = None


@dataclass(slots=True)
class _Gathering:
    lines: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    kind: str = ""
    id: str | None = None
    too_large: bool = False
    trace: dict[str, str] = field(default_factory=dict[str, str])


class EventParser:
    """Takes bytes as they come, gives events. `retry_seconds` is what the server last asked for."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._line = bytearray()
        self._begun = False
        self._after_cr = False
        self._cut = False
        self._now = _Gathering()
        self.retry_seconds: float | None = None

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that these bytes complete."""
        if not self._begun:
            data = self._without_bom(data)
        at = 0
        while at < len(data):
            if self._after_cr:
                # The second half of CRLF is no line of its own.
                self._after_cr = False
                if data[at] == 0x0A:
                    at += 1
                    continue
            end = _line_end(data, at)
            self._extend(data[at : len(data) if end < 0 else end])
            if end < 0:
                return
            self._after_cr = data[end] == 0x0D
            at = end + 1
            if (event := self._end_line()) is not None:
                yield event

    def _without_bom(self, data: bytes) -> bytes:
        """Nothing until it is clear whether the stream begins with a byte order mark."""
        whole = bytes(self._line) + data
        self._line.clear()
        if len(whole) < len(_BOM) and _BOM.startswith(whole):
            self._line += whole
            return b""
        self._begun = True
        return whole.removeprefix(_BOM)

    def _extend(self, part: bytes) -> None:
        if not self._cut and len(self._line) + len(part) > self._most + LONGEST_NAME:
            # The beginning says which field it is, and something of what it held.
            self._cut = True
            del self._line[KEPT_BYTES:]
            part = part[: KEPT_BYTES - len(self._line)]
        elif self._cut:
            return
        self._line += part

    def _end_line(self) -> Event | None:
        line, cut = bytes(self._line), self._cut
        self._line.clear()
        self._cut = False
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        if name in (b"data", b"event", b"id"):
            self._now.too_large |= cut
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._gather(value)
            case b"event":
                # A database cannot hold a NUL in a text.
                self._now.kind = value.decode("utf-8", "replace").replace("\0", "\ufffd")
            case b"id" if b"\0" not in value:
                self._now.id = value.decode("utf-8", "replace")
            case b"traceparent" | b"tracestate":
                # Fields of our own: a reader that does not know them passes them over.
                self._now.trace[name.decode()] = value.decode("utf-8", "replace")
            case b"retry" if value.isdigit():
                self.retry_seconds = int(value[:12]) / 1000
            case _:
                pass  # a comment, or a field nobody knows
        return None

    def _gather(self, value: bytes) -> None:
        now = self._now
        now.size += len(value) + 1
        if now.size - 1 > self._most:
            now.too_large = True
        if not now.too_large or now.size <= KEPT_BYTES or not now.lines:
            now.lines.append(value)

    def _dispatch(self) -> Event | None:
        now, self._now = self._now, _Gathering()
        if now.too_large:
            kept = b"\n".join(now.lines)[:KEPT_BYTES]
            return Event(kept, now.kind or "message", now.id, too_large=True)
        if not now.lines:
            # An id alone moves the place to go on from; there is nothing to tell.
            return Event(b"", "", now.id) if now.id is not None else None
        data = b"\n".join(now.lines)
        return Event(data, now.kind or "message", now.id, trace=told(now.trace) or of_json(data))


def _line_end(data: bytes, at: int) -> int:
    cr, lf = data.find(b"\r", at), data.find(b"\n", at)
    return max(cr, lf) if cr < 0 or lf < 0 else min(cr, lf)
