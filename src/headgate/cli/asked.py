"""What every command can be told: where the ledger is, and how much to say when something fails.

These options stand before the command or after it; the last one wins. They are listed once, in
`headgate --help`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from headgate.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: dict[str, dict[str, Any]] = {
    "--home": {
        "metavar": "FOLDER",
        "help": "Where Headgate keeps what is its own. [.headgate]",
    },
    "--database-url": {
        "metavar": "URL",
        "help": "The ledger's server. Others on this machine can read it in the process list: "
        "prefer HEADGATE_DATABASE_URL.",
    },
    "--schema": {"metavar": "NAME", "help": "The schema the ledger lives in. [headgate]"},
    "--debug": {"is_flag": True, "help": "Show the traceback of what fails."},
}


@dataclass(slots=True)
class Asked:
    """What the command line said, beside the command's own options."""

    overrides: dict[str, object] = field(default_factory=dict[str, object])
    debug: bool = False

    def settings(self, **options: object) -> Settings:
        """The settings that count for this command; an option that is None was not given."""
        from headgate.settings import Settings

        return Settings.load({**self.overrides, **options})


def shared_options(*, hidden: bool) -> list[click.Parameter]:
    """Fresh copies of the options above."""
    return [
        click.Option([name], hidden=hidden, expose_value=False, callback=_note, **options)
        for name, options in _OPTIONS.items()
    ]


def _note(ctx: click.Context, param: click.Parameter, value: object) -> None:
    asked = ctx.ensure_object(Asked)
    if param.name == "debug":
        asked.debug = asked.debug or bool(value)
    elif value is not None:
        asked.overrides[param.name] = value


class Command(click.Command):
    """A command that takes the shared options too."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params += shared_options(hidden=True)


class Group(click.Group):
    """A noun; its verbs take the shared options too."""

    command_class = Command


def json_option(function: F) -> F:
    """`--json`, for a command that answers something."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(
        function
    )


pass_asked = click.make_pass_decorator(Asked, ensure=True)
