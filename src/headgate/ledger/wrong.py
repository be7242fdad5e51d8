"""What is wrong now, the worst first, each with what to type and the runbook that explains it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from headgate.model.slo import ADVICE, SloStanding, Targets
from headgate.pg import Database, Record

from . import budget, quarantine, redrive, replays
from .flow import Clock, StreamNow
from .redrive import Redrive
from .replays import Standing

Severity = Literal["bad", "warn"]
# Nobody sweeps when what is new was not added up for so long.
SWEPT_SECONDS = 60.0
# How many plans and replays are looked at, and for how long one that ended badly is spoken of.
LATEST = 10
DAY_SECONDS = 86_400.0
_GRAVE = ("exhausted", "care", "conflict")


@dataclass(frozen=True, slots=True)
class Wrong:
    """One thing that is wrong. `kind` is stable; `run` is what to type; `runbook` is its page.

    `pipelines` are all that it is about; `classed` and `reason` say which entries of a quarantine.
    """

    severity: Severity
    kind: str
    what: str
    why: str = ""
    run: str = ""
    runbook: str = ""
    pipeline: str | None = None
    since: datetime | None = None
    redrive: int | None = None
    replay: int | None = None
    pipelines: tuple[str, ...] = ()
    classed: str | None = None
    reason: str | None = None

    @property
    def whose(self) -> tuple[str, ...]:
        """The pipelines it is about."""
        return self.pipelines or (() if self.pipeline is None else (self.pipeline,))


async def look(
    db: Database,
    streams: Sequence[StreamNow],
    standing: Sequence[SloStanding],
    clock: Clock,
    workers: int,
    targets: Targets,
    budget_seconds: float,
) -> list[Wrong]:
    """Everything that is wrong now. What is bad comes before what is only worth a look."""
    found = [
        *_levels(standing),
        *_nobody(streams, workers, clock),
        *_budgets(await db.fetch(budget.Q.budgets, budget_seconds)),
        *_slow(streams, workers, targets),
        *_aside(await db.fetch(quarantine.Q.counts)),
        *_redrives(await redrive.redrives(db, limit=LATEST), clock.now),
        *_replays(await replays.replays(db, limit=LATEST), clock.now),
    ]
    return sorted(found, key=lambda wrong: wrong.severity != "bad")


def _levels(standing: Sequence[SloStanding]) -> Iterator[Wrong]:
    for s in standing:
        if s.state not in ("spent", "burning"):
            continue
        if s.slo == "double_applies":
            yield Wrong(
                "bad",
                "double_apply",
                f"{s.pipeline}: {s.bad:,.0f} entries were applied twice",
                "This must never happen.",
                "headgate verify --deep",
                "double-apply",
                s.pipeline,
            )
            continue
        run, page = ADVICE[s.slo]
        word = "is spent" if s.state == "spent" else f"burns {s.burn['1h']:.0f} times too fast"
        yield Wrong(
            "warn" if s.slo == "duplicates" else "bad",
            f"slo_{s.state}",
            f"{s.pipeline}: the budget for {s.slo.replace('_', ' ')} {word}",
            f"Promised: {s.promise}. It was {s.bad:,.0f} of {s.total:,.0f}.",
            run,
            page,
            s.pipeline,
        )


def _nobody(streams: Sequence[StreamNow], workers: int, clock: Clock) -> Iterator[Wrong]:
    ready = sum(s.ready for s in streams)
    if ready and not workers:
        yield Wrong(
            "bad",
            "nobody_works",
            f"{ready:,} entries could be worked on, and no worker is alive",
            "Nothing is lost: work goes on where it stopped as soon as there is one.",
            "headgate up FILE.py",
            "no-workers",
        )
    elif clock.behind and clock.stale_seconds > SWEPT_SECONDS:
        yield Wrong(
            "warn",
            "nobody_sweeps",
            f"{clock.behind:,} commits are not in the series yet: nobody sweeps",
            "Totals are exact all the same; rates and service levels are not of today.",
            "headgate up FILE.py",
            "no-workers",
            since=clock.rolled_at,
        )


def _budgets(rows: Sequence[Record]) -> Iterator[Wrong]:
    for row in rows:
        if row["spent_at"] is None:
            continue
        name, over = row["pipeline"], row["overridden_until"]
        said = f"{row['failed']:,} of the last {row['attempts']:,} attempts failed."
        yield Wrong(
            "bad" if over is None else "warn",
            "budget_spent" if over is None else "budget_overridden",
            f"{name}: too many attempts fail"
            + ("" if over is None else ", and somebody said go on"),
            f"{said} Retries are slowed down, and no redrive begins." if over is None else said,
            f'headgate budget override {name} --because "…"',
            "dead-letters",
            name,
            row["spent_at"],
        )


def _slow(streams: Sequence[StreamNow], workers: int, targets: Targets) -> Iterator[Wrong]:
    for s in streams:
        if not workers or not (s.ready or s.claimed):
            continue  # said by others, or it waits for its retry
        if s.oldest_seconds is not None and s.oldest_seconds > targets.latency_seconds:
            yield Wrong(
                "warn",
                "stuck_or_slow",
                f"{s.pipeline}: its oldest entry is here for {s.oldest_seconds / 60:,.0f} minutes",
                f"{s.ready:,} are ready, {s.claimed:,} are worked on, {s.waiting:,} wait.",
                f"headgate entry list --pipeline {s.pipeline}",
                "stuck-or-slow",
                s.pipeline,
            )


def _aside(rows: Sequence[Record]) -> Iterator[Wrong]:
    for row in sorted(rows, key=lambda r: -r["entries"]):
        name, classed, reason = row["pipeline"], row["class"], row["reason"]
        many = "1 entry" if row["entries"] == 1 else f"{row['entries']:,} entries"
        said = reason if reason == classed else f"{reason} ({classed})"
        yield Wrong(
            "bad" if classed in _GRAVE else "warn",
            "aside",
            f"{name}: {many} in quarantine for {said}",
            "They wait for a decision; nothing runs by itself.",
            f"headgate quarantine list --pipeline {name} --reason {reason}",
            "dead-letters",
            name,
            classed=classed,
            reason=reason,
        )


def _redrives(plans: Sequence[Redrive], now: datetime) -> Iterator[Wrong]:
    for plan in plans:
        if plan.state == "paused":
            yield Wrong(
                "warn",
                "redrive_paused",
                f"redrive {plan.id} is paused, with {plan.progress.left:,} entries to go",
                run=f'headgate quarantine redrive resume {plan.id} --because "…"',
                runbook="dlq-redrive",
                since=plan.made_at,
                redrive=plan.id,
                pipelines=tuple(plan.pipelines),
            )
        recent = plan.ended_at is not None and (now - plan.ended_at).total_seconds() < DAY_SECONDS
        if plan.state == "stopped" and plan.progress.failed and recent:
            yield Wrong(
                "warn",
                "redrive_stopped",
                f"redrive {plan.id} was stopped: {plan.progress.failed:,} failed again",
                plan.ended_why or "",
                f"headgate quarantine redrive show {plan.id}",
                "dlq-redrive",
                since=plan.ended_at,
                redrive=plan.id,
                pipelines=tuple(plan.pipelines),
            )


def _replays(those: Sequence[Standing], now: datetime) -> Iterator[Wrong]:
    for one in those:
        if not one.found or (now - one.moved_at).total_seconds() >= DAY_SECONDS:
            continue
        yield Wrong(
            "bad",
            "replay_diverged",
            f"{one.pipeline}: replay {one.id} did not come out the same",
            "What is published cannot be made again from what it was made of.",
            f"headgate replay show {one.id}",
            pipeline=one.pipeline,
            since=one.moved_at,
            replay=one.id,
        )
