"""What needs a person, the worst first, each with the way out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from headgate.ledger import budget, quarantine, redrive, slo
from headgate.ledger.flow import StreamNow
from headgate.ledger.redrive import Redrive
from headgate.model.slo import Slo, SloStanding
from headgate.pg import Database, Record

from .page import with_query
from .words import ago, many, span

SLO_NAMES: dict[Slo, str] = {
    "duplicates": "duplicates",
    "double_applies": "double applies",
    "latency": "latency",
    "dead_letters": "dead letters",
}
Severity = Literal["bad", "warn"]


@dataclass(frozen=True, slots=True)
class Way:
    """A way out: a page of the console."""

    name: str
    href: str


@dataclass(frozen=True, slots=True)
class Wrong:
    """One thing that is wrong. `run` does the same in a terminal."""

    severity: Severity
    what: str
    why: str = ""
    ways: list[Way] = field(default_factory=list[Way])
    run: str = ""
    pipelines: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """Its severity as people say it."""
        return "Act" if self.severity == "bad" else "Look"


async def look(
    db: Database,
    standing: Sequence[StreamNow],
    levels: Sequence[SloStanding],
    workers: int,
    now: datetime,
    window_seconds: float,
) -> list[Wrong]:
    """Everything that is wrong now. What is bad comes before what is only worth a look."""
    found = [
        *_nobody_works(standing, workers),
        *_levels(levels),
        *_budgets(await db.fetch(budget.Q.budgets, window_seconds), now),
        *_redrives(await redrive.redrives(db, limit=10), now),
        *_aside(await db.fetch(quarantine.Q.counts)),
    ]
    return sorted(found, key=lambda wrong: wrong.severity != "bad")


def _nobody_works(standing: Sequence[StreamNow], workers: int) -> Iterator[Wrong]:
    ready = sum(one.ready for one in standing)
    if ready and not workers:
        yield Wrong(
            "bad",
            f"{many(ready, 'entry', 'entries')} could be worked on, and no worker is alive",
            "Nothing is lost: work goes on where it stopped as soon as there is one.",
            run="headgate up FILE.py",
        )


def _levels(levels: Sequence[SloStanding]) -> Iterator[Wrong]:
    for level in slo.worst(levels):
        if level.state not in ("spent", "burning"):
            continue
        # Repeated deliveries cost time and do no harm; whoever is asleep may stay so.
        bad = level.state == "spent" and level.slo != "duplicates"
        fast = max(level.burn.values(), default=0.0)
        yield Wrong(
            "bad" if bad else "warn",
            f"{level.pipeline}: {SLO_NAMES[level.slo]}: the budget "
            + ("is spent" if level.state == "spent" else f"burns at {fast:.0f} times its pace"),
            f"Promised: {level.promise}. In {span(level.window_seconds)} it was"
            f" {level.bad:,.0f} of {level.total:,.0f}.",
            [Way(f"See {level.pipeline}", f"/pipelines/{level.pipeline}")],
            f"headgate slo --pipeline {level.pipeline}",
            (level.pipeline,),
        )


def _budgets(rows: Sequence[Record], now: datetime) -> Iterator[Wrong]:
    for row in rows:
        name = row["pipeline"]
        if row["spent_at"] is None:
            continue
        over = row["overridden_until"]
        said = f"{row['failed']:,} of the last {row['attempts']:,} attempts failed."
        if over is not None:
            yield Wrong(
                "warn",
                f"{name}: its error budget is spent, and overridden",
                f"{said} The override ends {ago(over, now)}.",
                [Way(f"See {name}", f"/pipelines/{name}")],
                pipelines=(name,),
            )
            continue
        yield Wrong(
            "bad",
            f"{name}: its error budget is spent since {ago(row['spent_at'], now)}",
            f"{said} Retries are slowed down, and no redrive begins.",
            [
                Way("See what fails", with_query("/quarantine", pipeline=name)),
                Way("Override it", f"/pipelines/{name}#budget"),
            ],
            f'headgate budget override {name} --because "…"',
            (name,),
        )


def _redrives(plans: Sequence[Redrive], now: datetime) -> Iterator[Wrong]:
    for plan in plans:
        way = [Way(f"See redrive {plan.id}", f"/redrives/{plan.id}")]
        if plan.state == "paused":
            yield Wrong(
                "warn",
                f"Redrive {plan.id} is paused",
                f"{many(plan.progress.left, 'entry', 'entries')} wait for it to go on.",
                way,
                f'headgate quarantine redrive resume {plan.id} --because "…"',
                tuple(plan.pipelines),
            )
        recent = plan.ended_at is not None and (now - plan.ended_at).total_seconds() < 86_400
        if plan.state == "stopped" and plan.progress.failed and recent:
            yield Wrong(
                "warn",
                f"Redrive {plan.id} was stopped: {plan.progress.failed:,} failed again",
                plan.ended_why or "",
                way,
                pipelines=tuple(plan.pipelines),
            )


def _aside(rows: Sequence[Record]) -> Iterator[Wrong]:
    for row in sorted(rows, key=lambda r: -r["entries"]):
        name, classed, reason = row["pipeline"], row["class"], row["reason"]
        said = reason if reason == classed else f"{reason} ({classed})"
        these = with_query("/quarantine", pipeline=name, **{"class": classed}, reason=reason)
        yield Wrong(
            "bad" if classed in ("exhausted", "care", "conflict") else "warn",
            f"{name}: {many(row['entries'], 'entry', 'entries')} in quarantine for {said}",
            "They wait for a decision; nothing runs by itself.",
            [Way("Look and decide", these)],
            f"headgate quarantine list --pipeline {name} --reason {reason}",
            (name,),
        )
