"""The path. Everything that is ever done about a change is on this page.

    gate → fetch → digest → validate → stage → promote → finalize

`prepare` takes one entry up to its effects, without leaving a trace: bytes in a spool, rows in a
list. `stage` makes the bytes of many entries durable. `settle` commits many entries at once, with
their journal. A process may die between any two lines; the next one starts at the gate again.

`prepare` is written once. Where all handlers are plain functions it never suspends, and a worker's
thread drives it straight through, entry after entry; where one is async it runs on the event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import random
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from headgate import errors
from headgate.ledger import object as objects
from headgate.ledger.attempt import FINALIZED, Attempt
from headgate.ledger.gate import Claim
from headgate.ledger.inbox import Registered
from headgate.ledger.rows import RowsTable
from headgate.ledger.run import RunNow, mishap
from headgate.ledger.settle import Settler
from headgate.ledger.settlement import Settlement, database_now
from headgate.model.artifact import artifacts_of, chunks_of
from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.model.identity import is_newer
from headgate.model.object import Object
from headgate.model.pipeline import Pipeline, Step
from headgate.model.ports import Store
from headgate.model.rows import CHUNK, Encoder
from headgate.model.verdict import (
    Finalized,
    Quarantine,
    Release,
    Retry,
    Skipped,
    Verdict,
    describe,
    judge,
)  # fmt: skip
from headgate.pg import Database, driver
from headgate.stores.spill import Spill
from headgate.telemetry.log import get_logger
from headgate.telemetry.mask import Masker

log = get_logger("headgate.path")

ERROR_CHARACTERS = 2000
# Data that Postgres cannot read, an empty cell where there must be none, a CHECK that says no: the
# same bytes will not pass tomorrow. A missing parent row or a taken key may.
HOPELESS = ("22", "23502", "23514")


class Path:
    """The path of one pipeline, in one worker."""

    def __init__(
        self,
        declared: Pipeline,
        db: Database,
        at: Registered,
        store: Store,
        *,
        apply_seconds: float,
    ) -> None:
        self.declared = declared
        self.at = at
        self._db = db
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._masker = Masker(declared.mask)
        self._tables = [RowsTable(r.table) for r in declared.row_steps]
        self._encoders = [(r, Encoder(r.table)) for r in declared.row_steps]
        self.settler = Settler(
            db,
            declared.name,
            at,
            self._tables,
            declared.applies,
            independent=declared.independent,
            apply_seconds=apply_seconds,
            judge=self._judge_in_commit,
        )

    async def open(self) -> None:
        """Make sure that the tables of declared rows are there and can hold them."""
        for table in self._tables:
            await table.prepare(self._db)

    def begin(self, claim: Claim) -> Attempt:
        p = self.declared
        run = RunNow(
            claim,
            pipeline=p.name,
            version=p.version,
            params=p.params,
            db=self._db,
            loop=self._loop,
            thread=self._thread,
        )
        return Attempt(claim, run)

    def prepare(self, attempt: Attempt) -> None:
        """Take one entry up to its effects, in a thread. Never raises: the verdict says it."""
        _drive(self._prepare(attempt, plain=True))

    async def prepare_async(self, attempt: Attempt, deadline_seconds: float) -> None:
        """The same on the event loop, for pipelines with async handlers."""
        try:
            async with asyncio.timeout(deadline_seconds):
                await self._prepare(attempt, plain=False)
        except TimeoutError:
            error = errors.DeadlineExceeded(f"the handler ran longer than {deadline_seconds:g} s")
            attempt.verdict = self._judge(attempt.claim, attempt.began, error)

    async def _prepare(self, attempt: Attempt, *, plain: bool) -> None:
        try:
            verdict = self._gate(attempt.claim)
            if verdict is None:
                _ = self._fetch(attempt) if plain else await asyncio.to_thread(self._fetch, attempt)
                attempt.reach("fetched", Point.FETCHED)
                verdict = self._digest(attempt)
            if verdict is None:
                if self.declared.validators:
                    await self._validate(attempt, plain)
                attempt.reach("validated", Point.VALIDATED)
                await self._handle(attempt, plain)
                reached(Point.HANDLED)
                verdict = FINALIZED
            attempt.verdict = verdict
            if isinstance(verdict, Skipped) and attempt.claim.head is not None:
                attempt.note("head", attempt.claim.head.entry)  # what it was compared with
        except BaseException as raised:  # a handler may raise anything; its class is its fate
            attempt.verdict = self._judge(attempt.claim, attempt.began, mishap(raised))

    def _gate(self, claim: Claim) -> Verdict | None:
        """Is there anything to do, by what the claim saw?"""
        head = claim.head
        if head is not None and not is_newer(
            claim.sequence, claim.event_time, claim.id, head.sequence, head.event_time, head.seen
        ):
            return Skipped("stale")
        if not claim.removed:
            return None
        if head is None or head.removed:
            return Skipped("unchanged")
        return Skipped("kept") if self.declared.removed == "keep" else FINALIZED

    def _fetch(self, attempt: Attempt) -> None:
        """Copy the bytes to where nobody changes them, and learn their digest on the way."""
        claim = attempt.claim
        body: bytes | FilePath
        if claim.data is not None:
            body, size = claim.data, len(claim.data)
            attempt.content = hashlib.sha256(body).digest()
        else:
            source = next((s for s in self.declared.sources if s.owns(claim.uri)), None)
            if source is None:
                raise errors.ObjectMissing(f"no source of {self.declared.name} reads {claim.uri}")
            spool = self._store.spool()
            attempt.hold(b"", spool)
            for chunk in source.fetch(claim.envelope()):
                spool.write(chunk)
            attempt.content, body, size = spool.digest, spool.path, spool.size
            attempt.spools = {attempt.content: spool}
        attempt.object = Object(
            uri=claim.uri,
            digest=attempt.content,
            size=size,
            event_time=claim.event_time,
            body=body,
            envelope=claim.envelope,
        )

    def _digest(self, attempt: Attempt) -> Verdict | None:
        """Are these bytes new? Whatever the hint said, only they can tell."""
        head = attempt.claim.head
        if head is not None and not head.removed and head.content == attempt.content:
            return Skipped("unchanged")
        return None

    async def _validate(self, attempt: Attempt, plain: bool) -> None:
        for step in self.declared.validators:
            try:
                async for _ in self._given(step, attempt, plain):
                    pass
            except errors.Retryable:
                raise
            except errors.Permanent as error:
                if type(error) is not errors.Permanent:
                    raise
                reason = "validation" if error.reason == "permanent" else error.reason
                raise errors.SchemaError(str(error), reason=reason) from error
            except Exception as error:
                raise errors.SchemaError(
                    f"{step.name}: {type(error).__name__}: {error}", reason="validation"
                ) from error

    async def _handle(self, attempt: Attempt, plain: bool) -> None:
        """Run the handlers. What they give back is kept aside until the commit."""
        for declared, encoder in self._encoders:
            attempt.count(encoder.table.label, 0)
            async for rows in self._given(declared.step, attempt, plain):
                await self._do(plain, self._rows, attempt, encoder, rows)
        for step in self.declared.transforms:
            async for made in self._given(step, attempt, plain):
                await self._do(plain, self._artifacts, attempt, step, made)

    def _rows(self, attempt: Attempt, encoder: Encoder, rows: Any) -> None:
        label = encoder.table.label
        seen = attempt.count(label, 0)
        for n, chunk, added in encoder.encode(() if rows is None else rows, seen):
            attempt.produced(label, n, chunk, added, Spill)

    def _artifacts(self, attempt: Attempt, step: Step, made: Any) -> None:
        for artifact in artifacts_of(made, step.name):
            spool = self._store.spool()
            attempt.hold(b"", spool)
            for chunk in chunks_of(artifact, step.name):
                spool.write(chunk)
            attempt.made(artifact, spool, step.name)

    async def stage(self, attempts: Sequence[Attempt]) -> None:
        """Make the bytes of these attempts durable: touched in the ledger first, then written."""
        attempts = [a for a in attempts if not a.staged]
        using = [a for a in attempts if a.spools and isinstance(a.verdict, (Finalized, Quarantine))]
        sizes = {d: s.size for a in using for d, s in (a.spools or {}).items() if d}
        generations = await objects.touch(self._db, self.at.store, sizes)
        if using:
            await asyncio.to_thread(self._keep, using, generations)
        for attempt in attempts:
            attempt.staged = True
            if isinstance(attempt.verdict, Finalized) and not attempt.claim.removed:
                attempt.reach("staged", Point.STAGED)

    def _keep(self, using: list[Attempt], generations: dict[bytes, tuple[int, bool]]) -> None:
        for attempt in using:
            try:
                spools = {d: s for d, s in (attempt.spools or {}).items() if d}
                for digest, spool in spools.items():
                    if not (generations[digest][1] and self._store.has(digest)):
                        self._store.keep(spool)
                attempt.objects = [(digest, generations[digest][0]) for digest in spools]
                if attempt.object is not None and attempt.content in spools:
                    attempt.object.moved(self._store.path(attempt.content))
            except Exception as error:
                attempt.objects = None
                attempt.verdict = self._judge(attempt.claim, attempt.began, error)

    async def settle(self, attempts: Sequence[Attempt]) -> list[Settlement]:
        """Stage and commit: how these attempts ended, once that is durable."""
        await self.stage(attempts)
        settlements = [self._ending(a) for a in attempts]
        await self.settler.settle(settlements)
        # Only now: whoever lost its lease may not take back what the next one relies on.
        for attempt, settlement in zip(attempts, settlements, strict=True):
            aside = isinstance(settlement.verdict, Quarantine) and not settlement.lost
            if aside and attempt.run.has_undo:
                await self._undo(attempt)
        return settlements

    async def _undo(self, attempt: Attempt) -> None:
        for name, error in await attempt.run.undo_calls():
            if error is not None:
                log.warning(
                    "a call could not be undone",
                    pipeline=self.declared.name,
                    entry=attempt.claim.id,
                    call=name,
                    error=self._masker.text(describe(error)),
                )

    def finish(self, attempts: Sequence[Attempt]) -> None:
        """Forget what these attempts held, once their end is known."""
        for attempt in attempts:
            attempt.discard()

    def _ending(self, attempt: Attempt) -> Settlement:
        """The same one however often an outage makes us come back: it knows what was committed."""
        if attempt.settlement is None:
            try:
                attempt.settlement = self._settlement(attempt)
            except Exception as error:  # what cannot be written is this entry's, not the batch's
                attempt.verdict = self._judge(attempt.claim, attempt.began, error)
                attempt.settlement = self._settlement(attempt)
        return attempt.settlement

    def _settlement(self, attempt: Attempt) -> Settlement:
        settlement = attempt.ending()
        if isinstance(attempt.verdict, Finalized):
            settlement.publication = attempt.publication(self.declared)
        elif isinstance(attempt.verdict, Quarantine):
            settlement.preview = self._preview(attempt.object)
        return settlement

    def _preview(self, obj: Object | None) -> str | None:
        if obj is None:
            return None
        try:
            with obj.open() as body:
                return self._masker.preview(body.read(512))
        except OSError:  # the bytes are gone; the verdict is worth more than a look at them
            return None

    def _judge_in_commit(self, settlement: Settlement, error: BaseException) -> Verdict:
        verdict = self._judge(settlement.claim, settlement.began, error)
        if isinstance(verdict, Quarantine) and settlement.given is not None:
            settlement.preview = self._preview(settlement.given[0])
        return verdict

    def _judge(
        self, claim: Claim, began: float, error: BaseException
    ) -> Retry | Quarantine | Release:
        if isinstance(error, errors.LedgerUnavailable):
            return Release("ledger_unavailable")  # our outage, not the entry's fault
        if driver.sqlstate(error).startswith(HOPELESS):
            error = errors.SchemaError(f"{error}", reason="refused_by_database")
        verdict = judge(
            error,
            attempts=claim.attempts,
            first_at=claim.first_at,
            now=database_now(claim, began),
            plan=self.declared.retry,
            chance=random.random(),
        )
        return replace(verdict, error=self._masker.text(verdict.error)[:ERROR_CHARACTERS])

    async def _given(self, step: Step, attempt: Attempt, plain: bool) -> AsyncGenerator[Any]:
        """What a handler gives back: one thing, or what an async generator yields, in slices."""
        if not step.is_async:
            yield await self._do(plain, _call, step, attempt)
            return
        result = _call(step, attempt)
        if not inspect.isasyncgen(result):
            yield await result
            return
        slice_: list[Any] = []
        async for item in result:
            slice_.append(item)
            if len(slice_) == CHUNK:
                yield slice_
                slice_ = []
        if slice_:
            yield slice_

    async def _do(self, plain: bool, function: Callable[..., Any], *args: Any) -> Any:
        """Something blocking: here in a worker's thread, beside the loop otherwise."""
        return function(*args) if plain else await asyncio.to_thread(function, *args)


def _call(step: Step, attempt: Attempt) -> Any:
    attempt.run.is_async = step.is_async
    return step.function(*(attempt.object, attempt.run)[: step.takes])


def _drive(path: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never suspends."""
    try:
        path.send(None)
    except StopIteration:
        return
    raise RuntimeError("a plain path tried to wait")
