"""`headgate quarantine redrive`: let entries run again by a plan, and look after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from . import show
from .asked import Asked, Group, json_option, pass_asked
from .ledger import ask
from .wanted import filters, wanted

if TYPE_CHECKING:
    from headgate.ledger.redrive import Followed, Planned, Redrive
    from headgate.model.redrive import Terms
    from headgate.pg import Database
    from headgate.settings import Settings


@click.group(cls=Group, invoke_without_command=True)
@filters
@click.option("--because", metavar="WHY", help="Why; it is kept with your name.")
@click.option(
    "--canary",
    metavar="N",
    type=click.IntRange(0),
    default=5,
    help="So many go first; the rest waits until they have ended. [5]",
)
@click.option(
    "--batch",
    metavar="N",
    type=click.IntRange(1),
    default=50,
    help="At most so many at once. [50]",
)
@click.option(
    "--rate",
    metavar="RATE",
    default="10/s",
    help="At most so many in a time: 10/s, 600/m; or max, as fast as the work is done. [10/s]",
)
@click.option(
    "--stop-at",
    "stop_share",
    metavar="SHARE",
    type=click.FloatRange(0, 1),
    default=0.2,
    help="Stop when more than this share of the last 100 failed. [0.2]",
)
@click.option(
    "--backlog",
    metavar="N",
    type=click.IntRange(1),
    default=1000,
    help="Release nothing while so many entries are ready or under way. [1000]",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done; do nothing.")
@click.option("--follow", is_flag=True, help="Stay and watch until it has ended.")
@json_option
@pass_asked
@click.pass_context
def redrive(
    ctx: click.Context,
    asked: Asked,
    *,
    because: str | None,
    rate: str,
    dry_run: bool,
    follow: bool,
    as_json: bool,
    canary: int,
    batch: int,
    stop_share: float,
    backlog: int,
    **filtered: Any,
) -> None:
    """Let what is in quarantine run again by a plan: a few first, then a batch at a time.

    \b
    headgate quarantine redrive --reason validation --dry-run
    headgate quarantine redrive --reason validation --because "handler fixed" --follow
    headgate quarantine redrive --class exhausted --since 3h --rate 2/s --because "it is back"

    The plan is what fits now. A running `headgate up` works it off, also after a crash. It stops
    by itself when too many fail, waits while the pipeline has enough to do or its error budget is
    spent, and keeps the order of each subject. What fails again is back in quarantine, once.
    """
    if ctx.invoked_subcommand is not None:
        return
    from headgate.model.redrive import Terms, per_second

    if not dry_run and not (because or "").strip():
        raise click.UsageError("--because is missing: say why")
    of, terms = wanted(**filtered), Terms(canary, batch, per_second(rate), stop_share, backlog)

    async def question(db: Database) -> tuple[Planned, int | None, int, list[str]]:
        from headgate.ledger import budget
        from headgate.ledger import redrive as ledger
        from headgate.ledger.worker import alive

        planned = await ledger.preview(db, of, terms)
        made = None if dry_run else await ledger.plan(db, of, terms, because=because or "")
        spent = {row["name"] for row in await db.fetch(budget.Q.spent)}
        slow = sorted(spent & {pipeline for pipeline, _, _ in planned.counts})
        return planned, made, await alive(db), slow

    planned, made, workers, slow = ask(asked.settings(), question)
    if as_json:
        _as_json(planned, made)
    else:
        _show_planned(planned, terms, made)
        for pipeline in slow:
            show.note(
                f"The error budget of {pipeline} is spent: only the first go until it recovers."
            )
            show.hints(f'headgate budget override {pipeline} --because "…"   # if it is repaired')
        if made is not None and not workers:
            show.note("No worker runs now: it begins when a `headgate up` does.")
    if made is not None and follow and _followed(asked.settings(), made).state == "stopped":
        ctx.exit(1)


@redrive.command("list")
@json_option
@pass_asked
def list_(asked: Asked, *, as_json: bool) -> None:
    """Plans, the latest first."""
    found = ask(asked.settings(), _redrives)
    if as_json:
        show.as_json({"redrives": found})
        return
    if not found:
        click.echo("Nothing was redriven by a plan yet.")
        return
    columns = ("redrive", "state", "entries", "passed", "failed", "left", "made", "because")
    rows = [
        (
            r.id,
            r.state,
            r.progress.total,
            r.progress.passed,
            r.progress.failed,
            r.progress.left,
            show.ago(r.made_at),
            r.because,
        )
        for r in found
    ]
    show.out(show.table(columns, rows, right=("redrive", "entries", "passed", "failed", "left")))
    show.hints(f"headgate quarantine redrive show {found[0].id}")


@redrive.command("show")
@click.argument("number", metavar="REDRIVE", type=int)
@click.option("--follow", is_flag=True, help="Stay and watch until it has ended.")
@json_option
@pass_asked
@click.pass_context
def show_(ctx: click.Context, asked: Asked, *, number: int, follow: bool, as_json: bool) -> None:
    """One plan: how far it is, what it waits for, what failed again, who decided what.

    With --follow the exit code is 0 when it is done, and 1 when it was stopped.
    """
    stopped = follow and _followed(asked.settings(), number).state == "stopped"

    async def question(db: Database) -> Followed:
        from headgate.ledger import redrive as ledger

        return await ledger.followed(db, number)

    found = ask(asked.settings(), question)
    if as_json:
        show.as_json(found.document())
    else:
        _show(found)
    ctx.exit(1 if stopped else 0)


def _turning(verb: Literal["pause", "resume", "stop"], text: str) -> None:
    @redrive.command(verb, help=text)
    @click.argument("number", metavar="REDRIVE", type=int)
    @click.option("--because", required=True, metavar="WHY", help="Why; it is kept with your name.")
    @pass_asked
    def turn(asked: Asked, *, number: int, because: str) -> None:
        async def question(db: Database) -> str:
            from headgate.ledger import redrive as ledger

            return await ledger.turn(db, number, verb, because=because)

        state = ask(asked.settings(), question)
        click.echo(f"redrive {number} is {state}")


_turning("pause", "Release nothing more until it is resumed. What was released goes on.")
_turning("resume", "Go on with a plan that was paused.")
_turning("stop", "Release nothing more. What is left stays in quarantine; plan anew for it.")


async def _redrives(db: Database, number: int | None = None) -> list[Redrive]:
    from headgate.ledger import redrive as ledger

    return await ledger.redrives(db, id=number)


def _as_json(planned: Planned, made: int | None) -> None:
    counts = [
        {"pipeline": pipeline, "class": classed, "reason": reason, "entries": n}
        for (pipeline, classed, reason), n in sorted(planned.counts.items())
    ]
    show.as_json(
        {"redrive": made, "entries": planned.total, "first": planned.first, "reasons": counts}
    )


def _show_planned(planned: Planned, terms: Terms, made: int | None) -> None:
    if not planned.total:
        click.echo("Nothing in quarantine is like that.")
        return
    word = "would run" if made is None else "run"
    entries = show.many(planned.total, "entry", "entries")
    show.out(show.heading(f"{entries} {word} again, with their keys and in their order"))
    rows = [(f"{n:,}", *of) for of, n in sorted(planned.counts.items(), key=lambda c: -c[1])]
    columns = ("entries", "pipeline", "class", "reason")
    show.out(show.table(columns, rows, right=("entries",)), "")
    first = ", ".join(map(str, planned.first[:10])) + ("…" if len(planned.first) > 10 else "")
    show.out(
        show.facts(
            [
                ("first", f"{len(planned.first)}: {first}" if planned.first else "none"),
                ("then", f"up to {terms.batch} at once, {terms.pace}"),
                ("waits", f"while {terms.backlog} are ready or under way, or the budget is spent"),
                ("stops", f"when more than {terms.stop_share:.0%} of the last 100 failed"),
            ]
        )
    )
    if made is None:
        show.note("Nothing was changed.")
    else:
        click.echo(f"redrive {made} is planned; a running `headgate up` begins now")
        show.hints(
            f"headgate quarantine redrive show {made} --follow",
            f'headgate quarantine redrive pause {made} --because "…"',
        )


def _show(found: Followed) -> None:
    from headgate.model.redrive import HELD

    r = found.redrive
    p = r.progress
    asked = ", ".join(f"{name} {value}" for name, value in r.asked.items())
    show.out(
        show.facts(
            [
                ("redrive", r.id),
                ("state", r.state + (f": {r.ended_why}" if r.ended_why else "")),
                ("waits", HELD[r.held] if r.held else None),
                ("because", f"{r.because} ({r.actor})"),
                ("asked for", asked or "everything"),
                ("pipelines", ", ".join(r.pipelines)),
                ("terms", f"{r.terms.canary} first, then {r.terms.batch} at once, {r.terms.pace}"),
                ("entries", f"{p.total:,}"),
                ("passed", f"{p.passed:,}"),
                ("failed", show.text(f"{p.failed:,}", "red" if p.failed else "")),
                ("under way", f"{p.live:,}"),
                ("decided by others", f"{p.gone:,}" if p.gone else None),
                ("left", f"{p.left:,}"),
                ("took", None if r.seconds is None else show.span(r.seconds)),
                ("to go", None if r.left_seconds is None else f"about {_eta(r)}"),
            ]
        )
    )
    if found.back:
        rows = [(b.entries, b.classed, b.reason, b.example) for b in found.back]
        columns = ("entries", "class", "reason", "as in")
        table = show.table(columns, rows, right=("entries", "as in"))
        show.out("", show.heading("failed again"), table)
    show.out("")
    for a in found.actions:
        show.out(show.text(f"{show.moment(a.at)} {a.actor}: {a.verb}, because {a.because}"))


def _eta(r: Redrive) -> str:
    return show.span(r.left_seconds or 0)


def _line(r: Redrive) -> str:
    """Where it is, in one line."""
    from headgate.model.redrive import HELD

    p = r.progress
    said = f"redrive {r.id} {r.state}: {p.passed + p.failed + p.gone:,} of {p.total:,} ended"
    said += f", {p.passed:,} passed, {p.failed:,} failed, {p.live:,} under way"
    if r.state == "running" and r.left_seconds is not None:
        said += f", about {_eta(r)} to go"
    if r.ended_why:
        return f"{said}: {r.ended_why}"
    return f"{said} ({HELD[r.held]})" if r.held not in (None, "rate") else said


def _followed(settings: Settings, number: int) -> Redrive:
    """Watch until it has ended and all that it released has."""
    import asyncio

    from headgate.runtime.loop import run

    from .ledger import opened

    async def watch() -> Redrive:
        last = ""
        shown = show.console(err=True)
        with shown.status("Looking…") as status:
            async with opened(settings) as db:
                while True:
                    (now,) = await _redrives(db, number)
                    line = _line(now)
                    status.update(line)
                    if not shown.is_terminal and line != last:
                        show.note(line)
                    last = line
                    if now.state in ("stopped", "done") and not now.progress.live:
                        return now
                    await asyncio.sleep(1.0)

    return run(watch)
