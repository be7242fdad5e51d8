"""`headgate quarantine`: what was set aside, and what a person decides about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from . import show
from .asked import Asked, Group, json_option, pass_asked
from .ledger import ask
from .redrive import redrive
from .wanted import filters, wanted

if TYPE_CHECKING:
    from headgate.ledger.quarantined import Alike, Case, Discard, Line
    from headgate.ledger.redrive import Wanted
    from headgate.pg import Database

F = TypeVar("F", bound=Callable[..., Any])
_EVERYTHING = 2**31 - 1


@click.group(cls=Group)
def quarantine() -> None:
    """What was set aside, and what to do about it.

    Nothing in quarantine is lost, and nothing in it runs by itself.
    """


quarantine.add_command(redrive)


@quarantine.command()
@filters
@json_option
@pass_asked
def summary(asked: Asked, *, as_json: bool, **filtered: Any) -> None:
    """What waits for a decision, counted by pipeline, class and reason; the most first."""

    async def question(db: Database) -> list[Alike]:
        from headgate.ledger import quarantined

        return await quarantined.summary(db, wanted(**filtered))

    rows = ask(asked.settings(), question)
    if as_json:
        total = sum(row.entries for row in rows)
        show.as_json({"entries": total, "reasons": [row.document() for row in rows]})
        return
    if not rows:
        click.echo("Nothing is in quarantine" + (" like that." if any(filtered.values()) else "."))
        return
    columns = ("entries", "pipeline", "class", "reason", "first seen", "last seen", "code", "as in")
    lines = [
        (
            f"{row.entries:,}",
            row.pipeline,
            row.classed,
            row.reason,
            show.ago(row.first_at),
            show.ago(row.last_at),
            row.code,
            row.example,
        )
        for row in rows
    ]
    show.out(show.table(columns, lines, right=("entries", "as in")))
    show.hints(
        f"headgate quarantine show {rows[0].example}",
        f"headgate quarantine redrive --reason {rows[0].reason}"
        f" --pipeline {rows[0].pipeline} --dry-run",
    )


@quarantine.command("list")
@filters
@click.option("--discarded", is_flag=True, help="What was discarded and can still come back.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(1), default=50, help="At most so many. [50]"
)
@click.option("--before", type=int, metavar="ENTRY", help="Go on below this entry.")
@json_option
@pass_asked
def list_(
    asked: Asked,
    *,
    discarded: bool,
    limit: int,
    before: int | None,
    as_json: bool,
    **filtered: Any,
) -> None:
    """What waits for a decision, the newest entry first."""
    of = wanted(**filtered)
    rows = ask(asked.settings(), lambda db: _listed(db, of, limit + 1, before, gone=discarded))
    more, rows = len(rows) > limit, rows[:limit]
    if as_json:
        show.as_json({"entries": [row.document() for row in rows], "more": more})
        return
    if not rows:
        there = "was discarded" if discarded else "is in quarantine"
        click.echo(f"Nothing {there}" + (" like that." if any(filtered.values()) else "."))
        return
    show.out(_table(rows))
    if more:
        show.note(f"There are more: --before {rows[-1].entry} shows the next {limit}.")
    first = rows[0].entry
    if discarded:
        show.hints(f'headgate quarantine undiscard {first} --because "…"   # decide again')
    else:
        show.hints(
            f"headgate quarantine show {first}",
            f'headgate quarantine release {first} --because "…"   # run it again',
        )


@quarantine.command("show")
@click.argument("entry", type=int)
@json_option
@pass_asked
def show_(asked: Asked, *, entry: int, as_json: bool) -> None:
    """One entry: the error, the code, the failures before it, and how its data begins, masked."""

    async def question(db: Database) -> Case:
        from headgate.ledger import quarantined

        if (found := await quarantined.case(db, entry)) is None:
            raise quarantined.not_there([entry])
        return found

    case = ask(asked.settings(), question)
    if as_json:
        show.as_json(case.document())
        return
    show.out(
        show.facts(
            [
                ("entry", entry),
                ("pipeline", f"{case.pipeline} (version {case.version})"),
                ("code", _ran(case)),
                ("uri", case.uri),
                ("class", case.classed),
                ("reason", case.reason),
                ("error", show.text(case.error, "red")),
                ("attempts", case.attempts),
                ("first failed", show.moment(case.first_at)),
                ("set aside", show.moment(case.last_at)),
                ("changed", show.moment(case.event_time)),
                ("sha256", case.content),
                ("released", show.many(case.released, "time") if case.released else None),
                ("redrives", ", ".join(map(str, case.redrives)) or None),
            ]
        )
    )
    if len(case.failures) > 1 or case.released:
        show.out("", show.heading("failures"), _failures(case.failures))
    if case.preview:
        show.out("", show.heading("its data begins with"))
        for line in case.preview.splitlines()[:8]:
            show.out(show.indented(show.text(line, limit=200)))
    show.note("")
    if case.classed == "late":
        show.note("It came late, and its pipeline holds such until they are released:")
        show.hints('headgate quarantine release --all --class late --because "…"')
    show.hints(
        f"headgate entry explain {entry}",
        f'headgate quarantine release {entry} --because "…"   # run it again',
        f'headgate quarantine discard {entry} --because "…"   # never run it',
    )


def _ran(case: Case) -> str:
    code = case.code[:12]
    return code if case.code == case.code_now else f"{code}, another than runs now"


def _decision(function: F) -> F:
    """What releasing, discarding and taking that back are told alike."""
    function = json_option(function)
    function = click.option("--dry-run", is_flag=True, help="Say what would be done; do nothing.")(
        function
    )
    function = click.option(
        "--because", required=True, metavar="WHY", help="Why; it is kept with your name."
    )(function)
    function = filters(function)
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

    Inside the retention it can be undone: headgate quarantine undiscard.
    """
    _decide(asked, "discard", "discarded", **given)


@quarantine.command()
@_decision
@pass_asked
def undiscard(asked: Asked, **given: Any) -> None:
    """Put discarded entries back into quarantine, as they were. That runs none of them.

    \b
    headgate quarantine list --discarded
    headgate quarantine undiscard 7 --because "it was no test file"
    """
    _decide(asked, "undiscard", "put back into quarantine", **given)


def _decide(
    asked: Asked,
    verb: str,
    done: str,
    *,
    entries: tuple[int, ...],
    everything: bool,
    because: str,
    dry_run: bool,
    as_json: bool,
    **filtered: Any,
) -> None:
    if everything == bool(entries) or (entries and any(filtered.values())):
        raise click.UsageError("name entries, or --all with or without filters")
    if not because.strip():
        raise click.UsageError("--because is empty: say why")
    of = wanted(**filtered)

    async def question(db: Database) -> list[int]:
        from headgate.ledger import quarantine as ledger
        from headgate.ledger.quarantined import not_there

        gone = verb == "undiscard"
        found = await _listed(db, of, _EVERYTHING, gone=gone)
        chosen = sorted(one.entry for one in found)
        if entries:
            if missing := sorted(set(entries) - set(chosen)):
                raise not_there(missing, "discarded" if gone else "in quarantine")
            chosen = sorted(set(entries))
        if dry_run:
            return chosen
        acts = {
            "release": ledger.release,
            "discard": ledger.discard,
            "undiscard": ledger.undiscard,
        }
        return await acts[verb](db, chosen, because=because)

    decided = ask(asked.settings(), question)
    if as_json:
        show.as_json({"verb": verb, "entries": decided, "dry_run": dry_run, "because": because})
        return
    word = f"would be {done}" if dry_run else done
    click.echo(f"{show.many(len(decided), 'entry', 'entries')} {word}{_named(decided)}")
    if decided and not dry_run and verb == "release":
        show.note("A running `headgate up` takes them now.")


async def _listed(
    db: Database, of: Wanted, limit: int, before: int | None = None, *, gone: bool
) -> Sequence[Line | Discard]:
    from headgate.ledger import quarantined

    if gone:
        return await quarantined.discards(db, of, limit=limit, before=before)
    return await quarantined.listed(db, of, limit=limit, before=before)


def _named(entries: list[int]) -> str:
    if not entries:
        return ""
    shown = ", ".join(str(e) for e in entries[:20])
    return f": {shown}" + ("" if len(entries) <= 20 else ", …")


def _table(rows: Sequence[Line | Discard]) -> Any:
    from headgate.ledger.quarantined import Discard, Line

    if kept := [row for row in rows if isinstance(row, Line)]:
        return show.table(
            ("entry", "pipeline", "class", "reason", "since", "uri and error"),
            [
                (
                    row.entry,
                    row.pipeline,
                    row.classed,
                    row.reason,
                    show.ago(row.last_at),
                    f"{show.near(row.uri)}: {row.error}",
                )
                for row in kept
            ],
            right=("entry",),
        )
    return show.table(
        ("entry", "pipeline", "reason", "discarded", "by", "because", "uri"),
        [
            (
                row.entry,
                row.pipeline,
                row.reason,
                show.ago(row.at),
                row.actor,
                row.because,
                show.near(row.uri),
            )
            for row in rows
            if isinstance(row, Discard)
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
