"""The page of commands says what the commands say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from headgate.cli import reference
from headgate.cli.root import headgate

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def _commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        ctx = click.Context(command, info_name=path)
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            assert below is not None
            yield from _commands(below, f"{path} {name}")


def test_the_page_of_commands_is_up_to_date() -> None:
    """An option that changes changes on its page, in the same commit."""
    assert PAGE.read_text() == reference.reference_markdown(), (
        "docs/reference/cli.md is out of date; run: "
        ".venv/bin/python -m headgate.cli.reference > docs/reference/cli.md"
    )


def test_every_command_and_option_is_on_the_page() -> None:
    """Nothing that can be typed is left out, and everything says what it is for."""
    page = PAGE.read_text()
    for path, command in _commands(headgate, "headgate"):
        assert f"## {path}\n" in page, f"{path} is not documented"
        assert command.help, f"{path} has no help"
        for param in command.params:
            if isinstance(param, click.Option) and not param.hidden:
                assert all(f"{opt}" in page for opt in param.opts), f"{path} {param.opts}"
                assert param.help, f"{path} {param.opts} does not say what it is for"
