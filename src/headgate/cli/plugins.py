"""`headgate plugins`: what other distributions bring along, and whether it can be used."""

from __future__ import annotations

import click

from . import show
from .asked import Command, json_option


@click.command(cls=Command)
@json_option
@click.pass_context
def plugins(ctx: click.Context, *, as_json: bool) -> None:
    """List installed sources, sinks and stores of others.

    Each is imported to see whether it can be used. Exit code 1 when one cannot.
    """
    from headgate.errors import ConfigError
    from headgate.plugins import installed

    found: list[dict[str, str | None]] = []
    for plugin in installed():
        problem = None
        try:
            plugin.load()
        except ConfigError as error:
            problem = str(error)
        said = {"kind": plugin.kind, "name": plugin.name, "from": plugin.distribution}
        found.append({**said, "is": plugin.value, "problem": problem})
    if as_json:
        show.as_json({"plugins": found})
    elif found:
        rows = [(p["kind"], p["name"], p["from"], _state(p["problem"])) for p in found]
        show.out(show.table(("kind", "name", "from", "state"), rows))
    else:
        show.note("No plugins are installed.")
    ctx.exit(1 if any(p["problem"] for p in found) else 0)


def _state(problem: str | None) -> object:
    return show.text(problem or "ok", show.COLOURS["fail" if problem else "ok"])
