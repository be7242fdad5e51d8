"""`headgate budget`: whose attempts fail too often, and the decision to go on all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from . import show
from .asked import Asked, Group, json_option, pass_asked
from .ledger import ask

if TYPE_CHECKING:
    from headgate.pg import Database


@click.group(cls=Group)
def budget() -> None:
    """Whose attempts fail too often.

    While a pipeline's error budget is spent, its retries come at the slowest pace of its plan, and
    entries cannot be released by the dozen. It recovers by itself.
    """


@budget.command("list")
@json_option
@pass_asked
def list_(asked: Asked, *, as_json: bool) -> None:
    """Failed attempts of each pipeline, and what it may spend."""
    settings = asked.settings()

    async def question(db: Database) -> list[Any]:
        from headgate.ledger.budget import Q

        return await db.fetch(Q.budgets, settings.error_budget_seconds)

    rows = ask(settings, question)
    if as_json:
        show.as_json({"share": settings.error_budget, "pipelines": [dict(row) for row in rows]})
        return
    if not rows:
        click.echo("No pipeline has run here yet.")
        return
    show.out(
        show.table(
            ("pipeline", "attempts", "failed", "share", "budget"),
            [
                (
                    row["pipeline"],
                    row["attempts"],
                    row["failed"],
                    f"{row['failed'] / row['attempts']:.1%}" if row["attempts"] else "–",
                    _state(row),
                )
                for row in rows
            ],
            right=("attempts", "failed", "share"),
        )
    )
    minutes = settings.error_budget_seconds / 60
    show.note(
        f"Of the last {minutes:g} minutes. {settings.error_budget:.0%} of the attempts may fail."
    )


def _state(row: Any) -> str:
    if row["spent_at"] is None:
        return "ok"
    if row["overridden_until"] is not None:
        return f"spent, overridden until {show.moment(row['overridden_until'])}"
    return f"spent since {show.moment(row['spent_at'])}"


@budget.command()
@click.argument("pipeline")
@click.option("--because", required=True, metavar="WHY", help="Why; it is kept with your name.")
@click.option("--for", "how_long", default="1h", metavar="TIME", help="For so long. [1h]")
@pass_asked
def override(asked: Asked, *, pipeline: str, because: str, how_long: str) -> None:
    """Go on at the usual pace for a while, though the budget is spent.

    \b
    headgate budget override rain --because "handler fixed in 1.4" --for 30m
    """
    from headgate.ledger import budget as ledger
    from headgate.model.duration import seconds

    length = seconds(how_long, "--for")
    until = ask(asked.settings(), lambda db: ledger.override(db, pipeline, length, because=because))
    click.echo(f"{pipeline} goes on at its usual pace until {show.moment(until)}")
