"""Logs: human on a terminal, JSON elsewhere, one event per line, without secrets.

`get_logger()` writes to the standard library's logger `headgate` and configures nothing, so in
somebody else's program our lines obey that program's logging. `configure` is for the processes that
are ours alone: the CLI, the supervisor and its workers. It takes over the root logger, so that what
a handler or a library logs comes out in the same form.

Events are masked when they are logged, not when they are printed: no handler sees a secret.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TextIO, cast

from headgate.model import doing, trace
from headgate.model.mask import Masker, printable

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger

Format = Literal["auto", "human", "json"]
_Event = MutableMapping[str, Any]
_MASKER = Masker()


class Line:
    """An event on its way through the standard library's logging."""

    __slots__ = ("fields",)

    def __init__(self, fields: Mapping[str, object]) -> None:
        self.fields = fields

    def __str__(self) -> str:
        """What another program's formatter shows."""
        event, *rest = self.fields.items()
        return " ".join([str(event[1]), *(f"{name}={value}" for name, value in rest)])


def get_logger(name: str = "headgate", masker: Masker = _MASKER) -> BoundLogger:
    """A logger whose events carry the fields of `bound` and are masked by the pipeline's masker."""
    import structlog
    from structlog.contextvars import merge_contextvars
    from structlog.stdlib import BoundLogger, filter_by_level

    return cast(
        "BoundLogger",
        structlog.wrap_logger(
            logging.getLogger(name),
            processors=[filter_by_level, merge_contextvars, _told, _exception, _to_line(masker)],
            wrapper_class=BoundLogger,
        ),
    )


def bound(
    *,
    pipeline: str | None = None,
    run: str | None = None,
    entry: int | str | None = None,
    key: str | None = None,
) -> AbstractContextManager[None]:
    """In this block, and in tasks started from it, every event carries these fields."""
    from structlog.contextvars import bound_contextvars

    fields = {"pipeline": pipeline, "run": run, "entry": entry, "key": key}
    said = {name: value for name, value in fields.items() if value is not None}
    return cast("AbstractContextManager[None]", bound_contextvars(**said))


def configure(
    format: Format = "auto",
    level: str = "info",
    *,
    stream: TextIO | None = None,
    masker: Masker = _MASKER,
) -> None:
    """Make this process log our way. Calling it again replaces what the last call set up."""
    out = sys.stderr if stream is None else stream
    human = format == "human" or (format == "auto" and out.isatty())
    handler = _Handler(out)
    handler.setFormatter(_Formatter(_human(out) if human else _json, masker))
    root = logging.getLogger()
    for old in [one for one in root.handlers if isinstance(one, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    wanted = logging.getLevelNamesMapping()[level.upper()]
    logging.getLogger("headgate").setLevel(wanted)
    # `debug` asks for our details; those of every library would bury them.
    root.setLevel(max(wanted, logging.INFO))
    logging.captureWarnings(True)


class _Handler(logging.StreamHandler[TextIO]):
    """A type of its own, so that `configure` knows which handler it may replace."""


class _Formatter(logging.Formatter):
    def __init__(self, render: Callable[[dict[str, object]], str], masker: Masker) -> None:
        super().__init__()
        self._render = render
        self._masker = masker

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if isinstance(record.msg, Line):
            # Twice: ours come first, and win over a field of the same name.
            return self._render({**fields, **record.msg.fields, **fields})
        fields["event"] = self._masker.mask(record.getMessage())
        fields |= _about()
        if record.exc_info and record.exc_info[0]:
            fields["exception"] = self._masker.mask(self.formatException(record.exc_info))
        return self._render(fields)


def _about() -> dict[str, object]:
    """What a line is about: the attempt that is being worked on here, and the span we are in."""
    about = dict(doing.said())
    if (span := trace.current()) is not None:
        about.setdefault("trace_id", span.trace_id)
        about["span_id"] = span.span_id
    return about


def _told(_logger: object, _method: str, event: _Event) -> _Event:
    for name, value in _about().items():
        event.setdefault(name, value)
    return event


def _exception(_logger: object, _method: str, event: _Event) -> _Event:
    """Turns `exc_info` into text while it still can be masked; locals are never part of it."""
    from structlog.processors import format_exc_info

    return format_exc_info(None, _method, event)


def _to_line(masker: Masker) -> Callable[[object, str, _Event], tuple[tuple[Line], dict[str, Any]]]:
    def to_line(_logger: object, _method: str, event: _Event) -> tuple[tuple[Line], dict[str, Any]]:
        said = event.pop("event", "")
        return (Line(cast("dict[str, object]", masker.mask({"event": said, **event}))),), {}

    return to_line


def _json(fields: dict[str, object]) -> str:
    # ASCII only: a lone surrogate cannot be encoded, and a line separator would end the line.
    return json.dumps(fields)


def _human(stream: TextIO) -> Callable[[dict[str, object]], str]:
    from rich.console import Console
    from structlog.dev import ConsoleRenderer, plain_traceback

    # rich knows the conventions: NO_COLOR, FORCE_COLOR, a dumb terminal.
    terminal = Console(file=stream)
    colours = terminal.color_system is not None and not terminal.no_color
    renderer = ConsoleRenderer(colors=colours, exception_formatter=plain_traceback)

    def render(fields: dict[str, object]) -> str:
        shown = {
            name: printable(value) if isinstance(value, str) else value
            for name, value in fields.items()
            if name != "logger"
        }
        # The date is known to whoever sits at the terminal.
        shown["timestamp"] = str(fields["timestamp"])[11:23]
        return str(renderer(None, "", shown))

    return render
