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
        from headgate.ledger import watermark

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
                "streams": [
                    {
                        "stream": s.name,
                        "pipeline": s.pipeline,
                        "source": s.source,
                        "watermark": s.watermark,
                        "lag_seconds": s.lag_seconds,
                        "seen": s.seen,
                        "heard_at": s.heard_at if s.seen else None,
                        "idle": s.idle,
                        "late": s.late,
                    }
                    for s in now.streams
                ],
                "watermarks": watermark.combined(now.streams),
            }
        )
        return
    if not now.overview.pipelines:
        click.echo("No pipeline has run on this ledger yet.")
        show.hints("headgate up FILE.py")
        return
    show.out(figures.table(now.overview), "")
    figures.say_how_far(now.streams)
    last = max(
        (p.last_settled_at for p in now.overview.pipelines if p.last_settled_at), default=None
    )
    workers = show.many(now.overview.workers_alive, "worker")
    show.out(show.text(f"{workers} with a lease; last settled: {show.moment(last) or 'never'}"))
    figures.say_what_stays(now)
