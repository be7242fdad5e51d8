"""`headgate status`: where everything stands."""

from __future__ import annotations

import click

from . import figures, show
from .asked import Asked, Command, json_option, pass_asked
from .ledger import ask


@click.command(cls=Command)
@json_option
@pass_asked
def status(asked: Asked, *, as_json: bool) -> None:
    """What arrived, what became of it, and what stays to be done."""
    now = ask(asked.settings(), figures.standing)
    if as_json:
        show.as_json(
            {
                "pipelines": now.overview.pipelines,
                "workers_alive": now.overview.workers_alive,
                "next_due": {one.pipeline: one.next_due for one in now.resting},
                "quarantine": [
                    {
                        "pipeline": a.pipeline,
                        "class": a.classed,
                        "reason": a.reason,
                        "entries": a.entries,
                    }
                    for a in now.aside
                ],
            }
        )
        return
    if not now.overview.pipelines:
        click.echo("No pipeline has run on this ledger yet.")
        show.hints("headgate up FILE.py")
        return
    show.out(figures.table(now.overview), "")
    last = max(
        (p.last_settled_at for p in now.overview.pipelines if p.last_settled_at), default=None
    )
    workers = show.many(now.overview.workers_alive, "worker")
    show.out(show.text(f"{workers} with a lease; last settled: {show.moment(last) or 'never'}"))
    figures.say_what_stays(now)
