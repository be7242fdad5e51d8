"""Garbage that only a look can find: values that hold each other. It is looked for by the clock.

Python looks whenever many more values were made than freed. With thousands of entries in hand that
is all the time, and none of them is garbage: they go by themselves, batch after batch. So here a
count starts a look only where no batch explains it, and there is one every second, however little
was made: what a handler leaves behind may be few values that hold much memory.
"""

from __future__ import annotations

import asyncio
import gc
from itertools import count

EVERY_SECONDS = 1.0
# More values than all batches of a worker hold.
MANY = 200_000
# The young ones are looked at each time, what survived that now and then, everything seldom.
ONCE_SURVIVED = 20
EVERYTHING = 300


def begin() -> asyncio.Task[None]:
    """From here on, in this process; what is there already is never looked at again."""
    gc.freeze()
    gc.set_threshold(MANY, ONCE_SURVIVED, EVERYTHING // ONCE_SURVIVED)
    return asyncio.create_task(_look())


async def _look() -> None:
    for n in count(1):
        await asyncio.sleep(EVERY_SECONDS)
        gc.collect(2 if n % EVERYTHING == 0 else 1 if n % ONCE_SURVIVED == 0 else 0)
