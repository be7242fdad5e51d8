"""`headgate entry`: what we did about each change, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headgate.errors import UsageError

from . import show
from .asked import Asked, Command, Group, json_option, pass_asked
from .ledger import ask

if TYPE_CHECKING:
    from datetime import datetime

    from headgate.ledger.history import EntryState, Life, Statement
    from headgate.ledger.reset import How
    from headgate.ledger.stretches import Page
    from headgate.pg import Database

STATUSES = ("received", "claimed", "waiting", "quarantined", "finalized", "skipped", "rolled_back")


@click.group(cls=Group)
def entry() -> None:
    """What we did about each change, and why.

    An entry is found by its number, its key or the beginning of it, a line of its journal
    (12/3), its uri, or the path of its file.
    """


@entry.command("list")
@click.option("--pipeline", metavar="NAME", help="Only this pipeline.")
@click.option("--status", type=click.Choice(STATUSES), help="Only what is there now.")
@click.option("--uri", metavar="TEXT", help="Only uris that contain this; * is any text.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(1), default=50, help="At most so many. [50]"
)
@click.option("--before", type=int, metavar="ENTRY", help="Go on below this entry.")
@json_option
@pass_asked
def list_(
    asked: Asked,
    *,
    pipeline: str | None,
    status: str | None,
    uri: str | None,
    limit: int,
    before: int | None,
    as_json: bool,
) -> None:
    """Entries, the newest first."""

    async def question(db: Database) -> Page[EntryState]:
        from headgate.ledger.entries import containing, entries

        return await entries(
            db,
            pipelines=None if pipeline is None else [pipeline],
            status=status,
            uri_like=None if uri is None else containing(uri),
            limit=limit,
            before=before,
            effort=None,
        )

    page = ask(asked.settings(), question)
    found, more = page.rows, page.more
    if as_json:
        show.as_json({"entries": found, "more": more})
        return
    if not found:
        click.echo("There are no such entries.")
        return
    show.out(_table(found))
    if more:
        show.note(f"There are more: --before {found[-1].entry} shows the next {limit}.")


@entry.command("show")
@click.argument("which", metavar="ENTRY")
@json_option
@pass_asked
def show_(asked: Asked, *, which: str, as_json: bool) -> None:
    """Everything the ledger knows about one entry."""

    async def question(db: Database) -> Life:
        from headgate.ledger import history

        known = await history.life(db, (await find(db, which)).entry)
        assert known is not None, "entries are never deleted"
        return known

    known = ask(asked.settings(), question)
    if as_json:
        show.as_json(known)
    else:
        _show(known)


@click.command(cls=Command)
@click.argument("which", metavar="ENTRY|KEY|URI")
@json_option
@pass_asked
def explain(asked: Asked, *, which: str, as_json: bool) -> None:
    """Why an entry is where it is: which key matched, on what evidence, what followed.

    Every sentence is followed by the rows of the ledger that prove it.
    """

    async def question(db: Database) -> tuple[EntryState, list[Statement]]:
        from headgate.ledger import history

        found = await find(db, which)
        return found, await history.explain(db, found.entry)

    found, said = ask(asked.settings(), question)
    if as_json:
        show.as_json({"entry": found, "statements": said})
        return
    head = f"entry {found.entry} of {found.pipeline}: {found.status}"
    show.out(show.heading(head), show.text(found.uri, "dim"), "")
    for statement in said:
        show.out(show.text(statement.text))
        show.out(show.indented(show.text(f"[{', '.join(statement.proof)}]", "dim")))


entry.add_command(explain)


@entry.command()
@click.argument("which", metavar="ENTRY|KEY|URI")
@click.option("--because", metavar="WHY", help="Why; it is kept with your name.")
@click.option("--dry-run", is_flag=True, help="Say what it would mean; do nothing.")
@json_option
@pass_asked
def reset(asked: Asked, *, which: str, because: str | None, dry_run: bool, as_json: bool) -> None:
    """Let a key run again, through the same gates; nothing is applied beside what it did.

    \b
    headgate entry reset 12 --dry-run
    headgate entry reset 12 --because "the handler had a mistake, fixed in 1.4"

    A waiting entry is tried at once with fresh attempts. For a skipped one the gates are asked
    again. The change of a finalized one runs once more as an entry of its own: what comes of it
    supersedes its publication, in one transaction, and can be reverted. What is in quarantine
    is released, not reset. The key itself stays known: told again, it is a duplicate.
    """
    if not dry_run and not (because or "").strip():
        raise click.UsageError("--because is missing: say why")

    async def question(db: Database) -> tuple[int, How, int | None]:
        from headgate.ledger import reset as ledger

        found = (await find(db, which)).entry
        how = await ledger.plan(db, found)
        if dry_run:
            return found, how, None
        return found, how, await ledger.reset(db, found, because=because or "")

    found, how, runs = ask(asked.settings(), question)
    if as_json:
        show.as_json({"entry": found, "how": how, "runs": runs, "dry_run": dry_run})
        return
    from headgate.ledger.reset import MEANS

    click.echo(f"entry {found}: {MEANS[how]}")
    if runs is None:
        show.note("Nothing was changed.")
    else:
        show.note("A running `headgate up` does it now.")
        show.hints(f"headgate entry explain {runs}")


async def find(db: Database, which: str, what: str = "entry") -> EntryState:
    """The one that is meant; of several changes of a uri the newest. `what` is asked for."""
    from headgate.ledger import history

    found = await history.find(db, which)
    if not found:
        raise UsageError(
            f"no {what} is known by {which!r}",
            hint="Give a number, a key (or the beginning of it), a journal line (12/3), a uri or a"
            f" path; or look for it: headgate {what} list --uri TEXT",
        )
    if len(found) > 1:
        others = ", ".join(str(f.entry) for f in found[1:10]) + ("…" if len(found) > 10 else "")
        show.note(f"The newest of {len(found)}; the others are {others}.")
    return found[0]


def _table(found: list[EntryState]) -> Any:
    return show.table(
        ("entry", "pipeline", "status", "reason", "received", "uri"),
        [
            (
                e.entry,
                e.pipeline,
                e.status,
                e.reason or "",
                show.ago(e.received_at),
                show.near(e.uri),
            )
            for e in found
        ],
        right=("entry",),
    )


def _show(x: Life) -> None:
    told = f"{show.many(x.told_again, 'time')} more, last {show.moment(x.last_told_at)}"
    show.out(
        show.facts(
            [
                ("entry", x.entry),
                ("pipeline", x.pipeline),
                ("uri", x.uri),
                ("status", show.text(x.status)),
                ("reason", x.reason),
                ("key", x.key),
                ("made of", f"uri and {x.occurrence[0]} {x.occurrence[1]}"),
                ("changed", show.moment(x.event_time)),
                ("received", show.moment(x.received_at)),
                ("late", x.late and _late(x.event_time, x.late)),
                ("told again", told if x.told_again else None),
                ("conflicts", x.conflicts or None),
                ("due", show.moment(x.due_at)),
                ("settled", show.moment(x.settled_at)),
                ("worker", x.worker),
            ]
        )
    )
    _show_publication(x)
    _show_quarantine(x)
    _show_journal(x)
    show.note("")
    show.hints(f"headgate explain {x.entry}")


def _late(event_time: datetime, watermark: datetime) -> str:
    from headgate.model.watermark import by_how_much

    passed = by_how_much(event_time, watermark)
    return f"{passed} before the watermark, which stood at {show.moment(watermark)}"


def _show_publication(x: Life) -> None:
    if (p := x.publication) is None:
        return
    show.out(
        "",
        show.heading("publication"),
        show.facts(
            [
                ("version", f"{p.version}{' (removed)' if p.removed else ''}"),
                ("sha256", p.content),
                ("follows", p.predecessor and f"entry {p.predecessor}"),
                ("followed by", p.successor and f"entry {p.successor}"),
                ("code", x.deployment and f"version {x.deployment.version}"),
            ]
        ),
    )
    if p.artifacts:
        rows = [
            (a["name"], show.size(a["size"]), a["media_type"], a["digest"]) for a in p.artifacts
        ]
        show.out(show.table(("artifact", "size", "media type", "sha256"), rows, right=("size",)))


def _show_quarantine(x: Life) -> None:
    if (q := x.quarantine) is None:
        return
    show.out(
        "",
        show.heading("quarantine"),
        show.facts(
            [
                ("class", q.classed),
                ("error", show.text(q.error, "red")),
                ("attempts", q.attempts),
                ("set aside", show.moment(q.last_at)),
            ]
        ),
    )
    show.hints(f"headgate quarantine show {x.entry}")


def _show_journal(x: Life) -> None:
    if x.lines:
        rows = [
            (
                line.pointer.removeprefix("journal "),
                line.attempt or "",
                show.ago(line.at),
                line.reason or "",
                " → ".join(n if ms is None else f"{n} {ms}ms" for n, ms in line.steps),
            )
            for line in x.lines
        ]
        columns = ("journal", "attempt", "at", "reason", "steps")
        show.out("", show.table(columns, rows, right=("attempt",)))
    for action in x.actions:
        said = f"{action.actor}: {action.verb}, because {action.because}"
        show.out(show.text(f"{show.moment(action.at)} {said}"))
