"""`headgate slo`: what is promised about the work, and how much may still go wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from . import show
from .asked import Asked, Command, json_option, pass_asked
from .ledger import ask

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from headgate.model.slo import SloStanding

COLUMNS = ("pipeline", "service level", "happened", "bad", "share", "burn 1h", "budget left", "")
_STYLES = {"ok": "green", "burning": "yellow", "spent": "red", "no data": "dim"}


@click.command(cls=Command)
@click.option("--pipeline", metavar="NAME", help="Only of this pipeline.")
@json_option
@pass_asked
def slo(asked: Asked, *, pipeline: str | None, as_json: bool) -> None:
    """Service levels and their error budgets, what is wrong first.

    Counted by the ledger over the last 30 days: repeated deliveries, entries that were applied
    twice (there is no budget for that), slow entries, and what ended in quarantine. The settings
    slo_… say what is promised.
    """
    settings = asked.settings()
    targets = settings.tuning().targets
    from headgate.ledger import slo as ledger

    standing = ask(settings, lambda db: ledger.standing(db, targets, pipeline=pipeline))
    if as_json:
        show.as_json({"targets": targets, "slos": standing})
        return
    if not standing:
        said = "No pipeline has run here yet." if pipeline is None else f"No pipeline {pipeline!r}."
        click.echo(said)
        return
    ordered = ledger.worst(standing)
    show.out(table(ordered))
    say_what_is_wrong(ordered)
    days = targets.window_seconds / 86_400
    show.note(f"Of the last {days:g} days. A budget that burns at 1 lasts as long as that.")


def table(standing: list[SloStanding]) -> Table:
    """A line for each promise to each pipeline."""
    rows: list[list[object]] = []
    for s in standing:
        share = "–" if s.share is None else f"{s.share:.2%}"
        burn = f"{s.burn['1h']:.1f}" if s.burn and s.total else "–"
        happened = f"{s.total:,.0f}", f"{s.bad:,.0f}", share, burn
        state = show.text(s.state, _STYLES[s.state])
        rows.append([s.pipeline, s.promise, *happened, left(s), state])
    return show.table(COLUMNS, rows, right=COLUMNS[2:7])


def left(s: SloStanding) -> Text:
    """How much of a budget is left, in words that a colour only repeats."""
    if s.state == "no data":
        return show.text("–", "dim")
    if not s.allowed:
        return show.text("kept" if not s.bad else "broken", _STYLES[s.state])
    return show.text(f"{max(s.budget_left, -9.99):.0%}", _STYLES[s.state])


def say_what_is_wrong(standing: list[SloStanding]) -> None:
    """What to do about promises that are not kept, once each."""
    from headgate.model.slo import ADVICE

    wrong = {s.slo for s in standing if s.state in ("spent", "burning")}
    if wrong:
        show.note("Look into it:")
        advice = (ADVICE[slo] for slo in ADVICE if slo in wrong)
        show.hints(*(f"{run}   # runbook {page}" for run, page in advice))
