"""One look for everybody: what many pages show is read once in a while, not once per reader."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """The answer to a question, at most so old. Who asks meanwhile waits for the same answer."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._asking = asyncio.Lock()
        self._answer: tuple[float, T] | None = None

    async def ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """The answer; a question that fails is asked again by the next one."""
        async with self._asking:
            if self._answer is None or time.monotonic() - self._answer[0] > self._seconds:
                self._answer = time.monotonic(), await question()
            return self._answer[1]
