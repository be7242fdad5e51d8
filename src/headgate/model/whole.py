"""What may not be broken off halfway."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def whole(doing: Coroutine[Any, Any, T]) -> T:
    """Await it. Who is cancelled meanwhile stays until it has ended, and is cancelled then.

    A second cancellation ends the wait.
    """
    task = asyncio.ensure_future(doing)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(Exception):
            await task
        raise
