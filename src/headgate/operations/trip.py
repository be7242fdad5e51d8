"""What is asked of the background loop: begun there, told there how it ended, cancelled there.

Most questions ride with others' and need no task of their own; `in_task` is for the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Tell = Callable[[Any, BaseException | None], None]
Cancel = Callable[[], object]
# Begins something that tells its end once, now or later, and says how it is cancelled.
Begin = Callable[[Tell], Cancel]
Make = Callable[[], Coroutine[Any, Any, Any]]


def in_task(make: Make, tell: Tell) -> Cancel:
    """Run a coroutine as a task of this loop."""
    task = asyncio.get_running_loop().create_task(make())

    def ended(task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            tell(None, asyncio.CancelledError())
        else:
            error = task.exception()
            tell(None if error is not None else task.result(), error)

    task.add_done_callback(ended)
    return task.cancel
