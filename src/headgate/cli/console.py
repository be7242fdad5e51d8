"""`headgate console`: a link to sign in to the console, good once."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING

import click

from headgate.errors import UsageError

from . import show
from .asked import Asked, Command, json_option, pass_asked
from .ledger import ask

if TYPE_CHECKING:
    from headgate.ledger.token import Made
    from headgate.pg import Database
    from headgate.settings import Settings

ANSWER_SECONDS = 1.0


@click.command(cls=Command)
@click.option(
    "--role",
    metavar="ROLE",
    default="admin",
    help="What you may do there: viewer, operator, steward, admin. [admin]",
)
@json_option
@pass_asked
def console(asked: Asked, *, role: str, as_json: bool) -> None:
    """Print a link that signs you in to the console. It is good once, for two minutes.

    Whoever can use the ledger's database is trusted with that. The console is served by
    `headgate serve`, and by `headgate up` beside the workers.
    """
    from headgate.ledger import token as tokens

    settings = asked.settings()

    async def make(db: Database) -> Made:
        name = getpass.getuser()
        return await tokens.make(db, name, role, tokens.TICKET_SECONDS, kind="ticket")

    where = address(settings)
    made = ask(settings, make)
    link = f"{where}/login?ticket={made.token}"
    if as_json:
        show.as_json({"url": link, "role": role, "expires_at": made.expires_at})
        return
    click.echo(link)
    show.note(f"It signs in one browser as {role}, within two minutes.")
    if not settings.serve_url and not _answers(where):
        show.note("Nothing answers there now. Start it in the meantime:")
        show.hints("headgate serve")


def address(settings: Settings) -> str:
    """Where the console is served."""
    if settings.serve_url:
        return settings.serve_url
    if not settings.serve_port:
        raise UsageError(
            "the port of the server is any free one, so nobody here knows it",
            hint="Set it: HEADGATE_SERVE_PORT; or where it is reached: HEADGATE_SERVE_URL.",
        )
    every = settings.serve_host in ("0.0.0.0", "::")
    host = "127.0.0.1" if every else settings.serve_host
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.serve_port}"


def _answers(where: str) -> bool:
    import socket
    from urllib.parse import urlsplit

    at = urlsplit(where)
    try:
        with socket.create_connection((at.hostname or "", at.port or 80), ANSWER_SECONDS):
            return True
    except OSError:
        return False
