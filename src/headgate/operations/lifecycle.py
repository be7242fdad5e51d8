"""The nine steps of a logical operation (S2 § 5), on one page.

    key → lease → preconditions → execution → postconditions → journal → lineage → release →
    telemetry

Between the third and the fifth the caller's own code runs. The way stops where something is to be
awaited or called (`way`); who has to wait for the lease takes its `turn`. A process may die between
any two lines: what it did in `op.tx` is then undone by Postgres, and its lease runs out.

Journal, lineage and release are one commit with the caller's SQL: the row that says "done" and the
effect are there together or not at all.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from headgate import errors
from headgate._version import __version__
from headgate.ledger import operation as ledger
from headgate.ledger.operation import Answer, Asking, Ending, Held, Kept, Lease, OtherPayload
from headgate.model import signal
from headgate.model.crash import reached
from headgate.model.energy import Assumed, Used
from headgate.model.operation import Left, Manner, Moment, Named, bucket_of
from headgate.model.signal import emit
from headgate.model.verdict import describe, reason_of
from headgate.pg import Database, Link
from headgate.telemetry.log import get_logger

from .codec import Codec, decoded, encoded
from .desk import Desk, Leaving
from .holder import is_dead, new_token
from .keeper import Keeper
from .kept import fetch, keep
from .trip import Cancel, Tell, in_task
from .turn import Turn, tell
from .tx import OperationTx
from .way import Away, Here, Way, away, takes

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger

ERROR_CHARACTERS = 2000


class Home(Protocol):
    """Where operations are remembered: opened by the first one of a process."""

    assumed: Assumed | None  # what energy is estimated by, where that is asked for

    async def escalate(self, named: Named, key: str, held: Held) -> None: ...
    async def database(self) -> Database: ...
    async def keeper(self) -> Keeper: ...
    async def desk(self) -> Desk: ...
    def opened(self) -> tuple[Desk, Keeper] | None: ...


class Lifecycle:
    """One call of one operation, from its key to its end."""

    def __init__(
        self,
        home: Home,
        name: str,
        named: Named,
        manner: Manner,
        *,
        payload: bytes | None,
        codec: Codec | None,
        at: datetime | None,
    ) -> None:
        self.name = name
        self.named = named
        self.manner = manner
        self.lease: Lease | None = None
        self.replayed = False
        self.result: Any = None
        self._home = home
        self._payload = payload
        self._codec = codec
        self._at = at
        self._undo: list[tuple[str, str, Callable[..., Any]]] = []
        self._made: set[str] = set()
        self._checked: list[str] = []
        self._began = time.monotonic()
        self._cpu = 0.0 if home.assumed is None else time.thread_time()
        self._used: Used | None = None
        self._settle_key(named)

    def _settle_key(self, named: Named) -> None:
        manner = self.manner
        self.named = named
        self.key = named.key()
        self.lock_key = named.lock(self.key, manner.scope, manner.shards, manner.sovereign)
        self.tx = OperationTx(
            self._home.database,
            self.lock_key,
            lock_timeout_seconds=manner.lock_timeout_seconds,
            idle_seconds=manner.lease_seconds,
        )

    # 1 to 3

    def begin(self, subject: object) -> Way[None]:
        """Key, lease, what an earlier attempt left, preconditions. Checks are given `subject`."""
        try:
            yield Away(self._ask)
        except Exception:
            raise  # a refusal took nothing; only who is interrupted may hold what it never heard of
        except BaseException as interrupt:
            # It may be taken by now: the answer and the interrupt were on their way together.
            yield away(partial(self._give_up, interrupt), whole=True)
            raise
        if self.replayed:
            return
        assert self.lease is not None
        try:
            if self.lease.was in ("running", "partial"):
                yield from self._clear_up()
            yield from self._check(self.manner.requires, subject, "requires")
            reached(Moment.REQUIRED)
        except BaseException as error:
            yield from self.fail(error)
            raise

    def _ask(self, tell: Tell) -> Cancel:
        """Most calls ask once, together with others, and need no task for it."""
        opened = self._home.opened()
        if opened is None or self.named.bucket is not None or self.manner.alone:
            return in_task(self._take, tell)
        desk, keeper = opened
        asking = self._asking()
        reached(Moment.BEFORE_TAKE)

        def heard(got: Answer, error: BaseException | None) -> None:
            nonlocal cancel
            cancel = _nothing
            if error is not None:
                tell(None, error)
                return
            try:
                plain = self._heard(got, keeper)
            except Exception as refused:
                tell(None, refused)
                return
            if plain:
                tell(None, None)
            else:
                cancel = in_task(partial(self._take, asking, got), tell)

        def cancelled() -> None:
            cancel()

        cancel: Cancel = desk.takes.ride(asking, heard).leave
        return cancelled

    def _asking(self) -> Asking:
        return Asking(
            self.key,
            self.lock_key,
            self.manner.alone,
            self._payload,
            new_token(),
            self.manner.lease_seconds,
            self.named,
            None if self.named.bucket is None else self.named.base(),
        )

    def _heard(self, got: Answer, keeper: Keeper) -> bool:
        """The two plain answers: it is ours, or it was done. False for any other."""
        if isinstance(got, Lease):
            self._taken(got, keeper)
        elif isinstance(got, Kept) and got.data is not None:
            self._replay(got, got.data)
        else:
            return False
        return True

    def _taken(self, got: Lease, keeper: Keeper) -> None:
        keeper.add(got, self.manner.lease_seconds, self.manner.deadline_seconds)
        self.lease = got
        tell(signal.IDEM_MISSES, self.named, self.manner)
        if got.attempts > 1:
            tell(signal.RETRY_EVENTS, self.named, self.manner)
        reached(Moment.AFTER_TAKE)

    def _replay(self, got: Kept, data: bytes) -> None:
        self.result = decoded(got.codec, data, self._codec, self.name)
        self.replayed = True
        tell(signal.IDEM_HITS, self.named, self.manner)
        tell(signal.REPLAYS, self.named, self.manner)

    async def _take(self, asking: Asking | None = None, got: Answer | None = None) -> None:
        """The whole of it; from an answer on, where there is one that was not plain."""
        db = await self._home.database()
        if asking is None:
            if self.named.bucket is not None:
                await self._settle_period(db, self.named.bucket)
            asking = self._asking()
        desk, keeper = await self._home.desk(), await self._home.keeper()
        if got is None:
            reached(Moment.BEFORE_TAKE)
            got = await desk.take(asking)
        turn = Turn(self.name, self.named, self.key, self.manner, self._home, db)
        while True:
            match got:
                case Lease():
                    self._taken(got, keeper)
                    return
                case Kept():
                    self._replay(got, await fetch(got))
                    return
                case OtherPayload():
                    await turn.conflict(got, self._payload)
                    asking = asking._replace(lenient=True)
                case Held() if is_dead(got.holder) and got.token != asking.dead:
                    asking = asking._replace(dead=got.token)
                case Held():
                    await turn.wait(got)
            got = await desk.take(asking)

    async def _give_up(self, interrupt: BaseException) -> None:
        """On the background loop, after `_take` was cancelled there: what it took is seen here."""
        if self.lease is not None:
            await self._fail(self.lease, interrupt, [])

    async def _settle_period(self, db: Database, bucket: str) -> None:
        """Which period this is: that of an unfinished attempt that may be retried, else now's."""
        base = self.named.base()
        begun = await ledger.period(db, base, self.manner.plan.budget_seconds)
        now = self._at or datetime.now(UTC)
        settled = begun if begun is not None and self._at is None else bucket_of(bucket, now)
        self._settle_key(self.named._replace(period=settled))

    def _clear_up(self) -> Way[None]:
        """What an earlier attempt left outside Postgres is taken back, if there is a way to."""
        undo = self.manner.undo
        if undo is None:
            return  # calls that were made stay memoised
        assert self.lease is not None
        lease = self.lease
        left: list[Left] = yield away(lambda: self._left(lease))
        yield Here(undo, (left,) if takes(undo) else ())
        yield away(lambda: self._undone(lease, [one.name for one in left]))

    async def _left(self, lease: Lease) -> list[Left]:
        return await ledger.left(await self._home.database(), lease.id)

    async def _undone(self, lease: Lease, names: list[str]) -> None:
        await ledger.call_undone(await self._home.database(), lease, names)

    def _check(self, checks: Any, subject: object, kind: str) -> Way[None]:
        for one in checks:
            name = getattr(one, "__name__", "check")
            said = yield Here(one, (subject,) if takes(one) else ())
            if said is False:
                raise errors.ConditionFailed(
                    f"operation {self.name!r} {kind} {name}, which says no"
                )
            self._checked.append(f"{kind}:{name}")

    # 4

    def call(self, name: str, fn: Callable[..., Any], undo: Callable[..., Any] | None) -> Way[Any]:
        """Something outside Postgres, once: `fn` gets the step's key if it takes one."""
        lease = self._working(f"op.call({name!r})")

        async def begin() -> ledger.Step:
            return await ledger.call_begin(await self._home.database(), lease, self.key, name)

        step: ledger.Step = yield away(begin)
        self._made.add(name)
        if undo is not None:
            self._undo.append((name, step.key, undo))
        if step.done:
            return orjson.loads(step.result or b"null")
        reached(Moment.BEFORE_STEP)
        try:
            value = yield Here(fn, (step.key,) if takes(fn) else ())
        except BaseException:
            # It may have happened and may not: the same key asks again. What did not answer is not
            # taken back either.
            self._undo = [one for one in self._undo if one[0] != name]
            raise
        reached(Moment.MADE)
        answer = _json(name, value)

        async def done() -> None:
            await ledger.call_done(await self._home.database(), lease, name, answer)

        yield away(done)
        reached(Moment.AFTER_STEP)
        return orjson.loads(answer)

    def _working(self, what: str) -> Lease:
        if self.lease is None:
            raise errors.EffectRefused(
                f"{what}: operation {self.name!r} is done",
                hint="Look at op.done first: if op.done: return op.result",
            )
        return self.lease

    # 5 to 9

    def succeed(self, subject: object) -> Way[None]:
        """Postconditions; then journal, lineage, release and the caller's SQL in one commit."""
        assert self.lease is not None
        try:
            self._meter()
            yield from self._check(self.manner.ensures, subject, "ensures")
            reached(Moment.ENSURED)
            codec, data = encoded(self.result, self._codec, self.name)
            # Who is interrupted now hears it once the end is known: calls are taken back only
            # if nothing was committed.
            yield Away(partial(self._record, codec, data), whole=True)
        except BaseException as error:
            yield from self.fail(error)
            raise
        self.result = decoded(codec, data, self._codec, self.name)
        self._end("success")

    def _record(self, codec: str, data: bytes, tell: Tell) -> Cancel:
        """Most calls end together with others, and need no task for it."""
        lease = self.lease
        assert lease is not None
        opened = self._home.opened()
        large = len(data) > self.manner.result_bytes
        if opened is None or large or self.tx.open or self.manner.alone:
            return in_task(partial(self._commit, lease, codec, data), tell)
        desk, keeper = opened
        ending = self._ending(codec, data)
        reached(Moment.BEFORE_END)

        def heard(_: None, error: BaseException | None) -> None:
            if error is None:
                keeper.drop(lease)
                reached(Moment.AFTER_END)
            tell(None, error)

        leaving = Leaving(lease, ending, self.lock_key, self.manner, self.tx.end())
        return desk.ends.ride(leaving, heard).leave

    async def _commit(self, lease: Lease, codec: str, data: bytes) -> None:
        store = None
        if len(data) > self.manner.result_bytes:
            db, limit = await self._home.database(), self.manner.result_bytes
            store, (sql, args) = await keep(db, self.manner.store, data, self.name, limit)
            self.tx.later(sql, *args)
            reached(Moment.KEPT)
        ending = self._ending(codec, data, store)
        reached(Moment.BEFORE_END)
        if self.tx.open:

            async def record(link: Link) -> None:
                await ledger.end_within(link, lease, ending)
                reached(Moment.RECORDED)

            await self.tx.finish(record)
        else:
            desk = await self._home.desk()
            await desk.end(Leaving(lease, ending, self.lock_key, self.manner, self.tx.end()))
        (await self._home.keeper()).drop(lease)
        reached(Moment.AFTER_END)

    def _ending(self, codec: str, data: bytes, store: str | None = None) -> Ending:
        return Ending(
            "success",
            self._doc(size=len(data)),
            data=data if store is None else None,
            codec=codec,
            digest=hashlib.sha256(data).digest(),
            store=store,
        )

    def fail(self, error: BaseException) -> Way[None]:
        """Nothing is kept: SQL is rolled back, calls are taken back, the key is given back."""
        lease = self.lease
        if lease is None:
            return
        self._meter()
        yield away(lambda: self.tx.abandon(error))
        undone: list[str] = []
        if _is_unknown(error):
            # It may have been committed: nothing is taken back, and the lease tells in time.
            yield away(lambda: self._drop(lease))
            return
        if not isinstance(error, errors.Fenced):
            for name, key, undo in reversed(self._undo):
                try:
                    yield Here(undo, (key,) if takes(undo) else ())
                except Exception as refused:
                    _log().error(
                        "undo_failed", operation=self.name, call=name, error=describe(refused)
                    )
                else:
                    undone.append(name)
        yield away(lambda: self._fail(lease, error, undone))
        self._end("fenced" if isinstance(error, errors.Fenced) else "failure")
        self.lease = None

    async def _drop(self, lease: Lease) -> None:
        (await self._home.keeper()).drop(lease)

    async def _fail(self, lease: Lease, error: BaseException, undone: list[str]) -> None:
        (await self._home.keeper()).drop(lease)
        if isinstance(error, errors.Fenced):
            return  # the key is somebody else's, and so is what there is to say about it
        reached(Moment.BEFORE_GIVE_BACK)
        try:
            db = await self._home.database()
            await ledger.call_undone(db, lease, undone)
            partial = self.manner.undo is not None or self._made - set(undone)
            ending = Ending(
                "partial" if partial else "failure",
                self._doc(error=describe(error)[:ERROR_CHARACTERS], undone=undone),
                reason=reason_of(error),
            )
            await ledger.end_in_passing(db, lease, ending)
        except errors.HeadgateError as second:
            # What was raised first is what the caller has to hear. The lease runs out by itself.
            _log().warning("operation_not_given_back", operation=self.name, error=describe(second))
        reached(Moment.AFTER_GIVE_BACK)

    def _meter(self) -> None:
        """What the caller's thread took, from the first line of the operation to its last."""
        assumed = self._home.assumed
        if assumed is None or self._used is not None:
            return
        used = self._used = Used.of(round(time.thread_time() - self._cpu, 6), assumed)
        emit(signal.CPU_SECONDS, used.cpu_seconds, pipeline=self.named.pipeline)
        emit(signal.ENERGY, used.joules, pipeline=self.named.pipeline)
        emit(signal.CARBON, used.grams, pipeline=self.named.pipeline)

    def _doc(self, **more: Any) -> str:
        """The facts of this attempt, of which lineage is a rendering."""
        said: dict[str, Any] = {
            "milliseconds": round((time.monotonic() - self._began) * 1000, 3),
            "attempt": self.lease.attempts if self.lease else 0,
            "statements": self.tx.statements,
            "headgate": __version__,
            **more,
        }
        if self._used is not None:
            said["energy"] = list(self._used)
        if self._made:
            said["calls"] = sorted(self._made)
        if self._checked:
            said["checked"] = self._checked
        if self.manner.sovereign:
            said["sovereignty_event"] = True
        return orjson.dumps(said).decode()

    def _end(self, outcome: str) -> None:
        if not signal.heard():
            return
        emit(signal.OPERATIONS, operation=self.name, outcome=outcome)
        emit(signal.OPERATION_SECONDS, time.monotonic() - self._began, operation=self.name)


def _nothing() -> None:
    """What there is to cancel when it is over."""


def _log() -> BoundLogger:
    return get_logger("headgate.operation")  # rarely needed, and not quick to import


def _is_unknown(error: BaseException) -> bool:
    return isinstance(error, errors.LedgerUnavailable) and error.reason == "commit_unknown"


def _json(name: str, value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError as error:
        raise errors.EffectRefused(
            f"op.call({name!r}): its answer cannot be stored: {error}",
            hint="Return text, numbers, lists or mappings, or None.",
        ) from None
