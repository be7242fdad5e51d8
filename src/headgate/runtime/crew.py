"""The crew: threads that run handlers, entry after entry, and hand back what is ready.

Waking the event loop costs more than a small handler does, so results are put down where they are
and the loop is woken once for whatever lies there.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from headgate.ledger.attempt import Attempt
from headgate.model import doing

from .marker import Marker

Prepare = Callable[[Attempt], None]


class Crew:
    """Runs attempts in threads.

    Each that is handled is `put` down by its thread; after some of them, `told` is called on the
    loop.
    """

    def __init__(
        self,
        size: int,
        marker: Marker,
        first_slot: int,
        prepare: Prepare,
        put: Callable[[Attempt], None],
        told: Callable[[], None],
    ) -> None:
        self._put = put
        self._noticed = told
        self.seconds_per_entry = 0.0
        self.metered = False  # what each handler takes of the processor is asked for
        self._loop = asyncio.get_running_loop()
        self._prepare = prepare
        self._marker = marker
        self._todo: SimpleQueue[Attempt | None] = SimpleQueue()
        self._told = False
        self._threads = [
            threading.Thread(
                target=self._run, args=(first_slot + n,), daemon=True, name=f"crew-{n}"
            )
            for n in range(size)
        ]
        for thread in self._threads:
            thread.start()

    def learn(self, seconds: float, weight: float = 0.05) -> None:
        """How long an entry takes, as a moving average that starts with the first one."""
        before = self.seconds_per_entry
        self.seconds_per_entry = seconds if not before else before + weight * (seconds - before)

    def submit(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            self._todo.put(attempt)

    def unstarted(self) -> list[Attempt]:
        """Take back what no thread has begun."""
        back: list[Attempt] = []
        while not self._todo.empty():
            try:
                attempt = self._todo.get_nowait()
            except Exception:  # another thread was quicker
                break
            if attempt is not None:
                back.append(attempt)
        return back

    def close(self) -> None:
        """Let the threads end after what they are doing."""
        for _ in self._threads:
            self._todo.put(None)

    def _run(self, slot: int) -> None:
        here = doing.enter(doing.Doing())
        while (attempt := self._todo.get()) is not None:
            began, busy = time.perf_counter(), time.thread_time() if self.metered else 0.0
            self._marker.begin(slot, attempt.claim.id)
            here.run = attempt.run
            try:
                self._prepare(attempt)
            except BaseException as error:  # a thread that dies would take its entry with it
                attempt.give_up(error)
            here.run = None
            if self.metered:
                attempt.cpu_seconds = time.thread_time() - busy
            self._marker.end(slot)
            self.learn(time.perf_counter() - began)
            self._put(attempt)
            if not self._told:
                self._told = True
                self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._told = False
        self._noticed()
