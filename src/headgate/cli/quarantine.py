"""`headgate quarantine`: what was set aside, and what a person decides about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.errors import UsageError

from . import show
from .asked import Asked, Group, json_option, pass_asked
from .ledger import ask
from .redrive import redrive
from .wanted import filters, wanted

if TYPE_CHECKING:
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

    async def question(db: Database) -> list[Any]:
        from headgate.ledger.quarantine import Q

        return await db.fetch(Q.summary, *_asked(wanted(**filtered)))

    rows = ask(asked.settings(), question)
    if as_json:
        total = sum(row["entries"] for row in rows)
        show.as_json({"entries": total, "reasons": [dict(row) for row in rows]})
        return
    if not rows:
        click.echo("Nothing is in quarantine" + (" like that." if any(filtered.values()) else "."))
        return
    columns = ("entries", "pipeline", "class", "reason", "first seen", "last seen", "code", "as in")
    lines = [
        (
            f"{row['entries']:,}",
            row["pipeline"],
            row["class"],
            row["reason"],
            show.ago(row["first_at"]),
            show.ago(row["last_at"]),
            _code(row),
            row["example"],
        )
        for row in rows
    ]
    show.out(show.table(columns, lines, right=("entries", "as in")))
    show.hints(
        f"headgate quarantine show {rows[0]['example']}",
        f"headgate quarantine redrive --reason {rows[0]['reason']}"
        f" --pipeline {rows[0]['pipeline']} --dry-run",
    )


def _code(row: Any) -> str:
    """Did the code that runs now set them aside? What failed by older code may pass."""
    if not row["other_code"]:
        return "as now"
    return "older" if row["other_code"] == row["entries"] else "both"


@quarantine.command("list")
@filters
@click.option("--discarded", is_flag=True, help="What was discarded and can still come back.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(1), default=50, help="At most so many. [50]"
)
@json_option
@pass_asked
def list_(asked: Asked, *, discarded: bool, limit: int, as_json: bool, **filtered: Any) -> None:
    """What waits for a decision, the latest first."""
    of = wanted(**filtered)
    rows = ask(asked.settings(), lambda db: _listed(db, of, limit + 1, discarded=discarded))
    more, rows = len(rows) > limit, rows[:limit]
    if as_json:
        show.as_json({"entries": [dict(row) for row in rows], "more": more})
        return
    if not rows:
        there = "was discarded" if discarded else "is in quarantine"
        click.echo(f"Nothing {there}" + (" like that." if any(filtered.values()) else "."))
        return
    show.out(_discards(rows) if discarded else _table(rows))
    if more:
        show.note(f"The latest {limit} of more: --limit shows more of them.")
    first = rows[0]["entry"]
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
                ("code", _ran(row)),
                ("uri", row["uri"]),
                ("class", row["class"]),
                ("reason", row["reason"]),
                ("error", show.text(row["error"], "red")),
                ("attempts", row["attempts"]),
                ("first failed", show.moment(row["first_at"])),
                ("set aside", show.moment(row["last_at"])),
                ("changed", show.moment(row["event_time"])),
                ("sha256", row["content"].hex() if row["content"] else None),
                ("released", show.many(row["released"], "time") if row["released"] else None),
                ("redrives", ", ".join(map(str, row["redrives"])) or None),
            ]
        )
    )
    if len(row["failures"]) > 1 or row["released"]:
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


def _ran(row: Any) -> str:
    code = row["code"].hex()[:12]
    return code if row["code"] == row["code_now"] else f"{code}, another than runs now"


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

        gone = verb == "undiscard"
        found = await _listed(db, of, _EVERYTHING, discarded=gone)
        chosen = sorted(r["entry"] for r in found)
        if entries:
            if missing := sorted(set(entries) - set(chosen)):
                raise _not_there(missing, "discarded" if gone else "in quarantine")
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


def _asked(of: Wanted) -> tuple[Any, ...]:
    return of.pipeline, of.classed, of.reason, of.since


async def _listed(db: Database, of: Wanted, limit: int, *, discarded: bool = False) -> list[Any]:
    from headgate.ledger.quarantine import Q

    return await db.fetch(Q.discarded if discarded else Q.list, *_asked(of), limit)


def _not_there(entries: list[int], where: str = "in quarantine") -> UsageError:
    named = ", ".join(str(e) for e in entries)
    return UsageError(
        f"not {where}: {named}; nothing was changed",
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


def _discards(rows: list[Any]) -> Any:
    return show.table(
        ("entry", "pipeline", "reason", "discarded", "by", "because", "uri"),
        [
            (
                row["entry"],
                row["pipeline"],
                row["reason"],
                show.ago(row["at"]),
                row["actor"],
                row["because"],
                show.near(row["uri"]),
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
