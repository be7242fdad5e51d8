"""Batches: who comes while one is loaded rides in the next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

AT_ONCE = 4
A = TypeVar("A")
B = TypeVar("B")
Heard = Callable[[Any, BaseException | None], None]


class Rider(Generic[A]):
    """Somebody in a batch. `heard` is called when it is back, unless it has left by then."""

    __slots__ = ("heard", "left", "what")

    def __init__(self, what: A, heard: Heard) -> None:
        self.what = what
        self.heard = heard
        self.left = False

    def leave(self) -> None:
        """Nobody wants to hear any more."""
        self.left = True


class Train(Generic[A, B]):
    """Takes its riders along together. `go` may say that it departs: the next one is then loaded.

    What a rider would have heard that has left meanwhile, `unheard` is told.
    """

    def __init__(
        self,
        most: int,
        go: Callable[[Sequence[A], Callable[[], None]], Awaitable[Sequence[B | BaseException]]],
        unheard: Callable[[A, B | BaseException], None],
    ) -> None:
        self._most = most
        self._go = go
        self._unheard = unheard
        self._waiting: deque[Rider[A]] = deque()
        self._loading = False
        self._running: set[asyncio.Task[None]] = set()

    def ride(self, what: A, heard: Heard) -> Rider[A]:
        """Go along in the next batch. `heard` is told what came of it."""
        rider = Rider(what, heard)
        self._waiting.append(rider)
        if not self._loading:
            self._load()
        return rider

    async def board(self, what: A) -> B:
        """The same for a task, which waits for it."""
        ended: asyncio.Future[B] = asyncio.get_running_loop().create_future()

        def heard(value: B, error: BaseException | None) -> None:
            if ended.cancelled():
                self._unheard(what, value if error is None else error)
            elif error is not None:
                ended.set_exception(error)
            else:
                ended.set_result(value)

        self.ride(what, heard)
        try:
            return await ended
        except asyncio.CancelledError:
            # The answer and the cancellation may have come at the same moment.
            if ended.done() and not ended.cancelled() and ended.exception() is None:
                self._unheard(what, ended.result())
            raise

    def _load(self) -> None:
        if self._waiting and not self._loading and len(self._running) < AT_ONCE:
            self._loading = True
            # It begins at the next turn of the loop: who comes in this one is still taken along.
            self._running.add(asyncio.ensure_future(self._run()))

    async def _run(self) -> None:
        batch = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
        departed = False

        def depart() -> None:
            nonlocal departed
            if not departed:
                departed, self._loading = True, False
                self._load()

        answers: Sequence[B | BaseException] = ()
        try:
            answers = await self._go([rider.what for rider in batch], depart)
        except Exception as error:
            answers = [error] * len(batch)
        except BaseException as error:
            answers = [error] * len(batch)
            raise
        finally:
            task = asyncio.current_task()
            assert task is not None
            self._running.discard(task)
            depart()
            self._load()
            self._alight(batch, answers)

    def _alight(self, batch: Sequence[Rider[A]], answers: Sequence[B | BaseException]) -> None:
        for rider, answer in zip(batch, answers, strict=True):
            if rider.left:
                self._unheard(rider.what, answer)
            elif isinstance(answer, BaseException):
                rider.heard(None, answer)
            else:
                rider.heard(answer, None)
