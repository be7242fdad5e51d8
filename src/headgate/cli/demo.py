"""`headgate demo`: a folder of files goes through the gate, and the source misbehaves.

What is told twice, touched, corrected, late or broken gets exactly the fate it deserves, and the
sum in the table equals the sum in the files. Run again, it is all no-ops.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import show
from .asked import Asked, Command, pass_asked

if TYPE_CHECKING:
    from decimal import Decimal

    from headgate.pg import Database
    from headgate.runtime.supervise import Tick
    from headgate.runtime.verify import Report
    from headgate.settings import Settings

    from .demo_world import World

TIMES_TOLD_AGAIN = 2


@dataclass(frozen=True, slots=True)
class Counts:
    """What the ledger has seen, as far as the demo tells about it."""

    entries: int = 0
    duplicates: int = 0
    published: int = 0
    unchanged: int = 0
    stale: int = 0
    quarantined: int = 0

    def since(self, before: Counts) -> Counts:
        return Counts(
            self.entries - before.entries,
            self.duplicates - before.duplicates,
            self.published - before.published,
            self.unchanged - before.unchanged,
            self.stale - before.stale,
            self.quarantined - before.quarantined,
        )


@click.command(cls=Command)
@click.argument("folder", type=click.Path(path_type=Path), default="headgate-demo")
@pass_asked
def demo(asked: Asked, *, folder: Path) -> None:
    """See it work: a folder of files through the gate.

    Builds a small world in FOLDER (headgate-demo), runs its pipeline, and lets the source
    misbehave: files told again, touched, corrected, late, broken. Run it twice: the second
    time there is nothing to do.
    """
    from headgate.runtime.loop import run

    from .demo_world import World

    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    settings = asked.settings(home=str(folder / ".headgate"), workers="2", database_url="embedded")
    run(lambda: _play(settings, World(folder)))


async def _play(settings: Settings, world: World) -> None:
    import os

    from headgate.runtime.ledger_home import connected
    from headgate.runtime.verify import verify

    shown = _short(world.folder)
    os.chdir(world.folder)
    first_time = world.is_new
    arrived = world.build()
    _say(
        "",
        f"The world: {shown}/",
        "  rain.py     a pipeline of fifteen lines: files become rows",
        f"  incoming/   {len(list(world.incoming.glob('*.csv')))} files of six rain gauges",
        "",
    )
    async with connected(settings.ledger()) as db:
        start = await _counts(db)
        _act(1, f"{show.many(arrived, 'file')} arrive" if arrived else "No new file arrives")
        await _up(settings, world)
        seen = await _counts(db)
        done = seen.since(start)
        _row(f"{done.entries} new", f"{show.many(done.published, 'version')} published")

        _act(2, "Then the source misbehaves")
        told, again = await _tell_again(db, world)
        world.misbehave()
        await _up(settings, world)
        done = (await _counts(db)).since(seen)
        _row(
            f"told again, {show.many(told, 'delivery', 'deliveries')}",
            f"{again} duplicates",
        )
        _row("touched, 3 files", f"{done.unchanged} unchanged: the bytes are the same")
        _row(
            "corrected, 2 files",
            f"{show.many(done.published, 'new version')}, rows replaced"
            if done.published
            else "nothing to do: corrected before",
        )
        _row(
            "late, 1 old version",
            f"{done.stale} stale: newer rows stay" if done.stale else "a duplicate by now",
        )
        _row(
            "broken, 2 files",
            f"{done.quarantined} quarantined, the rest unharmed"
            if done.quarantined
            else "nothing to do: in quarantine since",
        )

        _act(3, "The sum")
        truth, table = world.truth(), await _sum(db)
        _row(f"{truth} mm in the files", f"{table} mm in the table")
        _mark(truth == table, "equal" if truth == table else "NOT EQUAL")

        _act(4, "headgate verify")
        report = await verify(db)
        _verdict(report)
    _next(shown, first_time)
    if truth != table or not report.ok:
        raise click.exceptions.Exit(1)


async def _up(settings: Settings, world: World) -> None:
    from headgate.runtime.supervise import up

    tick = _progress()
    await up(
        [str(world.pipeline)],
        settings.ledger(),
        settings.tuning(),
        until_idle=True,
        log_to=("human", "error"),
        on_tick=tick,
    )


def _progress() -> Tick | None:
    """Live counts on a terminal, nothing elsewhere."""
    import sys

    if not sys.stderr.isatty():
        return None

    async def tick(db: Database) -> None:
        seen = await _counts(db)
        click.echo(
            f"\r  … {seen.entries} entries, {seen.published} published,"
            f" {seen.duplicates} duplicates, {seen.quarantined} quarantined\x1b[K\r",
            nl=False,
            err=True,
        )

    return tick


async def _tell_again(db: Database, world: World) -> tuple[int, int]:
    """Every file that was announced is announced again, shuffled, and one version comes late."""
    from datetime import UTC, datetime

    from headgate.ledger import inbox
    from headgate.model.ports import Change
    from headgate.runtime import station
    from headgate.runtime.load import load
    from headgate.runtime.watch import count

    (pipeline,) = load(str(world.pipeline))
    source = pipeline.sources[0]
    at = await station.register(db, pipeline)
    now = datetime.now(UTC)
    known = await inbox.known(db, at.pipeline, source.name)
    again = [
        source.envelope(
            Change(uri, "created", k.hint, "weak", now, 0, world.size(uri)), k.generation, now
        )
        for uri, k in known.items()
    ] * TIMES_TOLD_AGAIN
    random.Random(7).shuffle(again)
    receipt = await inbox.receive(db, at.pipeline, source.name, again)
    count(source.name, receipt)
    await inbox.receive(db, at.pipeline, "post", [world.late()])
    return receipt.received, receipt.duplicates


async def _counts(db: Database) -> Counts:
    from headgate.ledger import history

    seen = (await history.overview(db)).pipelines
    return Counts(
        entries=sum(p.entries for p in seen),
        duplicates=sum(p.duplicates for p in seen),
        published=sum(p.finalized for p in seen),
        unchanged=sum(p.skipped.get("unchanged", 0) for p in seen),
        stale=sum(p.skipped.get("stale", 0) for p in seen),
        quarantined=sum(p.quarantined for p in seen),
    )


async def _sum(db: Database) -> Decimal:
    return await db.fetchval("SELECT sum(mm) FROM reading")


def _verdict(report: Report) -> None:
    checked = sum(report.checked.values())
    if report.ok:
        _mark(True, f"all is well ({checked:,} facts checked)")
        return
    _mark(False, show.many(len(report.violations), "violation"))
    for violation in report.violations[:10]:
        _say(f"     {violation.code}: {violation.text}")


def _next(folder: str, first_time: bool) -> None:
    again = "run the demo again: it is all no-ops" if first_time else "remove it to start anew"
    _say(
        "",
        f"What to try next, in {folder}/ ({again})",
        "  headgate status",
        "  headgate quarantine list",
        "  headgate explain incoming/oslo-1-2026-01-02.csv",
        "  headgate try rain.py incoming/broken.csv",
        "  headgate verify --deep",
        "  headgate db psql -- -c 'select * from reading limit 5'",
        "",
    )


def _act(number: int, title: str) -> None:
    _say(click.style(f"{number}  {title}", bold=True))


def _row(left: str, right: str) -> None:
    _say(f"     {left:<32} {right}")


def _mark(good: bool, text: str) -> None:
    _say("     " + click.style(("✓ " if good else "✗ ") + text, fg="green" if good else "red"))


def _say(*lines: str) -> None:
    for line in lines:
        click.echo(line)


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return path.name
