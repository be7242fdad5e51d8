"""Traces: which work followed from which, across processes and days.

    source ──▶ queue (the ledger) ──▶ consumer (handlers) ──▶ storage (the commit)

What ties them together is W3C's trace context: a sender's own, carried in the envelope and kept
with the entry, or one that begins where the change was noticed. A retry next week finds it in the
ledger and goes on with the same trace.

Rooms only begin and end spans; who listens (`export_to`) decides what becomes of them. Without a
listener nothing is made, and asking costs a truth test. Work that is done together is one span with
links to the traces it belongs to: on the fast path there are a few spans per batch, not per entry.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from .envelope import Envelope

Kind = Literal["internal", "server", "client", "producer", "consumer"]
Attribute = str | int | float | bool
LINKS = 128
PARENT, STATE = "traceparent", "tracestate"
STATE_LENGTH = 512
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?").fullmatch
_XRAY = re.compile(r"1-([0-9a-f]{8})-([0-9a-f]{24})").fullmatch


@dataclass(frozen=True, slots=True)
class Context:
    """A place in a trace. What is not sampled is carried on, and shown to nobody."""

    trace_id: str
    span_id: str
    sampled: bool = True
    state: str = ""

    @property
    def parent(self) -> str:
        """As the header `traceparent` says it."""
        return f"00-{self.trace_id}-{self.span_id}-0{int(self.sampled)}"


@dataclass(slots=True, eq=False)
class Span:
    """Something that took a while. Times are nanoseconds since 1970; `parent` is a span's id."""

    name: str
    kind: Kind
    context: Context
    parent: str
    began: int
    ended: int = 0
    attributes: dict[str, Attribute] = field(default_factory=dict[str, Attribute])
    links: Sequence[Context] = ()
    steps: Sequence[tuple[str, int]] = ()
    error: str = ""
    wanted: bool = True  # a look that found nothing is not worth showing


# Who wants spans, and which share of the traces that begin here.
_sink: Callable[[Span], None] | None = None
_share = 1.0
# The kernel's: a handler that seeds Python's would make all its traces the same one.
_chance = random.SystemRandom()
_current: ContextVar[Context | None] = ContextVar("headgate_trace", default=None)


def export_to(sink: Callable[[Span], None], share: float = 1.0) -> Callable[[], None]:
    """Hand every span to `sink` from now on. Returns the way to stop."""
    global _sink, _share
    _sink, _share = sink, share

    def stop() -> None:
        global _sink  # noqa: PLW0603
        _sink = None

    return stop


def tracing() -> bool:
    """Does anybody want spans?"""
    return _sink is not None


def current() -> Context | None:
    """The span we are in, if there is one and somebody wants it."""
    return None if _sink is None else _current.get()


def enter(context: Context | None) -> None:
    """Be in this span from here on, in this task or thread."""
    _current.set(context)


def begin(
    name: str,
    kind: Kind,
    parent: Context | None = None,
    attributes: Mapping[str, Attribute] | None = None,
    links: Iterable[Context] = (),
    began: int = 0,
) -> Span:
    """A span that begins now. Without a parent it is the first of its trace."""
    return Span(
        name,
        kind,
        child(parent),
        parent.span_id if parent is not None else "",
        began or time.time_ns(),
        attributes=dict(attributes or {}),
        links=tuple(links)[:LINKS],
    )


def child(parent: Context | None) -> Context:
    """The place of something new in its parent's trace, or at the beginning of one."""
    if parent is not None:
        return Context(parent.trace_id, _digits(64), parent.sampled, parent.state)
    return Context(_digits(128), _digits(64), _share >= 1.0 or _chance.random() < _share)


def end(span: Span, error: str = "") -> None:
    """It is over. Never raises, whatever the listener does."""
    sink = _sink
    if sink is None or not (span.wanted and span.context.sampled):
        return
    span.ended = span.ended or time.time_ns()
    span.error = error or span.error
    with suppress(Exception):  # what is shown about work never costs the work
        sink(span)


@contextmanager
def during(
    name: str,
    kind: Kind,
    attributes: Mapping[str, Attribute] | None = None,
    parent: Context | None = None,
    links: Iterable[Context] = (),
) -> Generator[Span | None]:
    """A span around this block, which is in it; None when nobody wants one."""
    if _sink is None:
        yield None
        return
    span = begin(name, kind, parent or _current.get(), attributes, links)
    before = _current.set(span.context)
    failure = ""
    try:
        yield span
    except BaseException as error:
        failure = type(error).__name__
        raise
    finally:
        _current.reset(before)
        end(span, failure)


def read(parent: str | None, state: str | None = None) -> Context | None:
    """What `traceparent` and `tracestate` say; None when it is no trace context."""
    if not parent or (found := _PARENT(parent)) is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not trace_id.strip("0"):
        return None
    if not span_id.strip("0"):
        return None
    return Context(trace_id, span_id, bool(int(flags, 16) & 1), _state(state))


def is_trace(text: str) -> bool:
    """Is it a W3C trace context, as in the header `traceparent`?"""
    return read(text) is not None


def told(attributes: Mapping[str, str]) -> Context | None:
    """The context that came with a message: W3C's, or X-Ray's in the words of AWS."""
    if found := read(attributes.get(PARENT), attributes.get(STATE)):
        return found
    return _xray(attributes.get("AWSTraceHeader", ""))


def brought(told: Iterable[object]) -> tuple[Context | None, list[Context]]:
    """Where these envelopes come from: the trace that all of them share, or those to link to."""
    found = {e.trace: e for e in told if isinstance(e, Envelope)}
    contexts = [context for e in found.values() if (context := of_envelope(e)) is not None]
    if len(found) == 1 and contexts:
        return contexts[0], []
    return None, contexts


def carried(envelope: Envelope, context: Context | None) -> Envelope:
    """The envelope with the context of what brought it, unless it has one of its own."""
    if context is None or envelope.trace is not None:
        return envelope
    metadata = envelope.metadata
    if context.state:
        metadata = {**metadata, STATE: context.state}
    return msgspec.structs.replace(envelope, trace=context.parent, metadata=metadata)


def of_document(document: bytes) -> Context | None:
    """The context in the ledger's document of an envelope."""
    kept = _kept(document)
    if kept.trace is None:
        return None
    state = kept.metadata.get(STATE)
    return read(kept.trace, state if isinstance(state, str) else None)


def text_of(document: bytes) -> str | None:
    """The same as it is written there, which is enough to tell one trace from another."""
    return _written(document).trace


def of_envelope(envelope: Envelope) -> Context | None:
    """The context of an envelope."""
    state = envelope.metadata.get(STATE)
    return read(envelope.trace, state if isinstance(state, str) else None)


def of_json(data: bytes) -> Context | None:
    """The context in a CloudEvent's JSON, if that is what it is."""
    if b'"traceparent"' not in data:
        return None
    try:
        event = _event(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return read(event.traceparent, event.tracestate)


class _Event(msgspec.Struct):
    specversion: str
    traceparent: str
    tracestate: str | None = None


class _Written(msgspec.Struct):
    trace: str | None = None


class _Kept(_Written):
    metadata: dict[str, str | int | bool | None] = {}


_written = msgspec.json.Decoder(_Written).decode
_kept = msgspec.json.Decoder(_Kept).decode
_event = msgspec.json.Decoder(_Event).decode


def _xray(header: str) -> Context | None:
    if not header:
        return None
    parted = (part.strip().partition("=") for part in header.split(";"))
    said = {name: value for name, _, value in parted}
    root = _XRAY(said.get("Root", ""))
    if root is None:
        return None
    parent = f"00-{root[1]}{root[2]}-{said.get('Parent', '')}-0{int(said.get('Sampled') == '1')}"
    return read(parent)


def _state(text: str | None) -> str:
    fits = text and len(text) <= STATE_LENGTH and text.isascii() and text.isprintable()
    return text or "" if fits else ""


def _digits(bits: int) -> str:
    return f"{_chance.getrandbits(bits) or 1:0{bits // 4}x}"
