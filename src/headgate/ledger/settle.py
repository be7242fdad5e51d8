"""Settling: one transaction ends many attempts, and says so in the journal (C4).

    fence check → rows → free SQL → objects → live work → publications → journal → commit

All of it or none of it. Who lost its lease is found by the fence check and changes nothing: all is
rolled back, and the others go on without it. Who lost a race for a head is given back. An error of
the data is somebody's: the batch is halved until it stands alone. A deadlock is nobody's: the batch
is run again and no attempt is charged. Of a lone entry the fence is checked with its publication:
it waits for every statement.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from time import perf_counter

from headgate.errors import LedgerUnavailable
from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.model.signal import (
    BATCH,
    CHECKS,
    COMMIT_SECONDS,
    FENCED,
    PROMOTED,
    RETRIES,
    SETTLED,
    emit,
)
from headgate.model.step import ApplyStep
from headgate.model.verdict import Finalized, Quarantine, Release, Retry, Skipped, Verdict
from headgate.pg import Database, Link, driver

from . import budget, gate, item, object, publication, quarantine
from .apply import BEGIN_CHUNK, apply
from .attempt import Attempt, database_now
from .deferred import Deferring
from .inbox import Registered
from .journal import seal, seal_lone
from .publication import Publication
from .rows import Produced, RowsTable
from .together import Habit

# 40001, 40P01: try again. 55P03: a lock we waited for too long.
_NOBODYS_FAULT = (driver.Deadlock, driver.SerializationFailed, driver.LockNotAvailable)

UNCHANGED = Skipped("unchanged")
_BY_ID = attrgetter("id")

Judge = Callable[[Attempt, BaseException], Verdict]


class _Raced(Exception):
    """The head moved, or an object was condemned, since these entries were claimed."""

    def __init__(self, entries: set[int]) -> None:
        self.entries = entries


class Settler:
    """Ends attempts of one pipeline."""

    def __init__(
        self,
        db: Database,
        name: str,
        registered: Registered,
        tables: Sequence[RowsTable],
        applies: Sequence[ApplyStep],
        *,
        independent: bool,
        catalogued: bool,
        apply_seconds: float,
        judge: Judge,
    ) -> None:
        self._db = db
        self._name = name
        self._at = registered
        # In one order for everybody: pipelines may share tables.
        self._tables = sorted(tables, key=lambda t: t.table.label)
        self._applies = applies
        self._serial = not independent
        self._habit = Habit(in_order=not independent)
        self._deferring = Deferring()
        self._catalogued = catalogued
        self._apply_seconds = apply_seconds
        self._judge = judge

    @property
    def asks(self) -> bool:
        """Do handlers wait for Postgres inside a commit, as far as we have seen?"""
        return bool(self._applies) and self._habit.asks

    async def settle(self, batch: Sequence[Attempt]) -> None:
        """End these attempts: durable when it returns. After `LedgerUnavailable`, call again."""
        left = [s for s in batch if not s.ended]
        while left:
            # Two changes of one uri (under different subjects) cannot both follow the same head.
            # A worker that was buried and registered anew may hold entries under both its numbers.
            wave: dict[str, Attempt] = {}
            later: list[Attempt] = []
            worker = left[0].claim.worker
            for s in left:
                if s.claim.worker != worker or wave.setdefault(s.claim.uri, s) is not s:
                    later.append(s)
            await self._settle(list(wave.values()))
            left = later
        emit(BATCH, len(batch), pipeline=self._name)

    async def _settle(self, batch: list[Attempt]) -> None:
        tries = 0
        while True:
            verdicts, began = [s.verdict for s in batch], perf_counter()
            try:
                await self._once(batch)
                emit(COMMIT_SECONDS, perf_counter() - began, pipeline=self._name)
                break
            except _Raced as raced:
                _restore(batch, verdicts)
                for s in batch:
                    if s.claim.id in raced.entries:
                        s.verdict = Release("raced")
            except _NOBODYS_FAULT:
                _restore(batch, verdicts)
                tries += 1
                await asyncio.sleep(min(0.01 * 2 ** min(tries, 7), 1.0) * random.random())
            except LedgerUnavailable:
                _restore(batch, verdicts)
                raise
            except Exception as error:
                _restore(batch, verdicts)
                if not (_lose(batch, error) or await self._give_way(batch, error)):
                    await self._blame(batch, error)
                    return
        for s in batch:
            s.ended = True
        self._report(batch)

    async def _give_way(self, batch: list[Attempt], error: Exception) -> bool:
        """Give back first versions whose uri has a head by now, if that is what was violated."""
        if driver.constraint(error) != "publication_head":
            return False
        ready = (s for s in batch if isinstance(s.verdict, Finalized))
        new = [s.publication for s in ready if s.publication is not None]
        late = await publication.with_heads(self._db, self._at.pipeline, new)
        for s in batch:
            if s.claim.id in late:
                s.verdict = Release("raced")
        return bool(late)

    async def _blame(self, batch: list[Attempt], error: Exception) -> None:
        """An error of the data is one entry's: halve the batch until it stands alone."""
        if not any(isinstance(s.verdict, Finalized) for s in batch):
            raise error
        if len(batch) > 1:
            half = len(batch) // 2
            await self._settle(batch[:half])
            await self._settle(batch[half:])
        else:
            batch[0].verdict = self._judge(batch[0], error)
            await self._settle(batch)

    async def _once(self, batch: list[Attempt]) -> None:
        at = self._at
        live = [s for s in batch if not s.lost]
        failing = not any(isinstance(s.verdict, Finalized) for s in live)
        first: list[str] = []
        if self._serial and not failing:
            first.append(f"SELECT pg_advisory_xact_lock(1751606890, {at.pipeline:d})")
        # An item that is there already must not look like the data's fault: the fence comes first.
        lone = None if self._applies or self._catalogued else _lone(batch)
        if live and lone is None:
            claims = sorted([s.claim for s in live], key=_BY_ID)
            ids, fences = [c.id for c in claims], [c.fence for c in claims]
            first.append(gate.leaving(at.pipeline, claims[0].worker, ids, fences))
        if self._applies:
            first.append(BEGIN_CHUNK)
        # A handler may take a while between two statements, but not longer than it may run.
        idle = 2 * self._apply_seconds
        async with self._db.transaction(idle_seconds=idle, first=first) as link:
            await self._effects(link, [s for s in live if isinstance(s.verdict, Finalized)])
            ready = [s for s in live if isinstance(s.verdict, Finalized)]
            await self._promote(link, live, ready)
            if len(ready) < len(live):
                await self._return(link, live)
            new = [s.publication for s in ready if s.publication is not None]
            publishing = publication.Publishing(at.pipeline, at.deployment, new) if new else None
            if self._catalogued and ready:
                await item.publish(link, at.pipeline, ready)
            lines = [s.line(at.deployment, fenced=s.lost) for s in batch]
            if lone is not None:
                raced = await seal_lone(link, at.pipeline, at.deployment, lines[0], lone)
            else:
                raced = await seal(link, at.pipeline, lines, publishing)
            if raced:
                raise _Raced(raced)
            if again := [s.claim.id for s in ready if s.claim.replays is not None]:
                await publication.stand(link, again)
            reached(Point.BEFORE_FAIL if failing else Point.BEFORE_FINALIZE)
        reached(Point.AFTER_FAIL if failing else Point.AFTER_FINALIZE)

    async def _effects(self, link: Link, ready: list[Attempt]) -> None:
        if not ready:
            return
        if self._applies:
            rows = self._rows if self._tables else None
            failed = await apply(
                link,
                self._applies,
                ready,
                rows,
                self._apply_seconds,
                habit=self._habit,
                deferring=self._deferring,
                pooler=self._db.pooler,
            )
            for attempt, error in failed:
                attempt.verdict = self._judge(attempt, error)
        else:
            await self._rows(link, ready, agree=True)
        reached(Point.EFFECTS)

    async def _rows(self, link: Link, ready: Sequence[Attempt], *, agree: bool = False) -> None:
        made = [(table, _produced(table, ready)) for table in self._tables]
        share = (
            agree
            and not any(s.added for s in ready)  # a column is added under the lock
            and all(t.is_one_statement(produced) for t, produced in made)
        )
        if agree and not share:  # all locks before the first row, in the order of the tables
            for table, produced in made:
                await table.lock(link, produced)
        for table, produced in made:
            label = table.label
            added = [s.added[label] for s in ready if s.added and label in s.added]
            await table.write(link, produced, frozenset[str]().union(*added), share=share)
            for s, p in zip(ready, produced, strict=True):
                if p.adopts:
                    s.counts = {**(s.counts or {}), label: p.adopted}

    async def _promote(self, link: Link, live: list[Attempt], ready: list[Attempt]) -> None:
        same = [
            (s.claim.head.entry, s.claim.id)
            for s in live
            if s.claim.head is not None and s.verdict == UNCHANGED
        ]
        await publication.see(link, same)
        using = [s for s in live if s.objects and isinstance(s.verdict, (Finalized, Quarantine))]
        wanted = {s.claim.id: _referred(s) for s in using}
        kept = await object.keep(link, self._at.store, [o for w in wanted.values() for o in w])
        gone = {e for e, w in wanted.items() if any(digest not in kept for digest, _ in w)}
        if gone:
            raise _Raced(gone)
        # Who got its bytes has shown that its upstream answers, also when they were nothing new.
        answered = [*ready, *(s for s in live if s.content and s.verdict == UNCHANGED)]
        back = {s.claim.upstream for s in answered if s.claim.upstream is not None}
        for upstream in sorted(back):
            await link.execute(gate.Q.upstream_is_back, upstream, self._at.pipeline)
        if ready:
            reached(Point.PROMOTED)

    async def _return(self, link: Link, live: list[Attempt]) -> None:
        back: list[gate.Stay] = []
        aside: list[quarantine.Aside] = []
        for s in live:
            c = s.claim
            match s.verdict:
                case Retry(due_at, _, _, upstream):
                    lane = None if upstream is None or c.alone else _lane(upstream)
                    back.append(
                        gate.Stay(
                            c.id,
                            c.subject,
                            c.fence,
                            c.attempts,
                            c.deaths,
                            c.alone,
                            due_at,
                            c.first_at,
                            lane,
                            c.part,
                        )
                    )
                case Release():
                    due = database_now(c, s.began) if c.waited else None
                    first = c.first_at if c.attempts > 1 else None
                    back.append(
                        gate.Stay(
                            c.id,
                            c.subject,
                            c.fence,
                            c.attempts - 1,
                            c.deaths,
                            c.alone,
                            due,
                            first,
                            c.upstream,
                            c.part,
                        )
                    )
                case Quarantine(classed, reason, error):
                    aside.append(
                        quarantine.Aside(
                            c.id,
                            c.subject,
                            c.fence,
                            c.attempts,
                            classed,
                            reason,
                            error,
                            s.preview,
                            s.keepable,
                            c.first_at,
                            c.part,
                        )
                    )
                case _:
                    pass
        if failed := sum(isinstance(s.verdict, (Retry, Quarantine)) for s in live):
            await budget.record(link, self._at.pipeline, failed)
        await gate.stay(link, self._at.pipeline, back)
        await quarantine.enter(link, self._at.pipeline, self._at.deployment, aside)

    def _report(self, batch: list[Attempt]) -> None:
        ended = [s.verdict for s in batch if not s.lost]
        for kind, n in Counter(map(type, ended)).items():
            emit(SETTLED, n, pipeline=self._name, outcome=kind.__name__.lower())
            if kind is Finalized:
                self._report_digests(batch, n)
        for reason, n in Counter(v.reason for v in ended if isinstance(v, Retry)).items():
            emit(RETRIES, n, reason=reason)
        if len(ended) < len(batch):
            emit(FENCED, len(batch) - len(ended), pipeline=self._name)
        checks = (s.checks for s in batch if s.checks is not None and not s.lost)
        said = Counter(one for outcomes in checks for one in outcomes.counted)
        for (check, outcome), n in said.items():
            emit(CHECKS, n, pipeline=self._name, check=check, outcome=outcome)

    def _report_digests(self, batch: list[Attempt], finalized: int) -> None:
        """How many of them have the SHA-256 of their bytes, as all that were fetched do."""
        bare = 0
        if None in [s.content for s in batch]:
            made = (s.publication for s in batch if isinstance(s.verdict, Finalized) and not s.lost)
            bare = sum(p is None or not p.content for p in made)
        emit(PROMOTED, finalized - bare, pipeline=self._name, hashed="true")
        if bare:
            emit(PROMOTED, bare, pipeline=self._name, hashed="false")


def _produced(table: RowsTable, ready: Sequence[Attempt]) -> list[Produced]:
    label = table.label
    made: list[Produced] = []
    for s in ready:
        chunks = s.rows.get(label, ()) if s.rows else ()
        sizes = s.sizes.get(label) if s.sizes else None
        if sizes is None:
            sizes = (s.counts[label],) if chunks and s.counts else ()
        before = s.publication.predecessor if s.publication else None
        made.append(Produced(s.claim.id, s.claim.event_at, sizes, chunks, before, s.retired))
    return made


def _lone(batch: list[Attempt]) -> Publication | None:
    """What is published, where that is all there is to settle.

    Not in a partition with a limit: its count is locked before any row is, by everybody.
    """
    (first, *others) = batch
    if others or first.lost or first.claim.part is not None:
        return None
    return first.publication if isinstance(first.verdict, Finalized) else None


def _lose(batch: list[Attempt], error: Exception) -> bool:
    """Go on without those that lost their lease, if that is what the error says."""
    named = gate.lost(error)
    lost = [s for s in batch if s.claim.id in named]
    for s in lost:
        s.lost = True
    return bool(lost)


def _referred(attempt: Attempt) -> list[tuple[bytes, int]]:
    """The objects that its end refers to: of what is set aside, only the input."""
    staged = attempt.objects or []
    if isinstance(attempt.verdict, Finalized):
        return staged
    return [(digest, generation) for digest, generation in staged if digest == attempt.content]


def _restore(batch: list[Attempt], verdicts: list[Verdict]) -> None:
    # A rolled-back transaction decided nothing: the next one starts from the same verdicts.
    for attempt, verdict in zip(batch, verdicts, strict=True):
        attempt.verdict = replace(verdict)


def _lane(upstream: str) -> int:
    return int.from_bytes(hashlib.sha256(upstream.encode()).digest()[:8], "big", signed=True)
