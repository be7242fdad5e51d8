"""Handlers that fail on purpose, and handlers whose failures are written down.

Failing after all of a handler has run is the hardest case: whatever it did outside of Headgate is
done, and will be done again.
"""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

from headgate.errors import Permanent, Retryable
from headgate.model.pipeline import Pipeline
from headgate.model.step import Step
from headgate.model.verdict import describe

Failing = Literal["", "once", "aside"]
REASON = "prove"
Tell = Callable[[dict[str, Any]], None]


def prepare(pipeline: Pipeline, failing: Failing, marks: Path, folder: Path, tell: Tell) -> None:
    """Wrap every handler: what it raises is told, and it fails as it is asked to.

    `once`: each handler fails once per object, and is retried. `aside`: the last one does, and the
    object goes to quarantine until it is released.
    """
    steps = [
        *pipeline.validators,
        *(r.step for r in pipeline.row_steps),
        *pipeline.transforms,
        *([] if pipeline.item_step is None else [pipeline.item_step.step]),
        *(a.step for a in pipeline.applies),
    ]
    last = steps[-1] if steps else None

    def fails(step: Step) -> Failing:
        return "" if failing == "aside" and step is not last else failing

    def wrapped(step: Step, given: int) -> Step:
        end = _End(fails(step), marks / str(steps.index(step)), step.name, folder, tell)
        return replace(step, function=end.around(step), takes=given)

    pipeline.validators[:] = [wrapped(s, 2) for s in pipeline.validators]
    pipeline.row_steps[:] = [replace(r, step=wrapped(r.step, 2)) for r in pipeline.row_steps]
    pipeline.transforms[:] = [wrapped(s, 2) for s in pipeline.transforms]
    if (item := pipeline.item_step) is not None:
        pipeline.item_step = replace(item, step=wrapped(item.step, 3))
    pipeline.applies[:] = [replace(a, step=wrapped(a.step, 3)) for a in pipeline.applies]


class _End:
    """What happens after a handler has done all it does."""

    def __init__(self, failing: Failing, mark: Path, name: str, folder: Path, tell: Tell) -> None:
        self._failing = failing
        self._mark = mark
        self._name = name
        self._folder = f"{folder.resolve()}{os.sep}"
        self._tell = tell

    def around(self, step: Step) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            obj, run = args[-2:]
            try:
                made = step.function(*args[: step.takes])
            except BaseException as error:
                self._raised(error, obj)
                raise
            if inspect.isasyncgen(made):
                return self._stream(cast("AsyncGenerator[Any]", made), obj, run)
            if inspect.isawaitable(made):
                return self._later(made, obj, run)
            if _is_lazy(made):
                return self._rest(made, obj, run)
            self._over(run)
            return made

        return call

    def _rest(self, made: Iterator[Any], obj: Any, run: Any) -> Generator[Any]:
        try:
            yield from made
        except GeneratorExit:
            raise
        except BaseException as error:
            self._raised(error, obj)
            raise
        self._over(run)

    async def _stream(self, made: AsyncGenerator[Any], obj: Any, run: Any) -> AsyncGenerator[Any]:
        try:
            async for one in made:
                yield one
        except GeneratorExit:
            raise
        except BaseException as error:
            self._raised(error, obj)
            raise
        self._over(run)

    def _later(self, made: Any, obj: Any, run: Any) -> Coroutine[Any, Any, Any]:
        async def wait() -> Any:
            try:
                value = await made
            except BaseException as error:
                self._raised(error, obj)
                raise
            self._over(run)
            return value

        return wait()

    def _over(self, run: Any) -> None:
        if not self._failing:
            return
        # A file, so that it is once per object in whichever process.
        try:
            os.close(os.open(f"{self._mark}-{run.entry}", os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return
        said = f"prove: {self._name} fails once, after all of it has run"
        raise (Permanent if self._failing == "aside" else Retryable)(said, reason=REASON)

    def _raised(self, error: BaseException, obj: Any) -> None:
        """Which line of the user's it came from, where that can be told."""
        frames = [f for f in traceback.extract_tb(error.__traceback__) if self._own(f.filename)]
        last = frames[-1] if frames else None
        self._tell(
            {
                "what": "raised",
                "line": last.lineno if last else None,
                "file": last.filename.removeprefix(self._folder) if last else None,
                "code": (last.line or "") if last else "",
                "handler": self._name,
                "uri": obj.uri,
                "in_call": None,
                "detail": {"error": describe(error)},
            }
        )

    def _own(self, file: str) -> bool:
        return file.startswith(self._folder)


def _is_lazy(made: object) -> bool:
    """Is it still being made while it is read? A stream of bytes is not."""
    return isinstance(made, Iterator) and not hasattr(cast("object", made), "read")
