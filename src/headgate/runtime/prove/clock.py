"""The clock as the user's code reads it: it stands where the world says, and everybody else's runs.

Readings of the `time` module are answered by who asks. `datetime` cannot be replaced: a class in
its place would no longer be the one that pydantic, orjson, pickle and asyncpg know. So it is the
reading that changes: in the user's modules, and in libraries that are imported after them and say
`datetime.now`, the expression `x.now` is compiled as a question to `_reading`, which leaves
everything but a date's or a datetime's own method alone.

Within one call of a handler the clock moves a millisecond per reading, and as long as the handler
sleeps, so that a sample reads the same times whatever came before it and however busy the machine
is. Only one that takes very long sees the time that really passed.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import inspect
import re
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from importlib.machinery import SourceFileLoader
from types import FrameType
from typing import Any, cast

from .scene import Log, Whose, doer, now_playing, owner

TICK_SECONDS = 0.001
# A loop that waits for the clock must end, even if it waits by other means than sleep.
PATIENCE_SECONDS = 10.0

_READINGS = ("now", "utcnow", "today")
_monotonic, _localtime = time.monotonic, time.localtime
_HOOK = "__headgate_reading__"
_SAYS_NOW = re.compile(rb"\b(datetime|date|dt|Timestamp)\.(now|utcnow|today)\b")


def watch(log: Log, stands_at: float | None) -> None:
    """Tell of every reading from now on, and answer with the world's clock if it has one."""
    clock = _Clock(log, stands_at)
    _replace_time(clock)
    _replace_sleep(clock)
    setattr(builtins, _HOOK, clock.reading)
    _compile_readings()


class _Clock:
    def __init__(self, log: Log, stands_at: float | None) -> None:
        self._log = log
        self._stands_at = stands_at

    def read(self, name: str, *, directly: bool = False) -> float | None:
        """The seconds that the asker is to see; None when it is not the user, or none are set."""
        if (_calls() if directly else doer()) is None:
            return None
        self._log.note("clock", name=name)
        if self._stands_at is None:
            return None
        scene = now_playing()
        scene.ticks += 1
        passed = _monotonic() - scene.began
        slow = passed if passed > PATIENCE_SECONDS else 0.0
        return self._stands_at + scene.ticks * TICK_SECONDS + scene.slept + slow

    def sleep(self, seconds: float) -> None:
        """The user's code sleeps for so long."""
        if doer() is not None:
            now_playing().slept += seconds

    def reading(self, of: Any, name: str) -> Any:
        """What `of.name` means in the user's code."""
        method = getattr(of, name)
        if not (isinstance(of, type) and issubclass(of, date)):
            return method

        def read(*args: Any, **kwargs: Any) -> Any:
            seconds = self.read(f"{of.__name__}.{name}")
            if seconds is None:
                return method(*args, **kwargs)
            if name == "utcnow":
                return cast("type[datetime]", of).fromtimestamp(seconds, UTC).replace(tzinfo=None)
            return cast("Any", of).fromtimestamp(seconds, *args, **kwargs)

        return read


def _calls() -> FrameType | None:
    """The user's frame, if it calls by itself and no library in its name."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return frame if frame is not None and owner(frame.f_code.co_filename) == "user" else None


def _replace_time(clock: _Clock) -> None:
    def seconds(name: str, real: Callable[[], Any], unit: float, directly: bool) -> Any:
        def read() -> Any:
            at = clock.read(f"time.{name}", directly=directly)
            if at is None:
                return real()
            return at if unit == 1 else round(at * unit)

        return read

    def broken_down(name: str, real: Callable[..., Any], before: int) -> Any:
        """A function whose last argument is the present unless it is given."""

        def read(*args: Any) -> Any:
            if len(args) > before and args[before] is not None:
                return real(*args)
            at = clock.read(f"time.{name}")
            if at is None:
                return real(*args)
            given = at if name in ("localtime", "gmtime", "ctime") else _localtime(at)
            return real(*args[:before], given)

        return read

    # Libraries wait by the last four, in seconds that must pass: there only the user's own readings
    # stand still.
    for name in ("time", "monotonic", "perf_counter"):
        for known, unit in ((name, 1), (f"{name}_ns", 1e9)):
            real = getattr(time, known)
            setattr(time, known, seconds(known, real, unit, name != "time"))
    for name in ("localtime", "gmtime", "ctime", "asctime", "strftime"):
        before = 1 if name == "strftime" else 0
        setattr(time, name, broken_down(name, getattr(time, name), before))


def _replace_sleep(clock: _Clock) -> None:
    sleep, sleep_async = time.sleep, asyncio.sleep

    def slept(seconds: float, /) -> None:
        clock.sleep(seconds)
        sleep(seconds)

    async def slept_async(delay: float, result: Any = None) -> Any:
        clock.sleep(delay)
        return await sleep_async(delay, result)

    time.sleep, asyncio.sleep = slept, slept_async


class _Readings(ast.NodeTransformer):
    def visit_MatchValue(self, node: ast.MatchValue) -> ast.AST:
        return node  # a pattern cannot call

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr not in _READINGS or not isinstance(node.ctx, ast.Load):
            return node
        hook = ast.Name(_HOOK, ast.Load())
        call = ast.Call(hook, [node.value, ast.Constant(node.attr)], [])
        for made in (hook, call, call.args[1]):
            ast.copy_location(made, node)
        return call


def _compile_readings() -> None:
    """Compile what asks `datetime` for the time so that it asks us."""
    get_code = SourceFileLoader.get_code

    def watched(self: SourceFileLoader, fullname: str) -> Any:
        path = self.get_filename(fullname)
        if not path.endswith(".py") or not _may_read(owner(path), source := self.get_data(path)):
            return get_code(self, fullname)
        tree = _Readings().visit(ast.parse(source, path))
        return compile(tree, path, "exec", dont_inherit=True)

    SourceFileLoader.get_code = watched


def _may_read(whose: Whose | None, source: bytes) -> bool:
    if whose == "user":
        return any(f".{name}".encode() in source for name in _READINGS)
    return whose is None and _SAYS_NOW.search(source) is not None
