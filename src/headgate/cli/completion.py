"""`headgate completion`: what a shell needs to complete our commands."""

from __future__ import annotations

import click

from .asked import Command


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash   eval "$(headgate completion bash)"      in ~/.bashrc
    zsh    eval "$(headgate completion zsh)"       in ~/.zshrc
    fish   headgate completion fish > ~/.config/fish/completions/headgate.fish
    """
    from click.shell_completion import get_completion_class

    from .root import headgate

    kind = get_completion_class(shell)
    assert kind is not None, "click knows the shells of the Choice"
    click.echo(kind(headgate, {}, "headgate", "_HEADGATE_COMPLETE").source())
