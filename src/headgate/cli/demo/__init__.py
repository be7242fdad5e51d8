"""`headgate demo`: three consumers, one truth.

The same shuffled, repeated deliveries and the same `kill -9` go to the two scripts that everyone
writes and to a Headgate pipeline. Then the source misbehaves, and Headgate says why it did what it
did. Run again, Headgate's part is all no-ops.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate.cli.asked import Asked, Command, pass_asked

if TYPE_CHECKING:
    from .stage import Stage
    from .world import World


@click.command(cls=Command)
@click.argument("folder", type=click.Path(path_type=Path), default="headgate-demo")
@click.option(
    "--files", metavar="N", type=click.IntRange(20, 5000), help="How many files arrive. [400]"
)
@click.option(
    "--kills",
    metavar="N",
    type=click.IntRange(0, 20),
    default=12,
    help="How often each consumer is killed. [12]",
)
@click.option(
    "--serve/--no-serve",
    default=None,
    help="Go on with a lively world, and its console, until Ctrl-C. Or without a console.",
)
@click.option("--for", "for_", metavar="TIME", help="How long --serve goes on, as in 10m.")
@click.option(
    "--json", "as_json", is_flag=True, help="End with one line of JSON; the rest goes to stderr."
)
@pass_asked
def demo(
    asked: Asked,
    *,
    folder: Path,
    files: int | None,
    kills: int,
    serve: bool | None,
    for_: str | None,
    as_json: bool,
) -> None:
    """See it work: three consumers, one truth.

    Builds a small world in FOLDER (headgate-demo): files of rain gauges, the two scripts
    that everyone writes, a Headgate pipeline. All get the same shuffled, repeated
    deliveries and the same kill -9. Then the source misbehaves. It takes less than a
    minute and needs no network. Run it twice: for Headgate there is nothing left to do.

    Should a naive script come through unharmed, all get up to as many kills again, and the
    demo says so. The naive scripts begin at nought in every run.

    The console is served meanwhile, to this machine alone, and on a terminal until Ctrl-C.
    --serve goes on: stations send, repeat, correct and break files, workers are killed.

    With --json one line of JSON is all that goes to stdout. It tells of this run:

    \b
    deliveries      notices that Headgate received: new + duplicates + unchanged
    new             ... that brought bytes which were not there
    duplicates      ... of what it had been told before
    unchanged       ... of a change that left the bytes as they were
    published       versions of files that readers now see
    retried         files whose work was cut off by a kill, and begun again
    quarantined     files that were set aside with their reason
    double_applied  files whose rows were committed more than once
    truth           the sum of the files in mm at the end, by truth.py
    naive_error     how far the worse naive script was from the truth of its files
    headgate_error  how far Headgate's table is from `truth`
    seconds         how long it took
    """
    from headgate.errors import UsageError
    from headgate.model.duration import seconds
    from headgate.runtime.loop import run

    from .acts import Showing, play
    from .stage import Stage
    from .world import World

    began, stood = time.monotonic(), Path.cwd()
    try:
        world = World(folder, files)
        world.build()
    except OSError as error:
        raise UsageError(
            f"cannot write {error.filename}: {error.strerror}", hint="Choose another folder."
        ) from error
    os.chdir(world.folder)
    settings = asked.settings(
        home=str(world.folder / ".headgate"), database_url="embedded", schema="headgate"
    )
    stage = Stage(err=as_json)
    showing = Showing(
        console=not as_json if serve is None else serve,
        stays=sys.stdin.isatty() and sys.stdout.isatty() and not as_json,
        lively=bool(serve),
        seconds=None if for_ is None else seconds(for_, "--for"),
    )
    outcome = run(lambda: play(settings, world, stage, kills, showing))
    _next(stage, world, stood)
    if as_json:
        click.echo(outcome.line(time.monotonic() - began))
    if not outcome.well:
        raise click.exceptions.Exit(1)


def _next(stage: Stage, world: World, stood: Path) -> None:
    again = "run the demo again: for Headgate it is all no-ops"
    if not world.is_new:
        again = "remove the folder to start anew"
    command = _command(world.folder)
    stage.say("", f"What to try next ({again})")
    if world.folder != stood:
        stage.say(f"   cd {shlex.quote(_shortest(world.folder, stood))}")
    # There the folder's own settings count, unless the environment says otherwise.
    if others := [
        name for name in ("HEADGATE_DATABASE_URL", "HEADGATE_HOME") if name in os.environ
    ]:
        stage.say(f"   unset {' '.join(others)}")
    stage.say(
        f"   {command} status",
        f"   {command} quarantine list",
        f"   {command} replay rain.py --verify",
        f"   {command} try rain.py incoming/broken.csv",
        f"   {command} db psql -c 'select * from reading limit 5'",
        "   diff naive_act_then_mark.py naive_mark_then_act.py",
        "",
    )


def _command(folder: Path) -> str:
    """How to call this very Headgate from inside the folder."""
    ours = Path(sys.executable).with_name("headgate")
    if not ours.exists():
        return f"{shlex.quote(sys.executable)} -m headgate"
    on_path = shutil.which("headgate")
    if on_path and Path(on_path).resolve() == ours.resolve():
        return "headgate"
    return shlex.quote(_shortest(ours, folder))


def _shortest(path: Path, here: Path) -> str:
    return min(str(path), os.path.relpath(path, here), key=len)
