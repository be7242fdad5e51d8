"""Between the caller and the background loop: coroutines go over, answers come back.

Waking a loop costs more than most of what it is woken for. Callers that come while it is awake are
taken along, and answers for one event loop come back together.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from typing import Any

from headgate.net import loop as net

Tell = Callable[[Any, BaseException | None], None]


class Trip:
    """A coroutine on the other side. `tell` hears there how it ended."""

    __slots__ = ("cancelled", "make", "task", "tell")

    def __init__(self, make: Callable[[], Coroutine[Any, Any, Any]], tell: Tell) -> None:
        self.make = make
        self.tell = tell
        self.task: asyncio.Task[Any] | None = None
        self.cancelled = False

    def ended(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            self.tell(None, asyncio.CancelledError())
        else:
            error = task.exception()
            self.tell(None if error is not None else task.result(), error)


class Ferry:
    """The way to one background loop."""

    def __init__(self, over: asyncio.AbstractEventLoop) -> None:
        self._over = over
        self._aboard: deque[Trip] = deque()
        self._called = False
        self._back: dict[asyncio.AbstractEventLoop, list[tuple[Any, ...]]] = {}

    def carry(self, trip: Trip) -> None:
        """Start a coroutine over there. From any thread."""
        self._aboard.append(trip)
        if not self._called:
            self._called = True
            self._over.call_soon_threadsafe(self._unload)

    def cancel(self, trip: Trip) -> None:
        """Nobody wants its answer any more. From any thread."""
        trip.cancelled = True
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends
            self._over.call_soon_threadsafe(lambda: trip.task and trip.task.cancel())

    def _unload(self) -> None:
        self._called = False
        while self._aboard:
            trip = self._aboard.popleft()
            trip.task = self._over.create_task(trip.make())
            trip.task.add_done_callback(trip.ended)

    def send_back(
        self, to: asyncio.AbstractEventLoop, future: asyncio.Future[Any], value: Any, error: Any
    ) -> None:
        """An answer for another event loop; those of one moment travel together."""
        if (waiting := self._back.get(to)) is None:
            waiting = self._back[to] = []
            self._over.call_soon(self._land, to)
        waiting.append((future, value, error))

    def _land(self, to: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits
            to.call_soon_threadsafe(_deliver, self._back.pop(to))


def _deliver(answers: list[tuple[Any, ...]]) -> None:
    for future, value, error in answers:
        if future.done():
            continue
        if error is None:
            future.set_result(value)
        elif isinstance(error, asyncio.CancelledError):
            future.cancel()
        else:
            future.set_exception(error)


_ferries: dict[int, tuple[net.Background, Ferry]] = {}


def ferry() -> Ferry:
    """The one to this process' background loop."""
    ours = net.background()
    known = _ferries.get(0)
    if known is None or known[0] is not ours:
        known = _ferries[0] = ours, Ferry(ours.loop)
    return known[1]


def wait(make: Callable[[], Coroutine[Any, Any, Any]], *, whole: bool = False) -> Any:
    """What it comes to, for a caller that blocks.

    Interrupted, it is cancelled, unless it has to be `whole`: then its end is waited for, and the
    interrupt comes after it. A second one ends the wait.
    """
    over = ferry()
    answer: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
    trip = Trip(make, lambda value, error: answer.put((value, error)))
    over.carry(trip)
    try:
        value, error = answer.get()
    except BaseException as interrupt:
        if not whole:
            over.cancel(trip)
            raise
        value, error = answer.get()
        raise Interrupted(value, error) from interrupt
    if error is not None:
        raise error
    return value


async def wait_async(make: Callable[[], Coroutine[Any, Any, Any]], *, whole: bool = False) -> Any:
    """The same for a caller on an event loop of its own."""
    over = ferry()
    here = asyncio.get_running_loop()
    ended: asyncio.Future[Any] = here.create_future()
    trip = Trip(make, lambda value, error: over.send_back(here, ended, value, error))
    over.carry(trip)
    if not whole:
        try:
            return await ended
        except asyncio.CancelledError:
            over.cancel(trip)
            raise
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError as interrupt:
        (answer,) = await asyncio.gather(ended, return_exceptions=True)
        failed = isinstance(answer, BaseException)
        raise Interrupted(None if failed else answer, answer if failed else None) from interrupt


class Interrupted(BaseException):
    """The caller was interrupted, and something had to come to its end first: how that ended."""

    def __init__(self, value: Any, error: BaseException | None) -> None:
        super().__init__("interrupted")
        self.value = value
        self.error = error
