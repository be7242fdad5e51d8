"""Calling a function of the user's that lists changes: in a thread of its own, one call at a time.

A thread cannot be ended from outside. A call that takes too long is no longer waited for, what it
still says is thrown away, and the function is not called again before it has come back.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import traceback
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

from headgate.errors import HeadgateError, Unavailable
from headgate.model.change import Change

MOST_CHANGES = 1_000_000
# An async call ends itself at its deadline; its thread needs a moment more.
_ENDING_SECONDS = 1.0


class Lister:
    """Calls `function` and collects the changes it yields or returns."""

    def __init__(self, function: Callable[[], Any], name: str, deadline_seconds: float) -> None:
        self._function = function
        self._name = name
        self._deadline_seconds = deadline_seconds
        self._running: _Call | None = None
        code = getattr(inspect.unwrap(function), "__code__", None)
        self.file: str = getattr(code, "co_filename", "")
        self.line: int = getattr(code, "co_firstlineno", 0)

    def __call__(self) -> list[Change]:
        """What the function says now. Raises `Unavailable`, whatever it was that went wrong."""
        if self._running is not None and self._running.thread.is_alive():
            raise self.trouble(
                f"has run longer than its deadline of {self._deadline_seconds:g} s"
                " and has not come back; it is not called again before it has"
            )
        self._running = call = _Call(self)
        call.thread.start()
        call.thread.join(self._deadline_seconds + _ENDING_SECONDS)
        call.given_up = True
        if call.thread.is_alive():
            raise self.trouble(f"ran longer than its deadline of {self._deadline_seconds:g} s")
        self._running = None
        if call.error is not None:
            raise self._named(call.error) from call.error
        return call.said

    def trouble(self, what: str, line: int | None = None) -> Unavailable:
        """The scan as a whole failed: nothing is new by it, and nothing is gone."""
        where = f"{os.path.basename(self.file)}:{line or self.line}"
        return Unavailable(
            f"source {self._name} ({where}) {what}; nothing is taken for deleted",
            reason="source_function",
            upstream=self._name,
        )

    def _named(self, error: BaseException) -> Unavailable:
        if isinstance(error, Unavailable):
            return error
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == self.file]
        if isinstance(error, TimeoutError) and not frames:
            return self.trouble(f"ran longer than its deadline of {self._deadline_seconds:g} s")
        hint = f" ({error.hint})" if isinstance(error, HeadgateError) and error.hint else ""
        said = f"{type(error).__name__}: {error}{hint}"
        return self.trouble(f"failed: {said}", frames[-1].lineno if frames else None)

    async def listed(self, given: Awaitable[Any] | AsyncIterable[Any], call: _Call) -> None:
        """Wait for an async function, or go through what it yields."""
        async with asyncio.timeout(self._deadline_seconds):
            if isinstance(given, AsyncIterable):
                async for one in given:
                    call.take(one, _line_of(given))
            else:
                self.gather(await given, call)

    def gather(self, given: object, call: _Call) -> None:
        """Go through what a plain function yields or returned."""
        if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping):
            said = "nothing" if given is None else f"a {type(cast('object', given)).__name__}"
            raise self.trouble(f"returned {said}: yield hg.Change(…), or return a list of them")
        said_by = cast("Iterable[object]", given)
        for one in said_by:
            call.take(one, _line_of(said_by))

    def run(self, call: _Call) -> None:
        """In the thread: call the function, whatever kind of function it is."""
        given = self._function()
        if inspect.isawaitable(given) or isinstance(given, AsyncIterable):
            asyncio.run(self.listed(cast("Awaitable[Any] | AsyncIterable[Any]", given), call))
        else:
            self.gather(given, call)


class _Call:
    """One call and what came of it."""

    def __init__(self, lister: Lister) -> None:
        self.said: list[Change] = []
        self.error: BaseException | None = None
        self.given_up = False
        self._lister = lister
        # A daemon: a function that never comes back must not keep the process from ending.
        self.thread = threading.Thread(target=self._run, name="source", daemon=True)

    def take(self, one: object, line: int | None) -> None:
        if self.given_up:
            raise SystemExit  # nobody waits: end an endless generator
        if not isinstance(one, Change):
            raise self._lister.trouble(
                f"gave a {type(one).__name__}: yield hg.Change(uri, version=…)", line
            )
        if len(self.said) == MOST_CHANGES:
            raise self._lister.trouble(f"gave more than {MOST_CHANGES:,} changes at once", line)
        self.said.append(one)

    def _run(self) -> None:
        try:
            self._lister.run(self)
        except BaseException as error:  # also sys.exit(): it ends this look and no more
            self.error = error


def _line_of(given: object) -> int | None:
    frame = getattr(given, "gi_frame", None) or getattr(given, "ag_frame", None)
    return None if frame is None else frame.f_lineno
