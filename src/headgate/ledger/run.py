"""A run: one attempt at one entry, as its handlers see it."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from headgate.errors import EffectRefused, Retryable
from headgate.model import doing, trace
from headgate.model.frozen import origin, seed_of
from headgate.model.lookup import Lookup
from headgate.model.mask import mask_uri
from headgate.model.output import trace_id
from headgate.model.verdict import describe
from headgate.pg import Database

from . import call
from .gate import Claim


class NeedsThread(BaseException):
    """A foreign call was asked for on the event loop, which would wait for itself.

    No `Exception`, so that a handler's own `except` does not swallow it.
    """


def mishap(raised: BaseException) -> Exception:
    """What a handler raised, as an error to be judged. What is not the handler's is raised again.

    A handler that ends its thread or its task must not end the worker's.
    """
    if isinstance(raised, Exception):
        return raised
    if isinstance(raised, NeedsThread):
        raise raised
    try:
        task = asyncio.current_task()
    except RuntimeError:  # a thread beside the loop: nobody but the handler raises there
        pass
    else:
        if isinstance(raised, (KeyboardInterrupt, GeneratorExit)):
            raise raised
        if isinstance(raised, asyncio.CancelledError) and task is not None and task.cancelling():
            raise raised
    reason = type(raised).__name__
    if isinstance(raised, SystemExit):
        code = repr(raised.code) if isinstance(raised.code, (int, str)) else ""
        return Retryable(f"the handler called sys.exit({code})", reason=reason)
    if isinstance(raised, asyncio.CancelledError):
        return Retryable("what the handler waited for was cancelled", reason=reason)
    return Retryable(f"the handler raised {describe(raised)}", reason=reason)


async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Run a plain function in a thread of its own: one that hangs keeps no other from running."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def tell(value: Any, error: Exception | None) -> None:
        if ended.done():  # cancelled: nobody waits any more
            return
        if error is None:
            ended.set_result(value)
        else:
            ended.set_exception(error)

    def run() -> None:
        value, error = None, None
        try:
            value = context.run(function, *args)
        except StopIteration as raised:  # a future cannot carry it
            error = RuntimeError(f"the handler raised {describe(raised)}")
        except BaseException as raised:
            error = mishap(raised)
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(tell, value, error)

    threading.Thread(target=run, daemon=True, name="handler").start()
    return await ended


class AtWork:
    """Told which entry's handlers run in the committer. A worker has one that remembers it."""

    def begin(self, entry: int) -> None:
        """The handlers of `entry` may kill the process from here on."""

    def end(self, entry: int) -> None:
        """They have returned, or only wait for Postgres."""


@dataclass(frozen=True, slots=True)
class Around:
    """What all runs of one path share. `loop`, in `thread`, is where the ledger is spoken to."""

    pipeline: str
    version: str
    params: Mapping[str, Any]
    db: Database
    loop: asyncio.AbstractEventLoop
    thread: int
    lookups: Mapping[str, Lookup]


class RunNow:
    """Implements `hg.Run`. One is made for every attempt, so it holds next to nothing."""

    is_async = False
    at_work = AtWork()
    seeded = False  # a handler asked for its seed: the journal says which it was
    span: trace.Context | None = None  # a handler asked for its trace: it is a span of its own
    _in_apply = False
    _undo: list[tuple[str, str, Callable[..., Any]]] | None = None

    def __init__(self, claim: Claim, around: Around) -> None:
        self._claim = claim
        self._around = around

    @property
    def id(self) -> str:
        return f"{self._claim.id}-{self._claim.fence}"

    @property
    def entry(self) -> int:
        return self._claim.id

    @property
    def attempt(self) -> int:
        return self._claim.attempts

    @property
    def key(self) -> str:
        return self._claim.key.hex()

    @property
    def pipeline(self) -> str:
        return self._around.pipeline

    @property
    def version(self) -> str:
        return self._around.version

    @property
    def params(self) -> Mapping[str, Any]:
        return self._around.params

    @property
    def seed(self) -> int:
        self.seeded = True
        return seed_of(origin(self._claim.envelope())[0])

    @property
    def now(self) -> datetime:
        return origin(self._claim.envelope())[1]

    @property
    def trace(self) -> str | None:
        if not trace.tracing():
            return self._claim.envelope().trace
        if self.span is None:
            self.span = trace.child(trace.of_document(self._claim.document))
        return self.span.parent

    def said(self) -> dict[str, object]:
        """Which attempt this is, in the fields of a log line (`model/doing.py`)."""
        envelope = self._claim.envelope()
        told: dict[str, object] = {
            "pipeline": self.pipeline,
            "run": self.id,
            "entry": self.entry,
            "key": self.key,
            "uri": mask_uri(self._claim.uri),
            "message_id": envelope.event_id,
        }
        found = self.span.trace_id if self.span is not None else trace_id(envelope)
        return told if found is None else {**told, "trace_id": found}

    def lookup(self, name: str) -> Lookup:
        """A declared file (`hg.Run.lookup`)."""
        found = self._around.lookups.get(name)
        if found is None:
            known = ", ".join(sorted(self._around.lookups)) or "none"
            raise EffectRefused(
                f"run.lookup({name!r}): pipeline {self.pipeline} declares {known}",
                hint=f'declare it: hg.Pipeline(…, lookups={{{name!r}: "FILE"}})',
            )
        return found

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
        db, claim = self._around.db, self._claim
        step = self._wait(call.begin(db, claim.id, claim.key, name))
        self._remember(name, step, undo)
        if step.done:
            return orjson.loads(step.result or b"null")
        answer = _store(name, _give(fn, step.key))
        self._wait(call.done(db, claim.id, name, answer))
        return orjson.loads(answer)  # as every later attempt will get it

    async def _call_async(
        self, name: str, fn: Callable[..., Any], undo: Callable[..., Any] | None
    ) -> Any:
        db, claim = self._around.db, self._claim
        step = await call.begin(db, claim.id, claim.key, name)
        self._remember(name, step, undo)
        if step.done:
            return orjson.loads(step.result or b"null")
        value = _give(fn, step.key)
        if inspect.isawaitable(value):
            value = await value
        answer = _store(name, value)
        await call.done(db, claim.id, name, answer)
        return orjson.loads(answer)

    def _remember(self, name: str, step: call.Call, undo: Callable[..., Any] | None) -> None:
        # What a replay found done is its original's: that is still published.
        if undo is not None and (not step.done or step.key == call.key_of(self._claim.key, name)):
            self._undo = [*(self._undo or ()), (name, step.key, undo)]

    async def undo_calls(self) -> list[tuple[str, Exception | None]]:
        """Take back the calls of a quarantined entry, the last one first; which ones refused."""
        ended: list[tuple[str, Exception | None]] = []
        for name, key, undo in reversed(self._undo or ()):
            try:
                self.at_work.begin(self.entry)
                value = (
                    _give(undo, key)
                    if inspect.iscoroutinefunction(undo)
                    else await in_thread(_give, undo, key)
                )
                if inspect.isawaitable(value):
                    await value
                await call.undone(self._around.db, self.entry, name)
                ended.append((name, None))
            except BaseException as raised:
                # It stays done: another attempt will not repeat it.
                ended.append((name, mishap(raised)))
            finally:
                self.at_work.end(self.entry)
        self._undo = None
        return ended

    @property
    def has_undo(self) -> bool:
        return bool(self._undo)

    def enter_apply(self) -> None:
        """From here to `leave_apply`, foreign calls are refused."""
        self._in_apply = True
        self.at_work.begin(self._claim.id)
        doing.begin(self)

    def leave_apply(self) -> None:
        doing.begin(None)
        self.at_work.end(self._claim.id)
        self._in_apply = False

    def rest(self) -> None:
        """Nothing of it runs until `resume`."""
        self.at_work.end(self._claim.id)

    def resume(self) -> None:
        if self._in_apply:
            self.at_work.begin(self._claim.id)

    def _wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        if threading.get_ident() == self._around.thread:
            coroutine.close()
            raise NeedsThread
        return asyncio.run_coroutine_threadsafe(coroutine, self._around.loop).result()


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
