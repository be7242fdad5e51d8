"""A run: one attempt at one entry, as its handlers see it."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import orjson

from headgate.errors import EffectRefused
from headgate.pg import Database

from . import call
from .gate import Claim


class NeedsThread(BaseException):
    """A foreign call was asked for on the event loop, which would wait for itself.

    No `Exception`, so that a handler's own `except` does not swallow it.
    """


class RunNow:
    """Implements `hg.Run`. `loop`, in `thread`, is where the ledger is spoken to."""

    __slots__ = (
        "_db", "_in_apply", "_loop", "_thread", "_undo", "at_work", "attempt", "entry", "id",
        "is_async", "key", "params", "pipeline", "version",
    )  # fmt: skip

    def __init__(
        self,
        claim: Claim,
        *,
        pipeline: str,
        version: str,
        params: Mapping[str, Any],
        db: Database,
        loop: asyncio.AbstractEventLoop,
        thread: int,
    ) -> None:
        self.id = f"{claim.id}-{claim.fence}"
        self.entry = claim.id
        self.attempt = claim.attempts
        self.key = claim.key.hex()
        self.pipeline = pipeline
        self.version = version
        self.params = params
        self.is_async = False
        # Entered with the entry while its handlers run in the committer; the worker sets it.
        self.at_work: Callable[[int], AbstractContextManager[object]] = nullcontext
        self._db = db
        self._loop = loop
        self._thread = thread
        self._in_apply = False
        self._undo: list[tuple[str, str, Callable[..., Any]]] = []

    def call(
        self, name: str, fn: Callable[..., Any], *, undo: Callable[..., Any] | None = None
    ) -> Any:
        """Do something outside Postgres once (`hg.Run.call`)."""
        if self._in_apply:
            raise EffectRefused(
                f"run.call({name!r}) inside apply: it may run several times per attempt",
                hint="make the call in a transform or rows handler; apply is for SQL only",
            )
        if self.is_async:
            return self._call_async(name, fn, undo)
        step = self._wait(call.begin(self._db, self.entry, bytes.fromhex(self.key), name))
        if undo is not None:
            self._undo.append((name, step.key, undo))
        if step.done:
            return orjson.loads(step.result)
        answer = _store(name, _give(fn, step.key))
        self._wait(call.done(self._db, self.entry, name, answer))
        return orjson.loads(answer)  # as every later attempt will get it

    async def _call_async(
        self, name: str, fn: Callable[..., Any], undo: Callable[..., Any] | None
    ) -> Any:
        step = await call.begin(self._db, self.entry, bytes.fromhex(self.key), name)
        if undo is not None:
            self._undo.append((name, step.key, undo))
        if step.done:
            return orjson.loads(step.result or b"null")
        value = _give(fn, step.key)
        if inspect.isawaitable(value):
            value = await value
        answer = _store(name, value)
        await call.done(self._db, self.entry, name, answer)
        return orjson.loads(answer)

    async def undo_calls(self) -> list[tuple[str, Exception | None]]:
        """Take back the calls of a quarantined entry, the last one first; which ones refused."""
        ended: list[tuple[str, Exception | None]] = []
        for name, key, undo in reversed(self._undo):
            try:
                with self.at_work(self.entry):
                    value = (
                        _give(undo, key)
                        if inspect.iscoroutinefunction(undo)
                        else await asyncio.to_thread(_give, undo, key)
                    )
                    if inspect.isawaitable(value):
                        await value
                await call.undone(self._db, self.entry, name)
                ended.append((name, None))
            except Exception as error:
                ended.append((name, error))  # it stays done: another attempt will not repeat it
        self._undo.clear()
        return ended

    @property
    def has_undo(self) -> bool:
        return bool(self._undo)

    @contextmanager
    def inside_apply(self) -> Generator[None]:
        """While an `apply` handler runs, foreign calls are refused."""
        self._in_apply = True
        try:
            with self.at_work(self.entry):
                yield
        finally:
            self._in_apply = False

    def _wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        if threading.get_ident() == self._thread:
            coroutine.close()
            raise NeedsThread
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


def _give(fn: Callable[..., Any], key: str) -> Any:
    """Call `fn` with the step's key if it takes an argument."""
    try:
        takes = len(inspect.signature(fn).parameters) > 0
    except (TypeError, ValueError):
        takes = False
    return fn(key) if takes else fn()


def _store(name: str, value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError as error:
        raise EffectRefused(
            f"run.call({name!r}): its answer cannot be stored: {error}",
            hint="return text, numbers, lists or mappings, or None",
        ) from None
