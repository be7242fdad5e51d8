"""`headgate run`: everything about one attempt, as files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate.errors import UsageError

from . import show
from .asked import Asked, Group, json_option, pass_asked
from .ledger import ask

if TYPE_CHECKING:
    from headgate.model.facts import Facts
    from headgate.pg import Database

RUN = re.compile(r"(\d+)(?:-(\d+))?")


@click.group(cls=Group)
def run() -> None:
    """One attempt at one entry: what went in, what came out, what was checked.

    A run is called ENTRY-FENCE, as in 12-1. Its files are made from the ledger when they are
    asked for, so they are there for every run: also one that changed nothing.
    """


@run.command("show")
@click.argument("which", metavar="RUN|ENTRY")
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--to", metavar="FOLDER", type=click.Path(path_type=Path), help="Write them here.")
@json_option
@pass_asked
def show_(asked: Asked, *, which: str, file: str | None, to: Path | None, as_json: bool) -> None:
    """The files of a run: one of them, or their names. Of an entry it is the last run.

    \b
    headgate run show 12                   # which files there are
    headgate run show 12-1 summary.md      # one of them
    headgate run show 12-1 --to /tmp/run   # all of them, in a folder
    """
    if file is not None and (to is not None or as_json):
        raise click.UsageError("name a file, or say --to or --json: these are of all files")
    facts = ask(asked.settings(), lambda db: _find(db, which))
    from headgate.catalog.run import files

    made = files(facts)
    if file is not None:
        click.echo(_named(file, made, facts), nl=False)
    elif as_json:
        show.as_json({"run": facts.run, "files": {n: c.decode() for n, c in made.items()}})
    elif to is not None:
        to.mkdir(parents=True, exist_ok=True)
        for name, content in made.items():
            (to / name).write_bytes(content)
        click.echo(f"{show.many(len(made), 'file')} of run {facts.run} in {to}")
    else:
        _list(facts, made)


async def _find(db: Database, which: str) -> Facts:
    from headgate.ledger import facts as ledger

    asked = RUN.fullmatch(which)
    if asked is None:
        raise click.UsageError(f"{which!r} is neither a run (12-1) nor an entry (12)")
    entry, fence = int(asked[1]), asked[2] and int(asked[2])
    runs = await ledger.of_entry(db, entry)
    found = [facts for facts in runs if fence is None or facts.fence == fence]
    if found:
        return found[-1]
    if runs:
        named = ", ".join(dict.fromkeys(facts.run for facts in runs))
        raise UsageError(f"entry {entry} has no run {which}", hint=f"It has: {named}")
    raise UsageError(
        f"entry {entry} has not been tried, or there is none",
        hint=f"See where it is: headgate entry show {entry}",
    )


def _named(file: str, made: dict[str, bytes], facts: Facts) -> str:
    if file not in made:
        raise UsageError(f"run {facts.run} has no {file}", hint=f"It has: {', '.join(made)}")
    return made[file].decode()


def _list(facts: Facts, made: dict[str, bytes]) -> None:
    ended = facts.outcome if facts.reason is None else f"{facts.outcome}: {facts.reason}"
    show.out(show.heading(f"run {facts.run} of {facts.pipeline}: {ended}"))
    show.out(show.text(show.near(facts.envelope.uri), "dim"), "")
    rows = [(name, show.size(len(content))) for name, content in made.items()]
    show.out(show.table(("file", "size"), rows, right=("size",)))
    show.note("")
    show.hints(f"headgate run show {facts.run} summary.md")
