"""One event loop in the background of a process, for callers that block.

Sources and stores are called from worker threads; the libraries below them are asynchronous.
`wait` hands a coroutine to a loop in a thread of its own and waits for what it comes to. What is
worth keeping between two calls (sessions, pools) is kept with the loop and closed when the process
ends. A forked child starts afresh: its parent's loop and sockets are not touched.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Protocol, TypeVar, cast

T = TypeVar("T")
END_SECONDS = 2.0


class Closable(Protocol):
    """Something that is closed with the loop."""

    def close(self) -> Awaitable[None]: ...


K = TypeVar("K", bound=Closable)


class Background:
    """The loop, its thread, and what is kept with it."""

    def __init__(self) -> None:
        self.loop = _new_loop()
        self.kept: dict[object, Closable] = {}
        self.thread = threading.Thread(target=self._run, name="headgate-net", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def end(self) -> None:
        """Close what is kept, stop the loop. A call that still waits is cancelled."""
        if not self.thread.is_alive():
            return
        ending = asyncio.run_coroutine_threadsafe(self._close(), self.loop)
        with contextlib.suppress(FutureTimeout, Exception):
            ending.result(END_SECONDS)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(END_SECONDS)
        if not self.thread.is_alive():
            self.loop.close()

    async def _close(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for kept in self.kept.values():
            with contextlib.suppress(Exception):
                await kept.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it is there: what passes through here costs it less than half."""
    try:
        import uvloop  # imported by the first who needs it: not every process does
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


_lock = threading.Lock()
_now: Background | None = None
# What a child inherited. Letting go of it would close sockets and forget them in the epoll set
# that the parent still waits on.
_inherited: list[object] = []


def background() -> Background:
    """The loop of this process; the first call starts it."""
    global _now  # noqa: PLW0603 (one per process is the point)
    if _now is not None:
        return _now
    with _lock:
        if _now is None:
            _now = Background()
            atexit.register(_now.end)
        return _now


def wait(coroutine: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
    """What the coroutine returns or raises. Blocks the calling thread, never the loop."""
    ours = background()
    if threading.current_thread() is ours.thread:
        coroutine.close()
        raise RuntimeError("wait() was called on the background loop itself, which cannot wait")
    future = asyncio.run_coroutine_threadsafe(coroutine, ours.loop)
    try:
        return future.result(seconds)
    except BaseException:
        # Interrupted or out of time: nobody will ask for the result any more.
        future.cancel()
        raise


def keep(key: object, make: Callable[[], K]) -> K:
    """What is kept under `key`; made on the loop when it is not there yet."""
    ours = background()
    if (found := ours.kept.get(key)) is not None:
        return cast("K", found)

    async def made() -> Closable:
        # Looked for once more: whoever was first has made it meanwhile, on this very loop.
        if key not in ours.kept:
            ours.kept[key] = make()
        return ours.kept[key]

    return cast("K", wait(made()))


def _after_fork() -> None:
    global _now, _lock
    if _now is not None:
        _inherited.append(_now)
        atexit.unregister(_now.end)
    _now, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
