"""How a command ends: what it says when it fails, and its exit code.

0 it worked · 1 it failed · 2 you asked wrongly · 130 interrupted
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import click

from headgate.errors import HeadgateError, UsageError

from .asked import Asked
from .root import headgate

FAILED, WRONGLY, INTERRUPTED = 1, 2, 130


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line; its exit code. Nothing is raised."""
    asked = Asked()
    try:
        code = headgate.main(args, prog_name="headgate", standalone_mode=False, obj=asked)
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return WRONGLY
    except click.ClickException as error:
        say_error(error.format_message(), _usage(error))
        return error.exit_code
    except Exception as error:
        return _failed(error, debug=asked.debug)


def say_error(message: str, hint: str = "") -> None:
    """What happened and what to do next, on stderr."""
    click.echo(click.style("error: ", fg="red", bold=True) + message, err=True)
    if hint:
        click.echo(click.style("hint: ", bold=True) + hint, err=True)


def _failed(error: Exception, *, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exception(error)
    named = next((e for e in _leaves(error) if isinstance(e, HeadgateError)), None)
    if named is not None:
        say_error(str(named), named.hint)
        return WRONGLY if isinstance(named, UsageError) else FAILED
    first = next(_leaves(error))
    again = "" if debug else "Run it again with --debug to see where."
    say_error(f"this should not happen: {type(first).__name__}: {first}".rstrip(": "), again)
    return FAILED


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """A group of tasks wraps what its members raised; that is not what a reader wants to know."""
    if isinstance(error, BaseExceptionGroup):
        for one in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(one)
    else:
        yield error


def _usage(error: click.ClickException) -> str:
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    return f"run: {ctx.command_path} --help" if ctx is not None else ""
