"""The reference page, written from the commands themselves so that it cannot say anything else.

python -m headgate.cli.reference > docs/reference/cli.md
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator

import click

from .root import headgate

INTRODUCTION = """\
# Commands

Tables are for people, `--json` is for programs: JSON goes to stdout, words about it to stderr.

| exit code | means |
|---|---|
| 0 | it worked |
| 1 | it failed |
| 2 | you asked wrongly; nothing was changed |
| 130 | interrupted |

The options of `headgate` itself may also stand behind a command, as in
`headgate status --home DIR`. Every other way to set something is in [Settings](settings.md).
"""


def reference_markdown() -> str:
    """The whole page."""
    ctx = click.Context(headgate, info_name="headgate", **headgate.context_settings)
    parts = [INTRODUCTION, "## headgate\n", *_options(headgate, ctx)]
    for section in headgate.sections.values():
        for name in section:
            parts += _command(headgate.get_command(ctx, name), name, ctx)
    return "\n".join(parts).rstrip() + "\n"


def _command(command: click.Command | None, name: str, parent: click.Context) -> Iterator[str]:
    assert command is not None, f"{name} is in the table"
    ctx = click.Context(command, info_name=name, parent=parent)
    yield f"## {ctx.command_path}\n"
    yield f"```text\n{ctx.command_path} {' '.join(command.collect_usage_pieces(ctx))}\n```\n"
    yield _prose(command.help or "")
    yield from _options(command, ctx)
    if isinstance(command, click.Group):
        for verb in command.list_commands(ctx):
            yield from _command(command.get_command(ctx, verb), verb, ctx)


def _prose(text: str) -> str:
    """Help as Markdown: a block that click must not fold is an example."""
    paragraphs: list[str] = []
    for part in inspect.cleandoc(text).split("\n\n"):
        if part.startswith("\b"):
            paragraphs.append(f"```text\n{part.removeprefix(chr(8)).strip(chr(10))}\n```")
        else:
            paragraphs.append(part.strip())
    return "\n\n".join(paragraphs) + "\n"


def _options(command: click.Command, ctx: click.Context) -> Iterator[str]:
    records = [
        record
        for param in command.get_params(ctx)
        if isinstance(param, click.Option) and "--help" not in param.opts
        if (record := param.get_help_record(ctx)) is not None
    ]
    for said, text in records:
        yield f"`{said}`\n: {' '.join(text.split())}\n"


if __name__ == "__main__":
    sys.stdout.write(reference_markdown())
