"""Walking the way of one entry to its effects: a generator that stops where a handler is called.

Where all handlers are plain functions a worker's thread calls them, entry after entry; where one is
async they are called on the event loop, and what blocks runs beside it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import Any

from headgate.model.rows import CHUNK
from headgate.model.step import Step
from headgate.model.verdict import Verdict

from .attempt import FINALIZED, Attempt
from .run import in_thread

# A step of the pipeline to be called, and what takes whatever it gives back, piece by piece.
Asked = tuple[Step, Callable[[Any], None]]
Way = Generator[Asked, None, Verdict]


def walk(way: Way, attempt: Attempt) -> Verdict:
    """Call the handlers here and now; how it ended."""
    try:
        step, take = next(way)
        while True:
            try:
                take(_call(step, attempt))
            except Exception as error:
                step, take = way.throw(error)
            else:
                step, take = next(way)
    except StopIteration as end:
        return end.value


async def walk_async(way: Way, attempt: Attempt) -> Verdict:
    """The same on the event loop."""
    # The first step of the way fetches; what came inside its message is here already.
    here = attempt.claim.data is not None
    asked: Asked | None
    asked, verdict = _advance(way) if here else await in_thread(_advance, way)
    while asked is not None:
        step, take = asked
        try:
            await _give(attempt, step, take)
        except Exception as error:
            asked, verdict = _advance(way, error)
        else:
            asked, verdict = _advance(way)
    return verdict


def _call(step: Step, attempt: Attempt) -> Any:
    run = attempt.run
    if run.is_async != step.is_async:
        run.is_async = step.is_async
    return step.function(*(attempt.object, run)[: step.takes])


def _advance(way: Way, error: Exception | None = None) -> tuple[Asked | None, Verdict]:
    """Go on, or back with what a handler raised: what is asked next, or how it ended."""
    try:
        return (next(way) if error is None else way.throw(error)), FINALIZED
    except StopIteration as end:
        return None, end.value


async def _give(attempt: Attempt, step: Step, take: Callable[[Any], None]) -> None:
    """Call a handler and hand over what it gives: one thing, or slices of an async generator."""
    if not step.is_async:
        await in_thread(lambda: take(_call(step, attempt)))
        return
    given = _call(step, attempt)
    if not inspect.isasyncgen(given):
        await in_thread(take, await given)
        return
    slice_: list[Any] = []
    async for item in given:
        slice_.append(item)
        if len(slice_) == CHUNK:
            await in_thread(take, slice_)
            slice_ = []
    if slice_:
        await in_thread(take, slice_)
