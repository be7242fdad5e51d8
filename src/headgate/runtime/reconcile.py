"""Reconcile: what the sources of a pipeline show, the ledger and what is published, side by side.

Nobody waits for anybody: a listing that takes an hour is kept in a temporary file, so that no
transaction is open meanwhile; the comparison takes seconds; and what was found is kept in another
file, so that whoever reads it may take as long as he likes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from headgate.errors import Unavailable, UsageError
from headgate.ledger import reconcile as ledger
from headgate.ledger.inbox import Registered
from headgate.model.envelope import Clock, Strength
from headgate.model.pipeline import Pipeline
from headgate.model.ports import Known, Listable, Noticed, Source
from headgate.model.reconcile import FIXED, FOUND, Cover, Found, Judged, Line, Side, State, judge
from headgate.pg import Database
from headgate.stores.spill import Spill

from .intake import count

AT_ONCE = 1000
PAGE = 5000
Progress = Callable[[str, int], None]
"""Called with what is going on, and how many objects it has come to."""


class Finding(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One uri about which the accounts differ. `by` names the evidence of a drift."""

    pipeline: str
    finding: Found
    uri: str
    why: str
    source: str | None = None
    by: str = ""
    then: str = ""
    now: str = ""
    entry: int | None = None
    version: int | None = None


@dataclass(slots=True)
class Reconciled:
    """What came of it. Findings are read in the order of their uris, as often as one likes."""

    pipeline: Pipeline
    sources: list[Listable]
    unlisted: list[str]
    counts: Counter[State] = field(default_factory=Counter[State])
    _pages: Spill = field(default_factory=Spill)

    @property
    def found(self) -> int:
        return sum(self.counts[state] for state in FOUND)

    def findings(self) -> Iterator[Finding]:
        return (finding for finding, _ in self.lines())

    def lines(self) -> Iterator[tuple[Finding, Line]]:
        for page in self._pages:
            for line, judged in _DECODE(page):
                yield self._finding(line, judged), line

    def keep(self, page: Sequence[tuple[Line, Judged]]) -> None:
        self._pages.append(_ENCODE(page))

    def _finding(self, line: Line, judged: Judged) -> Finding:
        source = line.known_by if line.shown is None else self.sources[line.shown.source].name
        return Finding(
            self.pipeline.name,
            cast("Found", judged.state),
            line.uri,
            judged.why,
            source,
            judged.by,
            judged.then,
            judged.now,
            line.published,
            line.version,
        )


@dataclass(slots=True)
class Fixed:
    """What became of the missing and the drifted."""

    admitted: int = 0
    known: int = 0  # somebody was quicker
    refused: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def listable(pipeline: Pipeline) -> list[Listable]:
    """Those of its sources that can say everything they have."""
    return [source for source in pipeline.sources if isinstance(source, Listable)]


def require_listable(pipeline: Pipeline) -> None:
    """Raise `UsageError` when none of its sources can be listed."""
    if not listable(pipeline):
        named = ", ".join(type(source).__name__ for source in pipeline.sources) or "no sources"
        raise UsageError(
            f"pipeline {pipeline.name} cannot be reconciled: it has {named}, and only a Directory,"
            " a Prefix or a Manifest can say everything it has",
            hint="Declare a Prefix over the same objects beside it; what both tell counts once.",
        )


async def reconcile(
    db: Database, pipeline: Pipeline, progress: Progress = lambda what, n: None
) -> Reconciled:
    """Compare everything. Nothing is changed."""
    require_listable(pipeline)
    sources = listable(pipeline)
    others = [source for source in pipeline.sources if not isinstance(source, Listable)]
    result = Reconciled(pipeline, sources, [source.name for source in others])
    to = await ledger.find(db, pipeline.name)
    since = await ledger.newest(db)
    spool = await asyncio.to_thread(_list, sources, datetime.now(UTC), progress)
    names = [source.name for source in sources]
    comparison = ledger.Comparison(-1 if to is None else to.pipeline, names)
    cover = _cover(sources, others)
    async for page in comparison.lines(db, _sides(spool)):
        judged = [(line, judge(line, since, names, cover)) for line in page]
        result.counts.update(one.state for _, one in judged)
        if kept := [(line, one) for line, one in judged if one.state in FOUND]:
            result.keep(kept)
        progress("differences", result.counts.total())
    result.counts["agreed"] += comparison.agreed
    return result


async def fix(
    db: Database, result: Reconciled, *, because: str, progress: Progress = lambda what, n: None
) -> Fixed:
    """Admit the missing and the drifted, as their watchers would. Nothing is ever deleted.

    Killed in the middle, run it all again: what was admitted is known by then.
    """
    pipeline = result.pipeline
    to = await ledger.find(db, pipeline.name, pipeline.partition_of, pipeline.event_time)
    if to is None:
        raise UsageError(
            f"pipeline {pipeline.name} has never run on this ledger: there is nobody to admit to",
            hint="Start it once: headgate up FILE.py takes in everything its sources show.",
        )
    fixed = Fixed()
    waiting: dict[int, list[Noticed]] = {}
    for _, line in (one for one in result.lines() if one[0].finding in FIXED):
        assert line.shown is not None
        some = waiting.setdefault(line.shown.source, [])
        some.append(_noticed(line, line.shown))
        if len(some) == AT_ONCE:
            await _admit(db, to, result.sources[line.shown.source], some, because, fixed)
            some.clear()
            progress("admitted", fixed.admitted)
    for n, some in waiting.items():
        await _admit(db, to, result.sources[n], some, because, fixed)
    return fixed


async def _admit(
    db: Database,
    to: Registered,
    source: Listable,
    changes: Sequence[Noticed],
    because: str,
    fixed: Fixed,
) -> None:
    now = datetime.now(UTC)
    if not changes:
        return
    try:
        receipt = await ledger.admit(
            db,
            to,
            source.name,
            changes,
            lambda change, generation: source.envelope(change, generation, now),
            because=because,
        )
    except (Unavailable, UsageError):
        raise
    except Exception as error:
        # One change the ledger cannot take must not hold up those that came with it.
        if len(changes) == 1:
            fixed.refused.append((changes[0].uri, f"{type(error).__name__}: {error}"))
            return
        for change in changes:
            await _admit(db, to, source, [change], because, fixed)
        return
    count(source.name, receipt)
    fixed.admitted += receipt.admitted
    fixed.known += len(changes) - receipt.admitted


def _noticed(line: Line, shown: Side) -> Noticed:
    noticed = Noticed(
        shown.uri,
        "created",
        shown.hint,
        cast("Strength", shown.strength),
        shown.at,
        0,
        shown.size,
        shown.content_type,
        cast("Clock", shown.clock),
    )
    gone = line.removed or line.retired
    return noticed.after(Known(line.known or "", line.expected, gone))


def _list(sources: Sequence[Listable], now: datetime, progress: Progress) -> Spill:
    """Everything the sources have, in a temporary file."""
    spool = Spill()
    page: list[Side] = []
    listed = 0
    for n, source in enumerate(sources):
        for shown in source.everything(now):
            c = shown.change
            page.append(
                Side(
                    c.uri,
                    n,
                    c.hint,
                    c.strength,
                    c.event_time,
                    c.size,
                    c.content_type,
                    c.clock,
                    shown.settled,
                )
            )
            if len(page) == PAGE:
                spool.append(_ENCODE(page))
                listed += len(page)
                page.clear()
                progress(f"listing {source.name}", listed)
    spool.append(_ENCODE(page))
    return spool


def _sides(spool: Spill) -> Iterator[Side]:
    for page in spool:
        yield from _DECODE_SIDES(page)


def _cover(
    sources: Sequence[Listable], others: Sequence[Source]
) -> Callable[[str, str | None], Cover]:
    """Who would show a uri, or tell of it, given who told of it before."""
    named = {source.name: source for source in sources}
    unlisted = {source.name for source in others}

    def cover(uri: str, told_by: str | None) -> Cover:
        if told_by in unlisted:
            return "elsewhere"
        teller = named.get(told_by or "")
        if teller is not None and teller.covers(uri) is not False:
            return "covered"
        if any(source.covers(uri) for source in sources):
            return "covered"
        if told_by is None:  # an event told of it, and does not say whose it was
            return "elsewhere" if others else "nobody"
        return "elsewhere" if any(source.owns(uri) for source in others) else "nobody"

    return cover


_ENCODE: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(list[tuple[Line, Judged]]).decode
_DECODE_SIDES = msgspec.msgpack.Decoder(list[Side]).decode
