"""The witness: sees what a handler does beside what it gives back, and on which line.

It lives in the child process, is set up before the user's file is imported, and stays until the
process ends. What it sees goes to a log, line by line. It also keeps the handler among scratch
copies: files of the user are shadowed, other databases are replaced, the network stays shut.
"""

from __future__ import annotations

import functools
import inspect
import os
import random
import sys
import tempfile
import types
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from headgate.ledger.run import RunNow
from headgate.model.pipeline import Pipeline
from headgate.model.step import Step

from . import doors, drivers, fence, files, weather
from .scene import IMPORTING, IN_CALL, Log, Scene, carry_into_threads, on_stage
from .shadow import Shadow
from .trace import Tracer

Called = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a handler is watched: the pipeline's file, and what in the world is scratch.

    `work`, `shadow` and what `free` names may be written. Anything else is the user's: a write
    there lands in `shadow`. `real` names the folders in which not even a library's own thread may
    write. `shadow/.temp` is where temporary files go; what is left there is nobody's effect.
    """

    file: Path
    work: Path
    shadow: Path
    real: Sequence[Path]
    dsn: str
    log: Path
    trace: Path | None = None
    free: Sequence[Path] = ()
    network: bool = False


@dataclass(frozen=True, slots=True)
class Conditions:
    """The weather of a world. `clock` is where a handler's clock stands; None is the real one."""

    clock: float | None = None
    seed: int = 0
    listing: Literal["sorted", "reversed"] = "sorted"


class Eye:
    """The witness of this process."""

    def __init__(self, place: Place, conditions: Conditions, log: Log) -> None:
        self._place = place
        self._conditions = conditions
        self._log = log
        folders = [place.work, place.shadow, *place.free]
        self._tracer = place.trace and Tracer(place.trace, log, folders)

    def attach(self, pipeline: Pipeline) -> None:
        """Watch every handler of a declaration. They run as before."""
        pipeline.validators = [self._watched(s, 2) for s in pipeline.validators]
        pipeline.row_steps = [replace(r, step=self._watched(r.step, 2)) for r in pipeline.row_steps]
        pipeline.transforms = [self._watched(s, 2) for s in pipeline.transforms]
        if (item := pipeline.item_step) is not None:
            pipeline.item_step = replace(item, step=self._watched(item.step, 3))
        pipeline.applies = [replace(a, step=self._watched(a.step, 3)) for a in pipeline.applies]

    def _watched(self, step: Step, takes: int) -> Step:
        """The same handler, which asks for all there is, so that its run is always known."""

        @functools.wraps(step.function)
        def handler(*given: Any) -> Any:
            obj, run = given[-2:]
            scene = self._scene(step.name, obj.uri, int(run.id.rpartition("-")[2]))
            with self._playing(scene):
                result = step.function(*given[: step.takes])
            return self._continued(scene, result)

        return replace(step, function=handler, takes=takes)

    def _scene(self, handler: str, uri: str, attempt: int) -> Scene:
        # The same sample meets the same chance whenever and after whatever it comes.
        chance = random.Random(f"{self._conditions.seed} {handler} {os.path.basename(uri)}")
        return Scene(handler, uri, attempt, chance=chance)

    def _continued(self, scene: Scene, result: Any) -> Any:
        """What a handler gave back, watched while it is still being made."""
        if inspect.isasyncgen(result):
            return self._each_async(scene, cast("AsyncGenerator[Any]", result))
        if inspect.isawaitable(result):
            return self._awaited(scene, result)
        if _is_lazy(result):
            return self._each(scene, result)
        return result

    def _each(self, scene: Scene, items: Iterator[Any]) -> Generator[Any]:
        try:
            while True:
                with self._playing(scene):
                    try:
                        item = next(items)
                    except StopIteration:
                        return
                yield item
        finally:
            if isinstance(items, Generator):
                with self._playing(scene):
                    items.close()

    async def _each_async(self, scene: Scene, items: AsyncGenerator[Any]) -> AsyncGenerator[Any]:
        try:
            while True:
                try:
                    item = await self._awaited(scene, anext(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            await self._awaited(scene, items.aclose())

    @types.coroutine
    def _awaited(self, scene: Scene, result: Awaitable[Any]) -> Generator[Any, Any, Any]:
        """Wait for it step by step: between two steps the thread belongs to others."""
        steps = result.__await__()
        go_on = functools.partial(next, steps)
        while True:
            with self._playing(scene):
                try:
                    wanted = go_on()
                except StopIteration as ended:
                    return ended.value
            try:
                answer = yield wanted
            except BaseException as raised:
                go_on = functools.partial(steps.throw, raised)
            else:
                go_on = functools.partial(steps.send, answer)

    @contextmanager
    def _playing(self, scene: Scene) -> Generator[None]:
        with (
            on_stage(scene),
            nullcontext() if self._tracer is None else self._tracer.following(scene),
        ):
            yield

    def watch_calls(self) -> None:
        """Count how often the function of a `run.call` really ran."""
        call, called = RunNow.call, self._called

        def watched(self: RunNow, name: str, fn: Called, *, undo: Called | None = None) -> Any:
            return call(self, name, called(name, fn), undo=undo and called(name, undo))

        RunNow.call = watched

    def _called(self, name: str, fn: Called) -> Called:
        @functools.wraps(fn)
        def ran(*key: str) -> Any:
            with _inside(name):
                self._log.tell("call", name=name, ran=True)
                result = fn(*key)
            return _finished(name, result) if inspect.isawaitable(result) else result

        return ran


def _is_lazy(result: object) -> bool:
    """Is it still being made while it is read? A stream of bytes is not."""
    return isinstance(result, Iterator) and not hasattr(cast("object", result), "read")


async def _finished(name: str, result: Awaitable[Any]) -> Any:
    with _inside(name):
        return await result


@contextmanager
def _inside(name: str) -> Generator[None]:
    token = IN_CALL.set(name)
    try:
        yield
    finally:
        IN_CALL.reset(token)


def watch(place: Place, conditions: Conditions) -> Eye:
    """Open the eye of this process. Call it once, before the user's file is imported."""
    sys.dont_write_bytecode = True
    shadow = Shadow(place.shadow, [place.work, *place.free])
    tempfile.tempdir = os.environ["TMPDIR"] = shadow.temp
    log = Log(place.log, place.file)
    eye = Eye(place, conditions, log)
    IMPORTING.chance.seed(conditions.seed)
    carry_into_threads()
    eye.watch_calls()
    files.watch(log, shadow, place.real)
    weather.watch(log, conditions.clock, conditions.listing)
    drivers.watch(log, place.dsn)
    doors.watch(log, place.dsn, network=place.network)
    fence.raise_around([place.work, place.shadow, place.log.parent, *place.free])
    return eye
