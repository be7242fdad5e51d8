"""The pile: attempts that are handled and wait to be settled, and who may take how many of them.

A lone attempt does not wait for company. While another batch is being settled, company is on its
way, and small batches beside that one would only be more of them: then a batch has to be full, or
the other one to end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from headgate.ledger.attempt import Attempt


class Pile:
    """What is handled, the oldest first. Threads may `put`; all else happens on the loop."""

    def __init__(self, batch_max: int, shared_by: int | None) -> None:
        """Where several committers share a batch, each of them takes its part as soon as it can."""
        self._batch_max = batch_max
        self._shared = shared_by is not None
        self._most = batch_max if shared_by is None else max(1, batch_max // shared_by)
        self._handled: deque[Attempt] = deque()
        self._settling = 0  # batches
        self._there = asyncio.Event()  # something is
        self._more = asyncio.Event()  # a batch is full, or one was settled
        self._taken = asyncio.Event()

    @property
    def is_full(self) -> bool:
        return len(self._handled) >= self._batch_max

    def put(self, attempt: Attempt) -> None:
        """Place it here, for the next `look`."""
        self._handled.append(attempt)

    def look(self) -> None:
        """Tell the committers what is there."""
        self._there.set()
        if self.is_full:
            self._more.set()

    def add(self, attempts: Iterable[Attempt]) -> None:
        self._handled += attempts
        self.look()

    async def emptier(self) -> None:
        """Wait until somebody took a batch."""
        self._taken.clear()
        await self._taken.wait()

    async def take(self) -> list[Attempt]:
        """The next batch, when it is worth settling. Whoever takes it says when it is `settled`."""
        while True:
            await self._there.wait()
            if self._settling and not self._shared and not self.is_full:
                self._more.clear()
                await self._more.wait()
                continue
            batch: list[Attempt] = []
            while self._handled and len(batch) < self._most:
                batch.append(self._handled.popleft())
            if not self._handled:
                self._there.clear()
            self._taken.set()
            if batch:
                self._settling += 1
                return batch

    def settled(self) -> None:
        self._settling -= 1
        self._more.set()
