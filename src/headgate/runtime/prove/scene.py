"""Who is at work, on which line, and the log that outlives a kill.

A scene is one call of one handler. It travels in a context variable, so that a record made deep in
a library still knows the sample and the attempt. Whose doing something is, the stack says: the
innermost frame that is either the user's or Headgate's own decides; the standard library and
installed packages only pass it on.
"""

from __future__ import annotations

import inspect
import itertools
import json
import linecache
import os
import random
import sysconfig
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NamedTuple

Whose = Literal["user", "headgate"]

_HEADGATE = str(Path(__file__).parents[2]) + os.sep
_LIBRARIES = tuple(
    os.path.realpath(sysconfig.get_path(name)) + os.sep
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_CODE_CHARACTERS = 200


@dataclass(eq=False)
class Scene:
    """One call of one handler: `attempt` is the fence, which every claim of an entry raises.

    `kept` is for what lasts as long as the scene, such as the state of numpy's generator.
    """

    handler: str | None = None
    uri: str | None = None
    attempt: int | None = None
    began: float = field(default_factory=time.monotonic)
    chance: random.Random = field(default_factory=random.Random)
    number: int = field(default_factory=itertools.count(1).__next__)
    ticks: int = 0
    slept: float = 0.0
    noted: set[tuple[object, ...]] = field(default_factory=set[tuple[object, ...]])
    kept: dict[str, Any] = field(default_factory=dict[str, Any])


class Line(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int
    code: str


SCENE: ContextVar[Scene | None] = ContextVar("headgate_scene", default=None)
IN_CALL: ContextVar[str | None] = ContextVar("headgate_in_call", default=None)
# The user's line that started the thread we are in.
_STARTED: ContextVar[tuple[str, int] | None] = ContextVar("headgate_started", default=None)
IMPORTING = Scene()
_busy = threading.local()


def now_playing() -> Scene:
    """The handler at work here, or the scene of everything before and beside the handlers."""
    return SCENE.get() or IMPORTING


@contextmanager
def on_stage(scene: Scene) -> Generator[None]:
    """In this block, whatever is recorded belongs to `scene`."""
    token = SCENE.set(scene)
    try:
        yield
    finally:
        SCENE.reset(token)


@cache
def owner(filename: str) -> Whose | None:
    """Whose code a file is; None for libraries and what has no file."""
    if filename.startswith("<"):
        return None
    real = os.path.realpath(filename)
    if real.startswith(_HEADGATE):
        return "headgate"
    if real.startswith(_LIBRARIES) or any(part in real for part in _INSTALLED):
        return None
    return "user"


def _passes(frame: FrameType, through_headgate: bool) -> bool:
    """Does this frame leave the question whose doing it is to its caller?"""
    match owner(frame.f_code.co_filename):
        case "user":
            return False
        case "headgate":
            return through_headgate or frame.f_globals.get("__package__") == __package__
        case None:
            return True


def _decider() -> FrameType | None:
    """The innermost frame that says whose doing this is.

    Inside `run.call` Headgate's own frames are passed over: the user's function may be a library's.
    """
    frame, through = inspect.currentframe(), IN_CALL.get() is not None
    while frame is not None and _passes(frame, through):
        frame = frame.f_back
    return frame


def doer() -> FrameType | None:
    """The user's frame that is behind what happens now; None when it is not the user's doing."""
    frame = _decider()
    return None if frame is None or owner(frame.f_code.co_filename) != "user" else frame


def whose() -> Whose | None:
    """Whose doing is this? Where no frame says so, in a thread, the scene does."""
    frame = _decider()
    if frame is None:
        return None if SCENE.get() is None else "user"
    return owner(frame.f_code.co_filename)


def is_users() -> bool:
    """Is what happens now the user's doing?"""
    return whose() == "user"


def via() -> str | None:
    """The library that the user's line called for this; None if it was called directly."""
    frame, module = inspect.currentframe(), ""
    while frame is not None and owner(frame.f_code.co_filename) != "user":
        if frame.f_globals.get("__package__") != __package__:
            module = str(frame.f_globals.get("__name__"))
        frame = frame.f_back
    return module.partition(".")[0] or None


@contextmanager
def aside() -> Generator[None]:
    """In this block the witness works for itself and is not looked at."""
    before, _busy.now = is_aside(), True
    try:
        yield
    finally:
        _busy.now = before


def is_aside() -> bool:
    return getattr(_busy, "now", False)


class Log:
    """One JSON object per line and per write, so that a kill loses nothing that was said before."""

    def __init__(self, path: Path, file: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._file = os.path.realpath(file)
        self._folder = os.path.dirname(self._file) + os.sep

    def tell(self, what: str, **detail: Any) -> Line | None:
        """Record what the user's code does now; the line that does it."""
        with aside():
            said, through = self.where()
            scene = now_playing()
            record = {
                "what": what,
                "file": said and said.file,
                "line": said and said.line,
                "code": said and said.code,
                "handler": scene.handler,
                "uri": scene.uri,
                "attempt": scene.attempt,
                "in_call": IN_CALL.get(),
                "through": through,
                "detail": detail,
            }
            os.write(self._fd, json.dumps(record, default=str).encode() + b"\n")
        return said

    def note(self, what: str, **detail: Any) -> None:
        """The same, once for each line of a scene: the clock is read often."""
        frame = doer()
        if frame is None:
            return
        seen = (what, frame.f_code, frame.f_lineno, *detail.values())
        noted = now_playing().noted
        if seen not in noted:
            noted.add(seen)
            self.tell(what, **detail)

    def where(self) -> tuple[Line | None, list[str]]:
        """The line at work, in the pipeline's own file if it is on the way, and the way there."""
        frame, lines, own = doer(), list[Line](), None
        while frame is not None:
            if owner(frame.f_code.co_filename) == "user":
                line = self.line(frame.f_code.co_filename, frame.f_lineno)
                lines.append(line)
                if own is None and os.path.realpath(frame.f_code.co_filename) == self._file:
                    own = line
            frame = frame.f_back
        if own is None and (started := _STARTED.get()) is not None:
            own = self.line(*started)
            lines.append(own)
        return own or (lines[0] if lines else None), [f"{x.file}:{x.line}" for x in lines[::-1]]

    def line(self, filename: str, number: int) -> Line:
        """A line as a person looks for it: by a name that is short where it can be."""
        real = os.path.realpath(filename)
        code = linecache.getline(filename, number).strip()[:_CODE_CHARACTERS]
        return Line(real.removeprefix(self._folder), number, code)


def _carried() -> Context:
    """This context for another thread, which knows by which line it was started."""
    context, frame = copy_context(), doer()
    if frame is not None:
        context.run(_STARTED.set, (frame.f_code.co_filename, frame.f_lineno))
    return context


def carry_into_threads() -> None:
    """Let threads and pools that a handler starts belong to its scene."""
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    def started(self: threading.Thread) -> None:
        if SCENE.get() is not None:
            run, context = self.run, _carried()
            self.run = lambda: context.run(run)
        start(self)

    def submitted(self: ThreadPoolExecutor, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        if SCENE.get() is not None:
            return submit(self, _carried().run, fn, *args, **kwargs)
        return submit(self, fn, *args, **kwargs)

    threading.Thread.start = started
    ThreadPoolExecutor.submit = submitted
