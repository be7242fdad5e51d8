"""`headgate token`: who may ask the server for what is not signed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headgate.errors import UsageError

from . import show
from .asked import Asked, Group, json_option, pass_asked
from .ledger import ask

if TYPE_CHECKING:
    from headgate.ledger.token import Made
    from headgate.pg import Database


@click.group(cls=Group)
def token() -> None:
    """Tokens for the server: who may look, decide, take back.

    \b
    scraper   reads /metrics and /readyz, and nothing else
    viewer    reads everything that is not restricted
    operator  also decides: release, discard, redrive, reset, verify
    steward   also takes back, publishes anew, and reads what is restricted
    admin     also makes and ends tokens and sessions

    Webhooks and pushes are signed by their senders and need none. To sign in to the
    console, see headgate console.
    """


@token.command()
@click.argument("name")
@click.option(
    "--role",
    required=True,
    metavar="ROLE",
    help="What it may do: scraper, viewer, operator, steward, admin.",
)
@click.option(
    "--pipeline",
    "pipelines",
    multiple=True,
    metavar="NAME",
    help="Only for this pipeline. May be given several times. [all]",
)
@click.option("--for", "lasting", metavar="TIME", default="90d", help="How long it is good. [90d]")
@json_option
@pass_asked
def create(
    asked: Asked,
    *,
    name: str,
    role: str,
    pipelines: tuple[str, ...],
    lasting: str,
    as_json: bool,
) -> None:
    """Make a token called NAME and print it. It cannot be shown again.

    \b
    headgate token create prometheus --role scraper --for 30d
    headgate token create "night shift" --role operator --pipeline rain
    """
    from headgate.ledger import token as tokens
    from headgate.model.duration import seconds

    length = seconds(lasting, "--for")

    async def make(db: Database) -> Made:
        return await tokens.make(db, name, role, length, pipelines=pipelines or None)

    made = ask(asked.settings(), make)
    if as_json:
        limited = sorted(set(pipelines)) or None
        told = {"id": made.id, "token": made.token, "name": name, "role": role}
        show.as_json({**told, "pipelines": limited, "expires_at": made.expires_at})
        return
    click.echo(made.token)
    ends = f"{made.expires_at:%Y-%m-%d %H:%M}"
    show.note(f"Keep it now: it cannot be shown again. It ends {ends} UTC.")


@token.command("list")
@click.option("--sessions", is_flag=True, help="Also the sessions of the console.")
@json_option
@pass_asked
def list_(asked: Asked, *, sessions: bool, as_json: bool) -> None:
    """All tokens, also those that ended. The tokens themselves are not known here."""
    from headgate.ledger import token as tokens

    async def question(db: Database) -> list[Any]:
        return await tokens.listed(db, ("api", "session") if sessions else ("api",))

    rows = [dict(row) for row in ask(asked.settings(), question)]
    if as_json:
        show.as_json({"tokens": rows})
        return
    if not rows:
        click.echo("There are no tokens.")
        return
    columns = ("id", "kind", "state", "role", "pipelines", "until", "name")
    lines = [
        (
            row["id"],
            row["kind"],
            row["state"],
            row["role"],
            "all" if row["pipelines"] is None else ", ".join(row["pipelines"]),
            show.moment(row["expires_at"]),
            row["name"],
        )
        for row in rows
    ]
    show.out(show.table(columns, lines))


@token.command()
@click.argument("id")
@pass_asked
def revoke(asked: Asked, *, id: str) -> None:
    """End the token or session with this ID now, and the sessions that it opened."""
    from headgate.ledger import token as tokens

    async def end(db: Database) -> Any:
        return await tokens.revoke(db, id)

    if ask(asked.settings(), end) is None:
        raise UsageError(f"no good token has the id {id!r}", hint="headgate token list")
    click.echo(f"revoked {id}")
