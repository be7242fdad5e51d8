"""Between the caller and the background loop: questions go over, answers come back.

Waking a loop costs more than most of what it is woken for. Callers that come while it is awake are
taken along, and answers for one event loop come back together.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from functools import partial
from queue import SimpleQueue
from typing import Any

from headgate.net import loop as net
from headgate.operations.trip import Begin, Cancel, Make, in_task


class Trip:
    """Something that is begun on the other side, and tells there how it ended.

    Nothing is left of it then that holds it in a circle: the garbage collector has no work here.
    """

    __slots__ = ("begin", "cancel", "error", "value")

    def __init__(self, begin: Begin) -> None:
        self.begin = begin
        self.cancel: Cancel | None = None
        self.value: Any = None
        self.error: BaseException | None = None

    def tell(self, value: Any, error: BaseException | None) -> None:
        raise NotImplementedError


class _Blocking(Trip):
    """Of a thread that waits."""

    __slots__ = ("ended",)

    def __init__(self, begin: Begin) -> None:
        super().__init__(begin)
        self.ended: SimpleQueue[None] = SimpleQueue()

    def tell(self, value: Any, error: BaseException | None) -> None:
        self.value, self.error, self.cancel = value, error, None
        self.ended.put(None)


class _Awaited(Trip):
    """Of a task on another event loop."""

    __slots__ = ("arrived", "future", "here", "over")

    def __init__(self, begin: Begin, over: Ferry, here: asyncio.AbstractEventLoop) -> None:
        super().__init__(begin)
        self.over = over
        self.here = here
        self.future: asyncio.Future[None] = here.create_future()
        self.arrived = False

    def tell(self, value: Any, error: BaseException | None) -> None:
        self.value, self.error, self.cancel = value, error, None
        self.over.send_back(self)

    def arrive(self) -> None:
        """The answer is here, on the loop that it is for."""
        self.arrived = True
        if not self.future.done():
            self.future.set_result(None)


class Ferry:
    """The way to one background loop."""

    def __init__(self, over: asyncio.AbstractEventLoop) -> None:
        self._over = over
        self._aboard: deque[Trip] = deque()
        self._called = False
        self._back: dict[asyncio.AbstractEventLoop, list[_Awaited]] = {}

    def carry(self, trip: Trip) -> None:
        """Begin it over there. From any thread."""
        self._aboard.append(trip)
        if not self._called:
            self._called = True
            self._over.call_soon_threadsafe(self._unload)

    def cancel(self, trip: Trip) -> None:
        """Nobody wants its answer any more. From any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends
            self._over.call_soon_threadsafe(lambda: trip.cancel and trip.cancel())

    def _unload(self) -> None:
        self._called = False
        while self._aboard:
            trip = self._aboard.popleft()
            try:
                trip.cancel = trip.begin(trip.tell)
            except Exception as error:
                trip.tell(None, error)

    def send_back(self, trip: _Awaited) -> None:
        """An answer for another event loop; those of one moment travel together."""
        if (waiting := self._back.get(trip.here)) is None:
            waiting = self._back[trip.here] = []
            self._over.call_soon(self._land, trip.here)
        waiting.append(trip)

    def _land(self, to: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits
            to.call_soon_threadsafe(_deliver, self._back.pop(to))


def _deliver(trips: list[_Awaited]) -> None:
    for trip in trips:
        trip.arrive()


_ferries: dict[int, tuple[net.Background, Ferry]] = {}


def ferry() -> Ferry:
    """The one to this process' background loop."""
    ours = net.background()
    known = _ferries.get(0)
    if known is None or known[0] is not ours:
        known = _ferries[0] = ours, Ferry(ours.loop)
    return known[1]


def wait(begin: Begin, *, whole: bool = False) -> Any:
    """What it comes to, for a caller that blocks.

    Interrupted, it is cancelled, unless it has to be `whole`: then its end is waited for, and the
    interrupt comes after it. A second one ends the wait.
    """
    over = ferry()
    trip = _Blocking(begin)
    over.carry(trip)
    try:
        trip.ended.get()
    except BaseException as interrupt:
        if not whole:
            over.cancel(trip)
            raise
        trip.ended.get()
        raise Interrupted(trip.value, trip.error) from interrupt
    if trip.error is not None:
        raise trip.error
    return trip.value


async def wait_async(begin: Begin, *, whole: bool = False) -> Any:
    """The same for a caller on an event loop of its own."""
    over = ferry()
    trip = _Awaited(begin, over, asyncio.get_running_loop())
    over.carry(trip)
    try:
        await trip.future
    except asyncio.CancelledError as interrupt:
        if not whole:
            over.cancel(trip)
            raise
        if not trip.arrived:
            trip.future = trip.here.create_future()
            await trip.future
        raise Interrupted(trip.value, trip.error) from interrupt
    if trip.error is not None:
        raise trip.error
    return trip.value


def waited(make: Make) -> Any:
    """What a coroutine of the other side comes to, for a caller that blocks."""
    return wait(partial(in_task, make))


async def awaited(make: Make) -> Any:
    """The same for a caller on an event loop of its own."""
    return await wait_async(partial(in_task, make))


class Interrupted(BaseException):
    """The caller was interrupted, and something had to come to its end first: how that ended."""

    def __init__(self, value: Any, error: BaseException | None) -> None:
        super().__init__("interrupted")
        self.value = value
        self.error = error
