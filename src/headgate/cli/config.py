"""`headgate config`: what the settings are, and who set them."""

from __future__ import annotations

import click

from . import show
from .asked import Asked, Group, json_option, pass_asked


@click.group(cls=Group)
def config() -> None:
    """Show the settings and who set them."""


@config.command("show")
@json_option
@pass_asked
def show_settings(asked: Asked, *, as_json: bool) -> None:
    """Every setting: its value, with passwords masked, and where it came from.

    The first that says something wins: an option, the environment, headgate.toml,
    pyproject.toml, the default.
    """
    from headgate.settings.table import plain

    rows = list(asked.settings().rows())
    if as_json:
        show.as_json({row.name: row._asdict() for row in rows})
        return
    show.out(
        show.table(
            ("setting", "value", "from"),
            [
                (
                    row.name,
                    plain(row.value),
                    show.text(row.origin, "dim" if row.origin == "default" else ""),
                )
                for row in rows
            ],
        )
    )
    show.note("Set one with its variable, as in HEADGATE_WORKERS=4, or in headgate.toml.")
