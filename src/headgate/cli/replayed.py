"""How replays look: what was frozen, how far one is, and what a verification found."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from . import show
from .ledger import opened
from .progress import progress

if TYPE_CHECKING:
    from headgate.ledger.replay import Frozen
    from headgate.ledger.replays import Standing
    from headgate.runtime.again.report import Report
    from headgate.settings import Settings

EVERY_SECONDS = 0.5
SHOWN = 20


def frozen(made: Frozen, *, dry_run: bool) -> None:
    """What a replay is about."""
    manifest = made.manifest
    window = manifest["window"]
    start, end = window["start"] or "the beginning", window["end"] or "now"
    verifies = manifest["mode"] == "verify"
    name = "replay" if dry_run or not made.id else f"replay {made.id}"
    what = "verifies" if verifies else "publishes anew"
    click.echo(f"{name} {what} {show.many(made.inputs, 'input')} of {manifest['pipeline']}")
    click.echo(f"window [{start}, {end}), inputs {manifest['inputs']['digest'][:19]}…")
    if manifest["watermark"] is not None:
        click.echo(f"nothing after {manifest['watermark']}, where the watermark stands")
    _changed(manifest)
    if not made.inputs:
        show.note("There is nothing to run again. What there is:")
        show.hints("headgate publication list")
    elif dry_run:
        show.note("Nothing was changed.")
    elif not verifies:
        show.note("A running `headgate up` does it when live work leaves room.")
        show.hints(f"headgate replay show {made.id} --follow")


def _changed(manifest: Mapping[str, Any]) -> None:
    for one in manifest["changed"]:
        name = f"{one['aspect']} {one['name']}".strip()
        was = ", ".join(dict.fromkeys(w[:12] or "none" for w in one["was"]))
        click.echo(
            f"changed: {name} is {one['now'][:12] or 'none'}, and was {was}"
            f" for {show.many(one['publications'], 'publication')}"
        )


def report(found: Report) -> None:
    """What a verification found, the worst first."""
    _report(found.plain())


def _report(found: Mapping[str, Any]) -> None:
    if not found["inputs"]:
        return  # that there is nothing to compare is no proof
    for one in found["divergences"][:SHOWN]:
        show.out("", show.text(f"publication {one['publication']}: {one['what']}", "red"))
        show.out(show.indented(show.text(one["text"])))
        show.out(show.indented(show.text(show.near(one["uri"]), "dim")))
        show.out(show.indented(show.text(f"because of: {one['blame']}")))
    if (more := len(found["divergences"]) - SHOWN) > 0:
        show.out(show.text(f"… and {more:,} more (--json lists them)"))
    if found["blamed"]:
        show.out("", show.heading("because of"))
        for blame, times in sorted(found["blamed"].items(), key=lambda one: -one[1])[:SHOWN]:
            show.out(show.indented(show.text(f"{times:,} × {blame}")))
    for line in found["impure"]:
        show.out(show.text(f"not pure: {line}", "red"))
    if found["impure"]:
        show.note("hint: a check may depend on the object only; handlers have run.now, run.seed.")
    for why, times in found["apart"].items():
        if times:
            show.out(show.text(f"not compared: {why} ({times:,})", "yellow"))
    said = f"{found['same']:,} of {found['inputs']:,} inputs came out the same"
    said += f" ({show.many(found['outputs'], 'output')} compared)"
    good = not found["diverged"] and not found["impure"]
    show.out("", show.text(said, "green" if good else "red"))


def listed(found: Sequence[Standing]) -> None:
    """A table of replays."""
    if not found:
        click.echo("Nothing was replayed.")
        return
    columns = ("replay", "pipeline", "mode", "state", "done", "of", "asked", "by", "because")
    rows = [
        (
            r.id,
            r.pipeline,
            r.mode,
            r.state,
            f"{r.done:,}",
            f"{r.inputs:,}",
            show.ago(r.asked_at),
            r.actor,
            r.because,
        )
        for r in found
    ]
    show.out(show.table(columns, rows, right=("replay", "done", "of")))
    show.hints(f"headgate replay show {found[0].id}")


def shown(told: Standing) -> None:
    """One replay."""
    window = told.manifest["window"]
    eta = told.eta_seconds
    show.out(show.heading(f"replay {told.id} of {told.pipeline}: {told.state}"))
    show.out(
        show.facts(
            [
                ("mode", told.mode),
                ("window", f"[{window['start'] or '…'}, {window['end'] or '…'})"),
                ("asked", f"{show.moment(told.asked_at)}, by {told.actor}"),
                ("because", told.because),
                ("done", f"{told.done:,} of {told.inputs:,} inputs"),
                ("left", None if eta is None else f"about {show.span(eta)}"),
                ("rate", None if told.per_second is None else f"{told.per_second:g}/s"),
                ("waits", told.waits),
            ]
        )
    )
    _changed(told.manifest)
    for fate in told.entries or ():
        why = f" ({fate.reason})" if fate.reason else ""
        show.out(show.text(f"{fate.entries:,} {fate.status}{why}"))
    if told.report is not None:
        _report(told.report)
    if told.mode == "verify" and told.state == "running":
        show.note("It was broken off, or is at it. Run the same command again to go on.")


def follow(settings: Settings, id: int, *, stay: bool, manifest: bool) -> Standing:
    """One replay as it is, or as it is when it has ended."""
    from headgate.ledger import replays
    from headgate.runtime.loop import run

    async def go() -> Standing:
        async with opened(settings) as db:
            with progress("Replaying") as told:
                while True:
                    found = await replays.replay(db, id)
                    if not stay or found.state != "running":
                        break
                    told(found.done, found.inputs)
                    await asyncio.sleep(EVERY_SECONDS)
            if manifest:
                found.manifest["inputs"]["list"] = await replays.inputs(db, id)
            return found

    return run(go)
