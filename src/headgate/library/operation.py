"""`hg.operation`: work that is done once per key, in any code.

    with hg.operation("load_sales", key={"day": day}, dataset="sales", version="3") as op:
        if op.done:
            return op.result
        op.tx.execute("INSERT INTO sales …", …)   # committed with the record, or not at all
        op.result = {"rows": 10}

`async with` is the same, with `await op.tx.execute(…)`. Both talk to the ledger over a loop of
their own in the background, so they work in any thread, inside a running event loop, and after a
fork.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import date, datetime
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from headgate.errors import UsageError
from headgate.model.identity import plain_digest
from headgate.model.operation import (
    LEASE_SECONDS,
    LOCK_TIMEOUT_SECONDS,
    RESULT_BYTES,
    ConflictMode,
    InProgressPolicy,
    Manner,
    Trigger,
    named,
)
from headgate.operations.lifecycle import Lifecycle
from headgate.operations.way import Away, Here, Way

from . import ferry
from .home import home

if TYPE_CHECKING:
    from headgate.model.object import Transaction
    from headgate.operations.codec import Codec

T = TypeVar("T")
# The locks that the code around already holds: waiting for one of them would never end.
_AROUND: ContextVar[tuple[tuple[int, str], ...]] = ContextVar("headgate_operations", default=())


class Operation:
    """One call of an operation. Made by `hg.operation`; entered by `with` or `async with`."""

    def __init__(self, life: Lifecycle) -> None:
        self._life = life
        self._pid = os.getpid()
        self._async = False
        self._state: Literal["new", "open", "over"] = "new"

    # What the block sees

    @property
    def done(self) -> bool:
        """Was it done before? Then `result` is what was stored, and nothing is left to do."""
        return self._life.replayed

    @property
    def result(self) -> Any:
        """What callers get, now and ever after. Set it in the block."""
        return self._life.result

    @result.setter
    def result(self, value: Any) -> None:
        if self._life.replayed or self._state == "over":
            raise UsageError(
                f"operation {self._life.name!r} is done: its result stays as it is",
                hint="Look at op.done first: if op.done: return op.result",
            )
        self._life.result = value

    @property
    def tx(self) -> Any:
        """SQL in the transaction that also records the operation: `BlockingTransaction`, or
        `Transaction` in `async with`. It is opened by the first statement.
        """
        self._require_open("op.tx")
        inner = self._life.tx
        return _AwaitedTx(inner) if self._awaited() else _WaitedTx(inner)

    def call(
        self, name: str, fn: Callable[..., Any], *, undo: Callable[..., Any] | None = None
    ) -> Any:
        """Something outside Postgres, once (awaited in `async with`).

        `fn` gets the step's idempotency key if it takes an argument. A step that finished is not
        made again by a later attempt: its stored answer is returned. If the block raises, steps
        with an `undo` are taken back, the last one first.
        """
        self._require_open(f"op.call({name!r})")
        way = self._life.call(name, fn, undo)
        return _walk_async(way) if self._awaited() else _walk(way)

    def _awaited(self) -> bool:
        """Is this an event loop's own code? A thread that it hands work to blocks instead."""
        if not self._async:
            return False
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True

    @property
    def key(self) -> str:
        """The idempotency key, in hex. A period that is a length of time is settled on entry."""
        return self._life.key.hex()

    @property
    def fence(self) -> int:
        """How many attempts had this key, with this one; 0 where it was done before."""
        return self._life.lease.fence if self._life.lease else 0

    @property
    def attempt(self) -> int:
        """Which attempt this is, counted from 1; 0 where it was done before."""
        return self._life.lease.attempts if self._life.lease else 0

    def explain(self) -> dict[str, Any]:
        """What the key is made of, and which parts of it were derived."""
        n = self._life.named
        fields = ("pipeline", "task", "dataset", "operation", "version", "checksum_in", "period")
        return {
            "key": self.key,
            **{name: getattr(n, name) for name in fields},
            "params_hash": n.params_hash.hex(),
            "own": n.own,
            "derived": list(n.derived),
            "lock": "dataset" if self._life.manner.alone else "key",
            "lock_key": self._life.lock_key,
        }

    def __repr__(self) -> str:
        return f"<operation {self._life.name} {self.key[:12]} {self._state}>"

    def _require_open(self, what: str) -> None:
        if self._state != "open" or self._life.lease is None or os.getpid() != self._pid:
            if os.getpid() != self._pid:
                hint = "A forked process begins operations of its own."
            else:
                hint = "Use it inside the with block, and only where op.done is false."
            raise UsageError(f"{what}: operation {self._life.name!r} is not open here", hint=hint)

    # Entering and leaving

    def __enter__(self) -> Operation:
        self._begin(is_async=False)
        _walk(self._life.begin(self))
        self._opened()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if (way := self._leave(error)) is not None:
            _walk(way)

    async def __aenter__(self) -> Operation:
        self._begin(is_async=True)
        await _walk_async(self._life.begin(self))
        self._opened()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if (way := self._leave(error)) is not None:
            if error is None:
                await _walk_async(way)
            else:
                # Who was cancelled still gives the key back; a second cancellation ends that too.
                await asyncio.shield(_walk_async(way))

    def _begin(self, *, is_async: bool) -> None:
        if self._state != "new":
            raise UsageError(
                f"operation {self._life.name!r} was entered before",
                hint="Call hg.operation(…) again for each block.",
            )
        around = dict(_AROUND.get())
        if (other := around.get(self._life.lock_key)) is not None:
            raise UsageError(
                f"operation {self._life.name!r} is inside {other!r}, which holds the same lock:"
                " it would wait for itself",
                hint="Give the inner one another key or dataset, or shards=.",
            )
        self._async = is_async
        # A check that runs before the block may use op.tx as well.
        self._state = "open"

    def _opened(self) -> None:
        if not self._life.replayed:
            _AROUND.set((*_AROUND.get(), (self._life.lock_key, self._life.name)))

    def _leave(self, error: BaseException | None) -> Way[None] | None:
        if os.getpid() != self._pid:
            return None  # a fork of the block: the operation is its parent's
        around = _AROUND.get()
        _AROUND.set(tuple(one for one in around if one[0] != self._life.lock_key))
        if self._life.lease is None:
            self._state = "over"
            return None
        return self._ended(self._life.succeed(self) if error is None else self._life.fail(error))

    def _ended(self, way: Way[None]) -> Way[None]:
        try:
            yield from way
        finally:
            self._state = "over"


class _WaitedTx:
    """`hg.BlockingTransaction` for code in any thread."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def execute(self, sql: str, *args: Any) -> str:
        return ferry.waited(lambda: self._tx.execute(sql, *args))

    def executemany(self, sql: str, args: list[tuple[Any, ...]]) -> None:
        ferry.waited(lambda: self._tx.executemany(sql, args))

    def fetch(self, sql: str, *args: Any) -> list[Mapping[str, Any]]:
        return ferry.waited(lambda: self._tx.fetch(sql, *args))

    def fetchrow(self, sql: str, *args: Any) -> Mapping[str, Any] | None:
        return ferry.waited(lambda: self._tx.fetchrow(sql, *args))

    def fetchval(self, sql: str, *args: Any) -> Any:
        return ferry.waited(lambda: self._tx.fetchval(sql, *args))

    def later(self, sql: str, *args: Any) -> None:
        self._tx.later(sql, *args)


class _AwaitedTx:
    """`hg.Transaction` for code on any event loop; the connection lives on the background one."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    async def execute(self, sql: str, *args: Any) -> str:
        return await ferry.awaited(lambda: self._tx.execute(sql, *args))

    async def executemany(self, sql: str, args: list[tuple[Any, ...]]) -> None:
        await ferry.awaited(lambda: self._tx.executemany(sql, args))

    async def fetch(self, sql: str, *args: Any) -> list[Mapping[str, Any]]:
        return await ferry.awaited(lambda: self._tx.fetch(sql, *args))

    async def fetchrow(self, sql: str, *args: Any) -> Mapping[str, Any] | None:
        return await ferry.awaited(lambda: self._tx.fetchrow(sql, *args))

    async def fetchval(self, sql: str, *args: Any) -> Any:
        return await ferry.awaited(lambda: self._tx.fetchval(sql, *args))

    def later(self, sql: str, *args: Any) -> None:
        self._tx.later(sql, *args)


def _walk(way: Way[T]) -> T:
    """Go the way in this thread: wait for the ledger, call what is the caller's."""
    walk = _Walk(way)
    while (asked := walk.next()) is not None:
        try:
            if isinstance(asked, Away):
                walk.answer = ferry.wait(asked.begin, whole=asked.whole)
            else:
                walk.answer = _called(asked)
        except BaseException as raised:
            walk.failed(raised)
    return walk.end()


async def _walk_async(way: Way[T]) -> T:
    """The same on the caller's event loop."""
    walk = _Walk(way)
    while (asked := walk.next()) is not None:
        try:
            if isinstance(asked, Away):
                walk.answer = await ferry.wait_async(asked.begin, whole=asked.whole)
            else:
                answer = asked.function(*asked.args)
                walk.answer = await answer if inspect.isawaitable(answer) else answer
        except BaseException as raised:
            walk.failed(raised)
    return walk.end()


class _Walk(Generic[T]):
    """A way, and where one is on it. An interrupt of what had to be whole is raised at its end."""

    __slots__ = ("_error", "_interrupt", "_value", "_way", "answer")

    def __init__(self, way: Way[T]) -> None:
        self._way = way
        self._value: Any = None
        self._error: BaseException | None = None
        self._interrupt: BaseException | None = None
        self.answer: Any = None

    def next(self) -> Away | Here | None:
        """What is asked next; None at the end."""
        answer, error = self.answer, self._error
        self.answer = self._error = None
        try:
            return self._way.send(answer) if error is None else self._way.throw(error)
        except StopIteration as end:
            self._value = end.value
            return None
        except BaseException as raised:
            if self._interrupt is not None:
                raise self._interrupt from raised
            raise

    def failed(self, raised: BaseException) -> None:
        """What was asked for raised this."""
        if isinstance(raised, ferry.Interrupted):
            self._interrupt = raised.__cause__
            self.answer, raised_inside = raised.value, raised.error
            self._error = raised_inside
        else:
            self._error = raised

    def end(self) -> T:
        if self._interrupt is not None:
            raise self._interrupt
        return self._value


def _called(asked: Here) -> Any:
    answer = asked.function(*asked.args)
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise UsageError(
            f"{getattr(asked.function, '__name__', 'it')} is async, and this operation is not",
            hint="Use: async with hg.operation(…) as op",
        )
    return answer


# Most calls of an operation are made in one manner. Not where it holds functions of the caller:
# those would be kept with all they hold.
_manner = lru_cache(maxsize=256)(Manner)


def operation(
    name: str,
    *,
    key: Any = None,
    payload: Any = None,
    pipeline: str | None = None,
    task: str | None = None,
    dataset: str | None = None,
    operation: str | None = None,
    version: str | None = None,
    checksum_in: str | bytes | None = None,
    params: Mapping[str, Any] | None = None,
    period: str | date | None = None,
    at: datetime | None = None,
    lock: Literal["dataset", "key"] | None = None,
    shards: int = 1,
    sovereign: bool = False,
    in_progress: InProgressPolicy | None = None,
    trigger: Trigger = "upstream-event",
    wait_seconds: float | None = None,
    conflict: ConflictMode = "error",
    requires: Sequence[Callable[..., Any]] = (),
    ensures: Sequence[Callable[..., Any]] = (),
    undo: Callable[..., Any] | None = None,
    codec: Codec | None = None,
    result_bytes: int = RESULT_BYTES,
    store: str | None = None,
    lease_seconds: float = LEASE_SECONDS,
    deadline_seconds: float = 3600.0,
    lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS,
) -> Operation:
    """Work that is done once per key: use it with `with` or `async with`.

    `docs/reference/operation.md` says what each argument does.
    """
    which = named(
        name,
        key=key,
        pipeline=pipeline,
        task=task,
        dataset=dataset,
        operation=operation,
        version=version,
        checksum_in=checksum_in,
        params=params,
        period=period,
    )
    make = Manner if requires or ensures or undo else _manner
    manner = make(
        scope=lock or ("dataset" if dataset is not None else "key"),
        shards=shards,
        sovereign=sovereign,
        in_progress=in_progress or ("escalate" if sovereign else "backoff"),
        trigger=trigger,
        wait_seconds=wait_seconds,
        conflict=conflict,
        lease_seconds=lease_seconds,
        deadline_seconds=deadline_seconds,
        lock_timeout_seconds=lock_timeout_seconds,
        result_bytes=result_bytes,
        store=store,
        requires=tuple(requires),
        ensures=tuple(ensures),
        undo=undo,
    )
    told = None if payload is None else plain_digest(payload, "payload")
    life = Lifecycle(home(), name, which, manner, payload=told, codec=codec, at=at)
    return Operation(life)
