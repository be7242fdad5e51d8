"""`headgate reconcile`: is everything that the sources show published, and nothing else?"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from headgate.errors import UsageError

from . import show
from .asked import Asked, Command, json_option, pass_asked
from .ledger import opened
from .progress import progress

if TYPE_CHECKING:
    from headgate.model.pipeline import Pipeline
    from headgate.pg import Database
    from headgate.runtime.reconcile import Fixed, Reconciled

_COLOURS = {"missing": "red", "drifted": "yellow", "phantom": "yellow", "orphan": "yellow"}


@click.command(cls=Command)
@click.argument("target", metavar="TARGET")
@click.argument("pipeline", metavar="[PIPELINE]", required=False)
@click.option("--fix", is_flag=True, help="Admit what is missing or drifted. Deletes nothing.")
@click.option("--because", metavar="WHY", help="Why, for --fix; it is kept with your name.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(0), default=20, help="Show at most so many. [20]"
)
@json_option
@pass_asked
@click.pass_context
def reconcile(
    ctx: click.Context,
    asked: Asked,
    *,
    target: str,
    pipeline: str | None,
    fix: bool,
    because: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Hold what the sources show against the ledger and what is published.

    \b
    missing   the source shows it, and the ledger was never told
    drifted   the source shows another version than the ledger knows
    phantom   known or published, and gone from its source
    orphan    known or published, and no declared source covers it

    TARGET is a file (rain.py), a folder of files, or package.module:pipeline; PIPELINE names
    one of several. Sources are read as a whole: a Directory, a Prefix, a Manifest. It may run
    beside `up`. With --json one line for each finding, and one with the counts at the end of
    each pipeline. Exit 1 if anything is found, or left after --fix.

    \b
    headgate reconcile rain.py
    headgate reconcile rain.py --fix --because "events were lost on Monday"
    """
    if fix and not (because or "").strip():
        raise click.UsageError("--fix needs a reason: add --because WHY")
    if because and not fix:
        raise click.UsageError("--because goes with --fix")
    chosen = _chosen(target, pipeline)
    left = _reconcile(asked, chosen, (because or "").strip(), limit, as_json=as_json)
    ctx.exit(1 if left else 0)


def _chosen(target: str, name: str | None) -> list[Pipeline]:
    """The pipelines that are meant; those that cannot be listed are named, and refused if asked."""
    from headgate.runtime.load import load
    from headgate.runtime.reconcile import listable, require_listable

    with contextlib.redirect_stdout(sys.stderr):  # what a file prints when it is imported
        found = load(target)
    if name is not None:
        named = [pipeline for pipeline in found if pipeline.name == name]
        if not named:
            there = ", ".join(pipeline.name for pipeline in found)
            raise UsageError(f"{target} declares no pipeline {name!r}", hint=f"it has: {there}")
        found = named
    can = [pipeline for pipeline in found if listable(pipeline)]
    if not can:
        require_listable(found[0])
    for pipeline in found:
        if pipeline not in can:
            show.note(f"{pipeline.name}: left out, none of its sources can be listed")
    for pipeline in can:
        for source in listable(pipeline):
            source.check()
    return can


def _reconcile(
    asked: Asked, pipelines: Sequence[Pipeline], because: str, limit: int, *, as_json: bool
) -> int:
    """Do it; how much is left that somebody has to look at."""
    from headgate.runtime import reconcile as runtime
    from headgate.runtime.loop import run

    with progress("Looking") as told:

        def found(what: str, n: int) -> None:
            told(n, None, f"{what[:1].upper()}{what[1:]}")

        async def one(db: Database, pipeline: Pipeline) -> tuple[Reconciled, Fixed | None]:
            result = await runtime.reconcile(db, pipeline, found)
            if not because:
                return result, None
            return result, await runtime.fix(db, result, because=because, progress=found)

        async def go() -> list[tuple[Reconciled, Fixed | None]]:
            async with opened(asked.settings()) as db:
                return [await one(db, pipeline) for pipeline in pipelines]

        results = run(go)
    left = 0
    for n, (result, fixed) in enumerate(results):
        if as_json:
            _lines(result, fixed)
        else:
            _show(result, fixed, limit, first=n == 0)
        left += _left(result, fixed)
    return left


def _left(result: Reconciled, fixed: Fixed | None) -> int:
    if fixed is None:
        return result.found
    return result.counts["phantom"] + result.counts["orphan"] + len(fixed.refused)


def _lines(result: Reconciled, fixed: Fixed | None) -> None:
    import msgspec

    from headgate.model.reconcile import COUNTED, FOUND

    encode = msgspec.json.Encoder().encode
    out = sys.stdout.buffer
    for finding in result.findings():
        out.write(encode(finding) + b"\n")
    summary: dict[str, object] = {
        "pipeline": result.pipeline.name,
        "counts": {state: result.counts[state] for state in (*FOUND, *COUNTED)},
        "not_listed": result.unlisted,
    }
    if fixed is not None:
        summary |= {"admitted": fixed.admitted, "known": fixed.known, "refused": fixed.refused}
    out.write(encode(summary) + b"\n")
    out.flush()


def _show(result: Reconciled, fixed: Fixed | None, limit: int, *, first: bool) -> None:
    from itertools import islice

    from headgate.model.reconcile import COUNTED, FOUND

    name, counts = result.pipeline.name, result.counts
    if not first:
        show.out("")
    rows = [(show.text(f"{counts[s]:,}"), said) for s, said in COUNTED.items() if counts[s]]
    show.out(show.heading(name))
    found = [(show.text(f"{counts[s]:,}"), show.text(s, _COLOURS[s])) for s in FOUND if counts[s]]
    if rows or found:
        show.out(show.table(("objects", ""), [*rows, *found], right=("objects",)))
    for source in result.unlisted:
        show.note(f"{source} cannot be listed: what only it tells is not compared")
    if not result.found:
        show.out(show.text("Nothing differs.", "green"))
        return
    if limit:
        some = islice(result.findings(), limit)
        table = [(show.text(f.finding, _COLOURS[f.finding]), f.why, show.near(f.uri)) for f in some]
        show.out("", show.table(("finding", "why", "uri"), table))
    if result.found > limit:
        show.note(f"… and {result.found - limit:,} more (--limit, or --json for all of them)")
    _say_next(result, fixed)


def _say_next(result: Reconciled, fixed: Fixed | None) -> None:
    from headgate.model.reconcile import FIXED

    if fixed is not None:
        quicker = f"; a watcher was quicker with {fixed.known:,}" if fixed.known else ""
        show.out("", f"{show.many(fixed.admitted, 'change')} admitted{quicker}.")
        for uri, why in fixed.refused[:20]:
            show.out(show.indented(show.text(f"refused: {uri}: {why}", "red")))
    elif any(result.counts[state] for state in FIXED):
        show.note("\nAdmit what is missing or drifted:")
        show.hints('headgate reconcile … --fix --because "…"')
    if result.counts["phantom"]:
        show.note(
            "Phantoms: a running `up` tells of them with its next look; nothing here deletes."
        )
    if result.counts["orphan"]:
        show.note("Orphans: declare a source that covers them, or take them back:")
        show.hints('headgate publication revert ENTRY --because "…"')
