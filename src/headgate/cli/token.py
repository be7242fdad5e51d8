"""`headgate token`: who may ask the server for what is not signed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headgate.errors import UsageError

from . import show
from .asked import Asked, Group, json_option, pass_asked
from .ledger import ask

if TYPE_CHECKING:
    from headgate.pg import Database


@click.group(cls=Group)
def token() -> None:
    """Tokens for the server: who may read metrics and requests.

    Webhooks and pushes are signed by their senders and need none.
    """


@token.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    metavar="SCOPE",
    help="What it is for: metrics, read. May be given several times.",
)
@click.option("--expires", metavar="TIME", default="90d", help="How long it is good. [90d]")
@json_option
@pass_asked
def create(
    asked: Asked, *, name: str, scopes: tuple[str, ...], expires: str, as_json: bool
) -> None:
    """Make a token called NAME and print it. It cannot be shown again."""
    from headgate.ledger import token as tokens
    from headgate.model.duration import seconds

    lasting = seconds(expires, "--expires")

    async def make(db: Database) -> Any:
        return await tokens.make(db, name, scopes, lasting)

    made, ends = ask(asked.settings(), make)
    if as_json:
        show.as_json({"token": made, "name": name, "scopes": sorted(scopes), "expires_at": ends})
        return
    click.echo(made)
    show.note(f"Keep it now: it cannot be shown again. It ends {ends:%Y-%m-%d %H:%M} UTC.")


@token.command("list")
@json_option
@pass_asked
def list_(asked: Asked, *, as_json: bool) -> None:
    """All tokens, also those that ended. The tokens themselves are not known here."""
    from headgate.ledger import token as tokens

    rows = [dict(row) for row in ask(asked.settings(), tokens.listed)]
    for row in rows:
        ended = "expired" if row.pop("expired") else "good"
        row["state"] = "revoked" if row["revoked_at"] is not None else ended
    if as_json:
        show.as_json({"tokens": rows})
        return
    if not rows:
        click.echo("There are no tokens.")
        return
    for row in rows:
        scopes = ",".join(row["scopes"])
        ends = f"{row['expires_at']:%Y-%m-%d %H:%M}"
        click.echo(f"{row['id']}  {row['state']:8}  {scopes:14}  until {ends}  {row['name']}")


@token.command()
@click.argument("id")
@pass_asked
def revoke(asked: Asked, *, id: str) -> None:
    """End the token with this ID now."""
    from headgate.ledger import token as tokens

    async def end(db: Database) -> bool:
        return await tokens.revoke(db, id)

    if not ask(asked.settings(), end):
        raise UsageError(f"no good token has the id {id!r}", hint="headgate token list")
    click.echo(f"revoked {id}")
