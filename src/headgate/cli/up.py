"""`headgate up`: run pipelines until they are stopped, or until there is nothing left to do."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from . import figures, show
from .asked import Asked, Command, pass_asked
from .ledger import ask

if TYPE_CHECKING:
    from headgate.pg import Database
    from headgate.runtime.supervise import Tick
    from headgate.settings import Settings


@click.command(cls=Command)
@click.argument("targets", metavar="TARGET...", nargs=-1, required=True)
@click.option("--until-idle", is_flag=True, help="Stop when there is nothing left to do.")
@click.option(
    "--max-wait",
    "max_wait_seconds",
    metavar="TIME",
    help="How long --until-idle waits for a due retry, or for a source that is away. [60s]",
)
@click.option("--workers", metavar="N", help="Worker processes.")
@click.option("--concurrency", metavar="N", help="Handlers that run at once in a worker.")
@click.option("--serve", is_flag=True, default=None, help="Serve the console and the API too.")
@click.option("--metrics-port", metavar="PORT", help="Serve Prometheus metrics there.")
@click.option("--log-format", metavar="auto|human|json", help="How logs are written.")
@click.option("--log-level", metavar="LEVEL", help="The least that is logged.")
@pass_asked
def up(asked: Asked, *, targets: tuple[str, ...], until_idle: bool, **options: Any) -> None:
    """Run pipelines: watch their sources, work, sweep.

    TARGET is a file (rain.py), a folder of files, or package.module:pipeline. Without a
    database of yours a PostgreSQL server is embedded under .headgate.

    Ctrl-C or SIGTERM lets running handlers finish and gives back the rest; a second one
    stops at once. Nothing is lost either way.
    """
    settings = asked.settings(**options)
    live = sys.stderr.isatty() and settings.log_format == "auto"
    with ExitStack() as stack:
        _run(settings, targets, stack, until_idle=until_idle, live=live)
    if until_idle:
        now = ask(settings, figures.standing)
        show.out(figures.table(now.overview))
        figures.say_what_stays(now)


def _run(
    settings: Settings, targets: tuple[str, ...], stack: ExitStack, *, until_idle: bool, live: bool
) -> None:
    from headgate.runtime.nest import Nest

    nest = Nest()
    nest.fork()  # while there is nothing of ours to be copied: no thread, no connection
    stack.enter_context(nest)
    from headgate.runtime.loop import run
    from headgate.runtime.supervise import up as supervise
    from headgate.telemetry.log import configure
    from headgate.telemetry.metrics import Metrics

    metrics = None
    if settings.metrics_port:
        metrics = Metrics(settings.env)
        server = metrics.serve(settings.metrics_host, settings.metrics_port)
        stack.callback(server.close)
        show.note(f"Metrics are served on {server.url}")
    if live and settings.serve and settings.serve_port:
        from .console import address

        show.note(f"The console is at {address(settings)}; `headgate console` signs you in.")
    # On a terminal the numbers tell how it goes; only what needs attention is said beside them.
    level = "warning" if live and settings.origin("log_level") == "default" else settings.log_level
    log_to = ("human" if live else settings.log_format, level)
    tick = _watch(stack, keep=not until_idle) if live else None
    configure(log_to[0], level)  # pyright: ignore[reportArgumentType]
    crash_at = "#".join(str(part) for part in settings.crash) if settings.crash else ""
    run(
        lambda: supervise(
            targets,
            settings.ledger(),
            settings.tuning(),
            until_idle=until_idle,
            metrics=metrics,
            log_to=log_to,
            crash_at=crash_at,
            on_tick=tick,
            nest=nest,
        )
    )


def _watch(stack: ExitStack, *, keep: bool) -> Tick:
    """A view of the counts, redrawn with every tick of the supervisor."""
    from .live import view

    update = stack.enter_context(view(keep=keep))
    update(show.text("Starting…"))

    async def tick(db: Database) -> None:
        from headgate.ledger import history

        update(figures.table(await history.overview(db)))

    return tick
