"""A group that knows its commands by a table and imports one only when it is used.

The table also holds the line that the group's help shows, so that showing it imports nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast

import click


class Place(NamedTuple):
    """Where a command is, as `module:attribute`, and what it is for."""

    target: str
    help: str


Sections = Mapping[str, Mapping[str, Place]]


class LazyGroup(click.Group):
    """A group over a table of sections."""

    def __init__(self, *, sections: Sections, **options: Any) -> None:
        super().__init__(**options)
        self.sections = sections
        self._places = {name: at for table in sections.values() for name, at in table.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self._places and cmd_name not in self.commands:
            at = self._places[cmd_name]
            module, _, attribute = at.target.partition(":")
            command = cast("click.Command", getattr(import_module(module), attribute))
            command.short_help = at.help
            self.commands[cmd_name] = command
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(name) for name in self._places)
        for title, table in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), at.help) for name, at in table.items()])
