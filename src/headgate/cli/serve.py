"""`headgate serve`: the console, the API, the catalog, webhooks and pushes."""

from __future__ import annotations

import click

from . import show
from .asked import Asked, Command, pass_asked


@click.command(cls=Command)
@click.argument("targets", metavar="[TARGET...]", nargs=-1)
@click.option("--host", "serve_host", metavar="HOST", help="The address to listen on. [127.0.0.1]")
@click.option("--port", "serve_port", metavar="PORT", help="The port; 0 is any free one. [8420]")
@click.option("--log-format", metavar="auto|human|json", help="How logs are written.")
@click.option("--log-level", metavar="LEVEL", help="The least that is logged.")
@pass_asked
def serve(asked: Asked, *, targets: tuple[str, ...], **options: str | None) -> None:
    """Serve the console, the API, the catalog, webhooks and pushes; work is left to `headgate up`.

    TARGET is a file (orders.py), a folder of files, or package.module:pipeline: those whose
    webhooks and pushes are taken in, and whose replays can be started here. Without a TARGET,
    what the ledger holds is served: the console at /, the API at /v1, the catalog at /stac.
    `headgate up --serve` does all this beside its workers.

    Only this machine is listened to, unless --host says otherwise. A call is acknowledged once
    it is durable in the ledger.
    """
    from headgate.runtime.loop import run
    from headgate.runtime.nest import Nest
    from headgate.runtime.supervise import up
    from headgate.telemetry.log import configure

    settings = asked.settings(**options)
    log_to = (settings.log_format, settings.log_level)
    configure(log_to[0], log_to[1])  # pyright: ignore[reportArgumentType]
    if settings.serve_host not in ("127.0.0.1", "::1", "localhost"):
        show.note(
            f"Listening on {settings.serve_host}, without TLS: put a proxy that does TLS in front."
        )
    crash_at = "#".join(str(part) for part in settings.crash) if settings.crash else ""
    nest = Nest()
    nest.fork()
    run(
        lambda: up(
            targets,
            settings.ledger(),
            settings.tuning(),
            log_to=log_to,
            crash_at=crash_at,
            serve_only=True,
            nest=nest,
        )
    )
