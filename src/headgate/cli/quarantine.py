"""`headgate quarantine`: what was set aside, and what a person decides about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.errors import UsageError

from . import show
from .asked import Asked, Group, json_option, pass_asked
from .ledger import ask

if TYPE_CHECKING:
    from headgate.pg import Database

F = TypeVar("F", bound=Callable[..., Any])
_EVERYTHING = 2**31 - 1


@click.group(cls=Group)
def quarantine() -> None:
    """What was set aside, and what to do about it.

    Nothing in quarantine is lost, and nothing in it runs by itself.
    """


def _filters(function: F) -> F:
    for option, name, text in (
        ("--reason", "reason", "Only this reason, as in validation."),
        ("--class", "classed", "Only this class, as in schema."),
        ("--pipeline", "pipeline", "Only this pipeline."),
    ):
        function = click.option(option, name, metavar="NAME", help=text)(function)
    return function


@quarantine.command("list")
@_filters
@click.option(
    "--limit", metavar="N", type=click.IntRange(1), default=50, help="At most so many. [50]"
)
@json_option
@pass_asked
def list_(
    asked: Asked,
    *,
    pipeline: str | None,
    classed: str | None,
    reason: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """What waits for a decision, the latest first."""
    rows = ask(asked.settings(), lambda db: _listed(db, pipeline, classed, reason, limit + 1))
    more, rows = len(rows) > limit, rows[:limit]
    if as_json:
        show.as_json({"entries": [dict(row) for row in rows], "more": more})
        return
    if not rows:
        click.echo(
            "Nothing is in quarantine" + (" like that." if pipeline or classed or reason else ".")
        )
        return
    show.out(_table(rows))
    if more:
        show.note(f"The latest {limit} of more: --limit shows more of them.")
    show.hints(
        f"headgate quarantine show {rows[0]['entry']}",
        f'headgate quarantine release {rows[0]["entry"]} --because "…"   # run it again',
    )


@quarantine.command("show")
@click.argument("entry", type=int)
@json_option
@pass_asked
def show_(asked: Asked, *, entry: int, as_json: bool) -> None:
    """One entry: the error, what led there, and the beginning of its data, masked."""
    import json

    from headgate.ledger.quarantine import Q

    async def question(db: Database) -> Any:
        row = await db.fetchrow(Q.show, entry)
        if row is None:
            raise _not_there([entry])
        return row

    row = dict(ask(asked.settings(), question))
    row["pipeline"] = row.pop("pipeline_name")
    if isinstance(row["failures"], str):
        row["failures"] = json.loads(row["failures"])
    if as_json:
        show.as_json(row)
        return
    show.out(
        show.facts(
            [
                ("entry", entry),
                ("pipeline", f"{row['pipeline']} (version {row['version']})"),
                ("uri", row["uri"]),
                ("class", row["class"]),
                ("reason", row["reason"]),
                ("error", show.text(row["error"], "red")),
                ("attempts", row["attempts"]),
                ("first failed", show.moment(row["first_at"])),
                ("set aside", show.moment(row["last_at"])),
                ("changed", show.moment(row["event_time"])),
                ("sha256", row["content"].hex() if row["content"] else None),
            ]
        )
    )
    if len(row["failures"]) > 1:
        show.out("", show.heading("failures"), _failures(row["failures"]))
    if row["preview"]:
        show.out("", show.heading("its data begins with"))
        for line in row["preview"].splitlines()[:8]:
            show.out(show.indented(show.text(line, limit=200)))
    show.note("")
    if row["class"] == "late":
        show.note("It came late, and its pipeline holds such until they are released:")
        show.hints('headgate quarantine release --all --class late --because "…"')
    show.hints(
        f"headgate entry explain {entry}",
        f'headgate quarantine release {entry} --because "…"   # run it again',
        f'headgate quarantine discard {entry} --because "…"   # never run it',
    )


def _decision(function: F) -> F:
    """What releasing and discarding are told alike."""
    function = json_option(function)
    function = click.option("--dry-run", is_flag=True, help="Say what would be done; do nothing.")(
        function
    )
    function = click.option(
        "--because", required=True, metavar="WHY", help="Why; it is kept with your name."
    )(function)
    function = _filters(function)
    function = click.option(
        "--all", "everything", is_flag=True, help="All that the filters leave."
    )(function)
    return click.argument("entries", metavar="ENTRY...", nargs=-1, type=int)(function)


@quarantine.command()
@_decision
@pass_asked
def release(asked: Asked, **given: Any) -> None:
    """Let entries run again from the start: fresh attempts, same key, same place in order.

    \b
    headgate quarantine release 7 9 --because "source republished"
    headgate quarantine release --all --reason validation --because "handler fixed"
    """
    _decide(asked, "release", "released", **given)


@quarantine.command()
@_decision
@pass_asked
def discard(asked: Asked, **given: Any) -> None:
    """Decide that entries will not be processed. Their rows and your reason stay.

    \b
    headgate quarantine discard 7 --because "test file"
    """
    _decide(asked, "discard", "discarded", **given)


def _decide(
    asked: Asked,
    verb: str,
    done: str,
    *,
    entries: tuple[int, ...],
    everything: bool,
    pipeline: str | None,
    classed: str | None,
    reason: str | None,
    because: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    if everything == bool(entries) or (entries and (pipeline or classed or reason)):
        raise click.UsageError("name entries, or --all with or without filters")
    if not because.strip():
        raise click.UsageError("--because is empty: say why")

    async def question(db: Database) -> list[int]:
        from headgate.ledger import quarantine as ledger

        chosen = [r["entry"] for r in await _listed(db, pipeline, classed, reason, _EVERYTHING)]
        if entries:
            if missing := sorted(set(entries) - set(chosen)):
                raise _not_there(missing)
            chosen = sorted(set(entries))
        if dry_run:
            return chosen
        act = ledger.release if verb == "release" else ledger.discard
        return await act(db, chosen, because=because)

    decided = ask(asked.settings(), question)
    if as_json:
        show.as_json({"verb": verb, "entries": decided, "dry_run": dry_run, "because": because})
        return
    word = f"would be {done}" if dry_run else done
    click.echo(f"{show.many(len(decided), 'entry', 'entries')} {word}{_named(decided)}")
    if decided and not dry_run and verb == "release":
        show.note("A running `headgate up` takes them now.")


async def _listed(
    db: Database, pipeline: str | None, classed: str | None, reason: str | None, limit: int
) -> list[Any]:
    from headgate.ledger.quarantine import Q

    return await db.fetch(Q.list, pipeline, classed, reason, limit)


def _not_there(entries: list[int]) -> UsageError:
    named = ", ".join(str(e) for e in entries)
    return UsageError(
        f"not in quarantine: {named}; nothing was changed",
        hint=f"See what became of it: headgate entry show {entries[0]}",
    )


def _named(entries: list[int]) -> str:
    if not entries:
        return ""
    shown = ", ".join(str(e) for e in entries[:20])
    return f": {shown}" + ("" if len(entries) <= 20 else ", …")


def _table(rows: list[Any]) -> Any:
    return show.table(
        ("entry", "pipeline", "class", "reason", "since", "uri and error"),
        [
            (
                row["entry"],
                row["pipeline"],
                row["class"],
                row["reason"],
                show.ago(row["last_at"]),
                f"{show.near(row['uri'])}: {row['error']}",
            )
            for row in rows
        ],
        right=("entry",),
    )


def _failures(failures: list[dict[str, Any]]) -> Any:
    from datetime import datetime

    return show.table(
        ("attempt", "at", "reason", "error"),
        [
            (f["attempt"], show.moment(datetime.fromisoformat(f["at"])), f["reason"], f["error"])
            for f in failures
        ],
        right=("attempt",),
    )
