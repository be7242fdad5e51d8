"""Spans on their way out of a child process: gathered, and handed to the supervisor in lines.

The supervisor alone speaks to the collector. A child pays for a tuple per span and for writing it
to the pipe that it has anyway; the library, the connection and the waiting are somewhere else. What
does not fit until the next line is dropped and counted: what is shown about work never holds it up.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import orjson

from headgate.model.signal import DROPPED, emit
from headgate.model.trace import Context, Span

PER_LINE = 512
AT_MOST = 8 * PER_LINE


class Gathered:
    """The spans of a child: `trace.export_to(gathered.hear)`."""

    def __init__(self, at_most: int = AT_MOST) -> None:
        self._lock = threading.Lock()
        self._spans: deque[Span] = deque()
        self._at_most = at_most
        self._dropped = 0

    def hear(self, span: Span) -> None:
        """Take in one span that ended, from any thread."""
        with self._lock:
            if len(self._spans) < self._at_most:
                self._spans.append(span)
            else:
                self._dropped += 1

    def drain(self) -> list[bytes]:
        """What came together since the last time, as lines without their ends."""
        with self._lock:
            taken, self._spans = list(self._spans), deque()
            dropped, self._dropped = self._dropped, 0
        if dropped:
            emit(DROPPED, dropped, kind="spans")
        return [
            orjson.dumps([_told(span) for span in taken[at : at + PER_LINE]])
            for at in range(0, len(taken), PER_LINE)
        ]


def parse(line: bytes) -> list[Span]:
    """The spans of a line; none if it is not whole: a child can be killed while it writes."""
    try:
        return [_heard(*one) for one in orjson.loads(line)]
    except (ValueError, TypeError):
        return []


def _told(span: Span) -> tuple[Any, ...]:
    return (
        span.name,
        span.kind,
        _place(span.context),
        span.parent,
        span.began,
        span.ended,
        span.attributes,
        [_place(link) for link in span.links],
        span.steps,
        span.error,
    )


def _place(context: Context) -> tuple[Any, ...]:
    return context.trace_id, context.span_id, context.sampled, context.state


def _heard(*told: Any) -> Span:
    name, kind, place, parent, began, ended, attributes, links, steps, error = told
    linked = [Context(*link) for link in links]
    at = [(step, when) for step, when in steps]
    return Span(name, kind, Context(*place), parent, began, ended, attributes, linked, at, error)
