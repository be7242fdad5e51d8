"""The path. Everything that is ever done about a change is on this page.

    gate → fetch → digest → validate → stage → promote → finalize

`prepare` takes one entry up to its effects, without leaving a trace: bytes in a spool, rows in a
list. `settle` makes the bytes of many entries durable (`ledger/stage.py`) and commits them at once,
with their journal. A process may die between any two lines; the next one starts at the gate again.

The way to the effects is written once, as a generator that stops where a handler is to be called.
Who walks it (`ledger/walk.py`) calls the handlers: in a thread, or on the event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import threading
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path as FilePath
from typing import Any

from headgate import errors
from headgate.catalog.describe import describing
from headgate.catalog.footprint import Located
from headgate.ledger import publication as published
from headgate.ledger.attempt import FINALIZED, Attempt, database_now
from headgate.ledger.gate import Claim
from headgate.ledger.inbox import Registered
from headgate.ledger.rows import RowsTable
from headgate.ledger.run import Around, NeedsThread, RunNow, mishap
from headgate.ledger.settle import Settler
from headgate.ledger.stage import Stager
from headgate.ledger.walk import Asked, Way, walk, walk_async
from headgate.model.artifact import artifacts_of, chunks_of
from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.model.envelope import REFUSED, Envelope
from headgate.model.facts import File, Item, media_type
from headgate.model.identity import EffectKey, is_newer
from headgate.model.mask import Masker
from headgate.model.object import Object
from headgate.model.pipeline import Pipeline
from headgate.model.ports import Store
from headgate.model.revert import restored_artifacts, restored_content, runs_again
from headgate.model.rows import Encoder
from headgate.model.step import Step
from headgate.model.validation.outcomes import Outcomes, verdict_of
from headgate.model.verdict import (
    Finalized,
    Quarantine,
    Release,
    Retry,
    Skipped,
    Verdict,
    checking,
    describe,
    judge,
    plan_of,
)  # fmt: skip
from headgate.pg import Database, driver
from headgate.stores.spill import Spill
from headgate.telemetry.log import get_logger

log = get_logger("headgate.path")

ERROR_CHARACTERS = 2000
COPY_BYTES = 1 << 20
UNREADABLE = "Ask its sender to send it right, and discard this one."
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
        self.slowed = False  # its error budget is spent
        self._db = db
        self._store = store
        self._around = Around(
            declared.name,
            declared.version,
            declared.params,
            db,
            asyncio.get_running_loop(),
            threading.get_ident(),
            at.lookups,
        )
        self._effect_key = EffectKey(
            pipeline=declared.name, version=declared.version, params=declared.params_digest
        )
        self._takes_back = any(a.undo is not None for a in declared.applies)
        self._masker = Masker(declared.mask)
        self._tables = [RowsTable(r.table) for r in declared.row_steps]
        self._encoders = [(r, Encoder(r.table)) for r in declared.row_steps]
        self._no_rows = {encoder.label: 0 for _, encoder in self._encoders}
        self.stager = Stager(db, at.store, store, self._judge_attempt)
        self.settler = Settler(
            db,
            declared.name,
            at,
            self._tables,
            declared.applies,
            independent=declared.independent,
            catalogued=declared.collection is not None,
            apply_seconds=apply_seconds,
            judge=self._judge_in_commit,
        )

    async def open(self) -> None:
        """Make sure that the tables of declared rows are there and can hold them."""
        for table in self._tables:
            await table.prepare(self._db)

    def begin(self, claim: Claim) -> Attempt:
        return Attempt(claim, RunNow(claim, self._around))

    def prepare(self, attempt: Attempt) -> None:
        """Take one entry up to its effects, in a thread. Never raises: the verdict says it."""
        try:
            self._arrive(attempt, walk(self._way(attempt), attempt))
        except BaseException as raised:  # a handler may raise anything; its class is its fate
            if self._is_in_the_way(raised) or self._is_in_the_way(raised.__cause__):
                raise NeedsThread from raised
            attempt.verdict = self._judge(attempt.claim, attempt.began, mishap(raised))

    def _is_in_the_way(self, raised: BaseException | None) -> bool:
        # A quick handler is called on the event loop's thread; its own asyncio.run() fails there.
        here = threading.get_ident() == self._around.thread
        return here and isinstance(raised, RuntimeError) and "event loop" in str(raised)

    async def prepare_async(self, attempt: Attempt, deadline_seconds: float) -> None:
        """The same on the event loop, for pipelines with async handlers."""
        try:
            async with asyncio.timeout(deadline_seconds):
                try:
                    self._arrive(attempt, await walk_async(self._way(attempt), attempt))
                except BaseException as raised:
                    attempt.verdict = self._judge(attempt.claim, attempt.began, mishap(raised))
        except TimeoutError:
            error = errors.DeadlineExceeded(f"the handler ran longer than {deadline_seconds:g} s")
            attempt.verdict = self._judge(attempt.claim, attempt.began, error)

    def _way(self, attempt: Attempt) -> Way:
        """The way of one entry to its effects, and its verdict. Who walks it calls the handlers."""
        verdict = self._gate(attempt.claim)
        if verdict is not None:
            return verdict
        self._fetch(attempt)
        attempt.reach("fetched", Point.FETCHED)
        verdict = self._digest(attempt)
        if verdict is not None:
            return verdict
        if self.declared.validators:
            yield from self._validate(attempt)
        attempt.reach("validated", Point.VALIDATED)
        if self._encoders:
            attempt.counts = self._no_rows.copy()
        for declared, encoder in self._encoders:
            yield declared.step, partial(self._rows, attempt, encoder)
        if attempt.claim.reverts is not None and not runs_again(attempt.claim.envelope()):
            attempt.restore(restored_artifacts(attempt.claim.envelope()))
        else:
            for step in self.declared.transforms:
                yield step, partial(self._artifacts, attempt, step)
        if self.declared.collection is not None:
            yield from self._describe(attempt)
        reached(Point.HANDLED)
        return FINALIZED

    def _arrive(self, attempt: Attempt, verdict: Verdict) -> None:
        # Not by the way itself: a thread that ran out of time may still be walking it.
        if verdict is FINALIZED:
            claim = attempt.claim
            gone = claim.removed and claim.reverts is None
            attempt.retired = gone and self.declared.removed == "retire"
            attempt.publish(self._effect_key)
        if attempt.claim.replays is not None:
            attempt.note("replays", attempt.claim.replays)
        if attempt.run.seeded:
            attempt.note("seed", attempt.run.seed)
        attempt.verdict = verdict
        if isinstance(verdict, Skipped) and attempt.claim.head is not None:
            attempt.note("head", attempt.claim.head.entry)  # what it was compared with

    def _gate(self, claim: Claim) -> Verdict | None:
        """Is there anything to do, by what the claim saw?"""
        head = claim.head
        if claim.reverts is not None:
            return self._gate_of_revert(claim)
        if claim.replays is not None:
            return self._gate_of_replay(claim)
        if head is not None and not is_newer(
            claim.sequence, claim.stood_at, claim.id, head.sequence, head.event_time, head.seen
        ):
            return Skipped("stale")
        if claim.superseded:
            return Skipped("superseded")
        if not claim.removed:
            return None
        if head is None or head.removed:
            return Skipped("unchanged")
        return Skipped("kept") if self.declared.removed == "keep" else FINALIZED

    def _gate_of_revert(self, claim: Claim) -> Verdict | None:
        """It takes back what readers see, and nothing that came since."""
        if claim.head is None or claim.head.entry != claim.reverts:
            return Skipped("stale")
        self._can_take_back()
        return FINALIZED if claim.removed else None

    def _gate_of_replay(self, claim: Claim) -> Verdict | None:
        """It supersedes what it replays, while readers see that. A newer head stays."""
        if claim.head is None or claim.head.entry != claim.replays:
            return Skipped("superseded")
        self._can_take_back()
        return None

    def _can_take_back(self) -> None:
        for step in self.declared.applies:
            if step.undo is None:
                raise errors.EffectRefused(
                    f"what {step.step.name} did cannot be taken back: it has no undo",
                    hint="say apply(undo=…), then: headgate quarantine release ENTRY --because ...",
                )

    def _fetch(self, attempt: Attempt) -> None:
        """Copy the bytes to where nobody changes them, and learn their digest on the way."""
        claim = attempt.claim
        if claim.uri.startswith(REFUSED):
            raise errors.SchemaError("a message that could not be read", hint=UNREADABLE)
        body: bytes | FilePath
        if claim.data is not None:
            body, size = claim.data, len(claim.data)
            attempt.content = hashlib.sha256(body).digest()
        else:
            spool = self._store.spool()
            attempt.hold(b"", spool)
            for chunk in self._bytes(claim):
                spool.write(chunk)
            attempt.content, body, size = spool.digest, spool.path, spool.size
            attempt.note("size", size)
            attempt.spools = {attempt.content: spool}
        attempt.object = Object(
            uri=claim.uri,
            digest=attempt.content,
            size=size,
            body=body,
            envelope=claim.envelope,
        )

    def _bytes(self, claim: Claim) -> Iterable[bytes | memoryview]:
        """The object's bytes: from its source, or from the store for what was kept of it."""
        if (content := _kept_content(claim)) is not None:
            with self._store.open(content) as kept:
                yield from iter(partial(kept.read, COPY_BYTES), b"")
            return
        source = next((s for s in self.declared.sources if s.owns(claim.uri)), None)
        if source is None:
            raise errors.ObjectMissing(f"no source of {self.declared.name} reads {claim.uri}")
        yield from source.fetch(claim.envelope())

    def _digest(self, attempt: Attempt) -> Verdict | None:
        """Are these bytes new? Whatever the hint said, only they can tell."""
        head = attempt.claim.head
        if (wanted := _kept_content(attempt.claim)) is not None:
            if attempt.content != wanted:
                raise errors.Permanent(f"the bytes kept as sha256:{wanted.hex()} are others by now")
            return None
        if head is not None and not head.removed and head.content == attempt.content:
            return Skipped("unchanged")
        return None

    def _validate(self, attempt: Attempt) -> Generator[Asked]:
        """Ask every check, so that a reader has all they say, and then fail if one did."""
        said = attempt.checks = Outcomes(
            self._masker.text, everything=self.declared.dataset is not None
        )
        failures: list[Exception] = []
        for step in self.declared.validators:
            try:
                with checking(step.name):
                    yield step, partial(said.take, step.name)
            except Exception as error:
                if self._is_in_the_way(error.__cause__):
                    raise  # a thread asks them all again
                said.raised(step.name, error)
                failures.append(error)
            else:
                failures += said.ended(step.name)
        if failures:
            raise verdict_of(failures)

    def _rows(self, attempt: Attempt, encoder: Encoder, rows: Any) -> None:
        assert attempt.counts is not None, "what is counted begins with none"
        seen = attempt.counts[encoder.label]
        for n, chunk, added in encoder.encode(() if rows is None else rows, seen):
            attempt.produced(encoder.label, n, chunk, added, Spill)

    def _artifacts(self, attempt: Attempt, step: Step, made: Any) -> None:
        for artifact in artifacts_of(made, step.name):
            spool = self._store.spool()
            attempt.hold(b"", spool)
            for chunk in chunks_of(artifact, step.name):
                spool.write(chunk)
            attempt.made(artifact, spool, step.name)

    def _describe(self, attempt: Attempt) -> Generator[Asked, None, None]:
        """Make it an item of its catalog: as it is found, then as the handler would have it."""
        assert attempt.object is not None, "only objects are described"

        def take(item: Item) -> None:
            attempt.item = item

        # A revert brings back what was said then, whatever the handler would say now.
        envelope = attempt.object.envelope
        restored = attempt.claim.reverts is not None and not runs_again(envelope)
        files = _located(attempt.object, envelope, attempt)
        yield from describing(
            self.declared, attempt.object, envelope.item, files, take, restored=restored
        )

    async def settle(self, attempts: Sequence[Attempt]) -> None:
        """Stage and commit: how these attempts ended is durable when it returns."""
        await self.stager.stage(attempts)
        if self._takes_back:
            await self._look_back(attempts)
        for attempt in attempts:
            if isinstance(attempt.verdict, Quarantine):
                attempt.preview = self._preview(attempt.object)
        await self.settler.settle(attempts)
        # Only now: whoever lost its lease may not take back what the next one relies on.
        for attempt in attempts:
            aside = isinstance(attempt.verdict, Quarantine) and not attempt.lost
            if aside and attempt.run.has_undo:
                await self._undo(attempt)

    async def _look_back(self, attempts: Sequence[Attempt]) -> None:
        """Have the version before at hand, for free SQL that takes its effects back."""
        for attempt in attempts:
            head = attempt.claim.head
            if isinstance(attempt.verdict, Finalized) and head is not None and not head.removed:
                try:
                    attempt.previous = await published.version_of(self._db, head, self._store)
                except Exception as error:
                    attempt.verdict = self._judge(attempt.claim, attempt.began, error)

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
            if attempt.spools:
                attempt.discard()

    def _preview(self, obj: Object | None) -> str | None:
        if obj is None:
            return None
        try:
            with obj.open() as body:
                return self._masker.preview(body.read(512))
        except Exception:  # the bytes are gone, say; the verdict is worth more than a look at them
            return None

    def _judge_attempt(self, attempt: Attempt, error: BaseException) -> Verdict:
        return self._judge(attempt.claim, attempt.began, error)

    def _judge_in_commit(self, attempt: Attempt, error: BaseException) -> Verdict:
        verdict = self._judge_attempt(attempt, error)
        if isinstance(verdict, Quarantine):
            attempt.preview = self._preview(attempt.object)
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
            plan=self.declared.retry or plan_of(claim.envelope().detector),
            chance=random.random(),
            slowed=self.slowed,
        )
        return replace(verdict, error=self._masker.text(verdict.error)[:ERROR_CHARACTERS])


def _kept_content(claim: Claim) -> bytes | None:
    """The digest of the bytes that this change is about, where its source is not asked."""
    if claim.reverts is not None:
        return restored_content(claim.envelope())
    if claim.replays is not None and claim.head is not None:
        return claim.head.content
    return None


def _located(obj: Object, envelope: Envelope, attempt: Attempt) -> list[Located]:
    """The files of this attempt and where they lie: the object, then its artifacts."""
    kind = media_type(obj.uri, envelope.content_type)
    files = [Located(File("data", obj.digest, obj.size, kind), obj.uri, obj.open, obj.path)]
    for artifact in attempt.artifacts or ():
        file = File(**artifact)
        spool = (attempt.spools or {}).get(bytes.fromhex(file.digest))
        if spool is not None:  # what a revert brings back is in the store
            at = spool.path
            files.append(Located(file, file.name, partial(at.open, "rb"), partial(FilePath, at)))
    return files
