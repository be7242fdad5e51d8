"""`headgate try`: what would become of a file, without committing anything."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate.errors import HeadgateError, UsageError

from . import show
from .asked import Asked, Command, json_option, pass_asked

if TYPE_CHECKING:
    from headgate.model.pipeline import Pipeline
    from headgate.runtime.rehearse import Rehearsal, Rows
    from headgate.settings import Settings

_FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


@click.command("try", cls=Command)
@click.argument("target", metavar="FILE.py")
@click.argument("samples", metavar="SAMPLE...", nargs=-1, required=True, type=_FILE)
@click.option("--pipeline", metavar="NAME", help="Which one, if FILE.py declares several.")
@click.option("--rows", metavar="N", type=click.IntRange(0), default=10, help="Rows to show. [10]")
@click.option("--setup", type=_FILE, metavar="FILE.sql", help="SQL that makes your own tables.")
@json_option
@pass_asked
@click.pass_context
def try_(
    ctx: click.Context,
    asked: Asked,
    *,
    target: str,
    samples: tuple[Path, ...],
    pipeline: str | None,
    rows: int,
    setup: Path | None,
    as_json: bool,
) -> None:
    """Run the handlers of FILE.py on SAMPLE: checks, rows, artifacts and the verdict.

    Nothing is committed: the ledger, your database and the store are not touched. Each
    sample is judged alone, on a scratch database whose tables are empty; if your apply
    handlers need tables of yours, make them with --setup. Foreign calls (run.call) are
    really made, and taken back if they have an undo.

    Exit 0 if every sample would be finalized, 1 otherwise.
    """
    # What handlers print must not get between a program and its JSON.
    with contextlib.redirect_stdout(sys.stderr):
        told = _rehearse(asked.settings(), target, pipeline, samples, setup, rows)
    if as_json:
        show.as_json(
            {"ok": all(t.would_finalize for t in told), "samples": [_plain(t) for t in told]}
        )
    else:
        for one in told:
            _show(one)
        show.note("Nothing was committed.")
    ctx.exit(0 if all(t.would_finalize for t in told) else 1)


def _rehearse(
    settings: Settings,
    target: str,
    name: str | None,
    samples: Sequence[Path],
    setup: Path | None,
    rows: int,
) -> list[Rehearsal]:
    from headgate.runtime.load import load
    from headgate.runtime.loop import run
    from headgate.runtime.rehearse import rehearse, scratch

    sys.dont_write_bytecode = True  # nothing is left behind, not even beside the user's file
    declared = load(target)
    files = list({sample.resolve(): sample for sample in samples}.values())
    pairs = [(_choose(declared, name, sample), sample) for sample in files]
    sql = None if setup is None else setup.read_text(encoding="utf-8")

    async def go() -> list[Rehearsal]:
        async with scratch(sql) as db:
            os.environ["HEADGATE_TRYING"] = db.url  # also for operations in the user's code
            tuning = settings.tuning()
            return [await rehearse(db, p, sample, tuning, rows=rows) for p, sample in pairs]

    with show.console(err=True).status("Trying…"):
        return run(go)


def _choose(declared: Sequence[Pipeline], name: str | None, sample: Path) -> Pipeline:
    """The pipeline that is named, or the only one, or the only one that would get this file."""
    from headgate.sources.walk import uri_of

    names = ", ".join(p.name for p in declared)
    if name is not None:
        found = [p for p in declared if p.name == name]
        if not found:
            raise UsageError(f"there is no pipeline {name!r} there", hint=f"It has: {names}")
        return found[0]
    uri = uri_of(str(sample.resolve()))
    found = declared if len(declared) == 1 else [
        p for p in declared if any(s.owns(uri) for s in p.sources)
    ]  # fmt: skip
    if len(found) != 1:
        raise UsageError(
            f"several pipelines are declared there: {names}", hint="Choose one: --pipeline NAME"
        )
    return found[0]


def _show(told: Rehearsal) -> None:
    about = f"{told.pipeline}: {told.uri}"
    if told.size is not None and told.digest is not None:
        about += f" ({show.size(told.size)}, sha256 {told.digest[:12]}…)"
    show.out(show.heading(about), "")
    _show_checks(told)
    for rows in told.rows:
        _show_rows(rows)
    if told.artifacts:
        show.out(
            show.heading("artifacts"),
            show.table(
                ("name", "size", "media type", "sha256"),
                [(a.name, show.size(a.size), a.media_type, a.digest) for a in told.artifacts],
                right=("size",),
            ),
            "",
        )
    if told.calls:
        kept = [name for name in told.calls if name not in told.undone]
        show.out(show.text(f"foreign calls made: {', '.join(told.calls)}"))
        show.out(show.text(f"not taken back (no undo): {', '.join(kept) or 'none'}"), "")
    _show_verdict(told)


def _show_checks(told: Rehearsal) -> None:
    if not told.checks:
        return
    show.out(
        show.heading("checks"),
        show.table(
            ("check", "says", "examined", "failed", "why"),
            [
                (c.name, "passed" if c.passed else c.reason, c.examined, c.failed, c.text)
                for c in told.checks
            ],
            right=("examined", "failed"),
        ),
        "",
    )


def _show_rows(rows: Rows) -> None:
    show.out(show.heading(f"{rows.table}: {show.many(rows.total, 'row')}"))
    if rows.first:
        columns = list(rows.first[0])
        show.out(show.table(columns, [[row.get(c) for c in columns] for row in rows.first]))
    if rows.total > len(rows.first):
        show.out(show.text(f"… and {rows.total - len(rows.first):,} more", "dim"))
    show.out("")


def _show_verdict(told: Rehearsal) -> None:
    said, error = _verdict(told)
    show.out(show.text(said, "green" if told.would_finalize else "red"))
    if error:
        show.out(show.indented(show.text(error)))
    if told.at:
        show.out(show.indented(show.text(f"at {told.at}", "dim")))
    if told.missing:
        show.note(
            "hint: The scratch database has only what the pipeline declares. Make your own tables "
            "with --setup FILE.sql."
        )
    elif isinstance(told.raised, HeadgateError) and "hint" in vars(told.raised):
        show.note(f"hint: {told.raised.hint}")
    show.out("")


def _verdict(told: Rehearsal) -> tuple[str, str]:
    from headgate.model.verdict import Quarantine, Release, Retry, Skipped

    match told.verdict:
        case Quarantine(classed, reason, error):
            return f"would be quarantined: class {classed}, reason {reason}", error
        case Retry(_, reason, error, _):
            return f"would be tried again, and quarantined if it goes on: reason {reason}", error
        case Release(reason):
            return f"would be given back and tried again: {reason}", ""
        case Skipped(reason):
            return f"would be skipped: {reason}", ""
        case _:
            return "would be finalized", ""


def _plain(told: Rehearsal) -> dict[str, object]:
    from headgate.model.verdict import Quarantine

    said, error = _verdict(told)
    classed = told.verdict.classed if isinstance(told.verdict, Quarantine) else None
    return {
        "pipeline": told.pipeline,
        "uri": told.uri,
        "size": told.size,
        "digest": told.digest,
        "would_finalize": told.would_finalize,
        "verdict": type(told.verdict).__name__.lower(),
        "says": said,
        "class": classed,
        "reason": getattr(told.verdict, "reason", None),
        "error": error or None,
        "at": told.at,
        "missing": told.missing,
        "checks": [asdict(c) for c in told.checks],
        "rows": [r._asdict() for r in told.rows],
        "artifacts": [a._asdict() for a in told.artifacts],
        "calls": told.calls,
        "undone": told.undone,
        "seconds": round(told.seconds, 3),
    }
