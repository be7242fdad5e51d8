"""`headgate replay`: run a window of the past again; prove it, or publish it anew."""

from __future__ import annotations

import contextlib
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.errors import UsageError

from . import replayed, show
from .asked import Asked, Command, Group, json_option, pass_asked
from .ledger import ask, opened
from .progress import progress

if TYPE_CHECKING:
    from headgate.ledger.replay import Frozen, Wanted
    from headgate.ledger.replays import Standing
    from headgate.model.frozen import Pins
    from headgate.model.pipeline import Pipeline
    from headgate.pg import Database
    from headgate.runtime.again.report import Report
    from headgate.settings import Settings

_FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:/(s|min|h))?")
_PER = {"s": 1.0, "min": 60.0, "h": 3600.0, None: 1.0}
START = "FILE.py"


class _Replays(Group):
    """A group whose first word, if it is none of its verbs, is the file to be replayed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [START, *(name for name in super().list_commands(ctx) if name != START)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or self.commands[START]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            return START, self.commands[START], args
        return super().resolve_command(ctx, args)


class _Start(Command):
    """The file is the command's own name: its usage does not say it twice."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [piece for piece in super().collect_usage_pieces(ctx) if piece != START]


@click.group(cls=_Replays)
def replay() -> None:
    """Run what was published in a window of event time again.

    \b
    headgate replay rain.py --from 2026-03-02 --to 2026-03-09 --verify
    headgate replay rain.py --from 2026-03-02 --publish --because "fixed rounding"

    --verify makes everything again beside your data and compares it; nothing is changed.
    --publish lets the workers run it once more and takes the place of what is published.
    """


@dataclass(frozen=True, slots=True)
class _Given:
    """What the command line said about a replay."""

    target: str
    pipeline: str | None
    start: datetime | None
    end: datetime | None
    publish: bool
    because: str | None
    accept: tuple[str, ...]
    rate: float | None
    unseen: bool
    manifest: Path | None
    every: bool
    dry_run: bool


def _moment(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is no date: write 2026-03-02 or 2026-03-02T06:00:00+01:00"
        ) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _per_second(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    written = _RATE.fullmatch(value)
    if written is None or float(written[1]) == 0:
        raise click.BadParameter(f"{value!r} is no rate: write 50/s or 600/min")
    return float(written[1]) / _PER[written[2]]


def _aspects(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    from headgate.model.frozen import ASPECTS

    said = tuple(part.strip() for part in (value or "").split(",") if part.strip())
    if unknown := [one for one in said if one not in ASPECTS]:
        raise click.BadParameter(f"{unknown[0]!r}: there are {', '.join(ASPECTS)}")
    return said


@replay.command(START, cls=_Start)
@click.argument("target", metavar="FILE.py")
@click.argument("pipeline", metavar="[PIPELINE]", required=False)
@click.option("--from", "start", metavar="TIME", callback=_moment, help="Event time: from here on.")
@click.option("--to", "end", metavar="TIME", callback=_moment, help="Event time: before this.")
@click.option("--verify", is_flag=True, help="Make it again beside the data, and compare.")
@click.option("--publish", is_flag=True, help="Let the workers publish it anew.")
@click.option("--because", metavar="WHY", help="Why it is published anew; kept with your name.")
@click.option(
    "--accept",
    metavar="ASPECTS",
    callback=_aspects,
    help="What may be another than it was: version, code, params, config, schemas, lookups.",
)
@click.option("--rate", metavar="N/s", callback=_per_second, help="No more than so many.")
@click.option("--unseen", is_flag=True, help="Objects its sources list and were never seen.")
@click.option(
    "--manifest", type=_FILE, metavar="FILE", help="These objects; or a frozen manifest again."
)
@click.option("--all", "every", is_flag=True, help="Verify every version, not only the current.")
@click.option("--dry-run", is_flag=True, help="Say what it would be about; do nothing.")
@json_option
@pass_asked
@click.pass_context
def start_(
    ctx: click.Context,
    asked: Asked,
    *,
    target: str,
    pipeline: str | None,
    start: datetime | None,
    end: datetime | None,
    verify: bool,
    publish: bool,
    because: str | None,
    accept: tuple[str, ...],
    rate: float | None,
    unseen: bool,
    manifest: Path | None,
    every: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Replay what the pipeline of FILE.py published in [--from, --to) of event time.

    What the results depend on is frozen: code, parameters, schemas, lookups, the list of
    inputs. If any of it is another than when the inputs first ran, it is named and nothing
    is done, unless you --accept it.

    --verify runs the handlers in a process that reaches neither your data nor the network,
    and compares every output: exit 0 only if all are the same. Run it again to go on after
    an interruption. With --accept code it says whether other code makes the same.

    --publish freezes what readers see. Workers (`headgate up FILE.py`) run it when live
    work leaves room, through the same gates; what was replaced meanwhile is left alone.

    --unseen and --manifest bring in objects that were never seen, in place of those that
    were. There is no event log to replay from yet.
    """
    if verify == publish:
        raise click.UsageError("say --verify or --publish")
    if publish and not dry_run and not (because or "").strip():
        raise click.UsageError("--because is missing: say why")
    if publish and every:
        raise click.UsageError("--publish is about what readers see; --all is for --verify")
    if verify and unseen:
        raise click.UsageError("--verify compares with what was published; --unseen was not")
    given = _Given(
        target=target,
        pipeline=pipeline,
        start=start,
        end=end,
        publish=publish,
        because=because,
        accept=accept,
        rate=rate,
        unseen=unseen,
        manifest=manifest,
        every=every,
        dry_run=dry_run,
    )
    with contextlib.redirect_stdout(sys.stderr):  # what the file prints is no part of the answer
        frozen, report = _replay(asked.settings(), given)
    if as_json:
        show.as_json(
            {
                "replay": None if dry_run else frozen.id,
                "manifest": frozen.manifest,
                "report": None if report is None else {"ok": report.ok, **report.plain()},
            }
        )
    else:
        replayed.frozen(frozen, dry_run=dry_run)
        if report is not None:
            replayed.report(report)
    refused = not dry_run and not publish and report is None
    ctx.exit(1 if refused or (report is not None and not report.ok) else 0)


def _replay(settings: Settings, given: _Given) -> tuple[Frozen, Report | None]:
    from headgate.ledger.replay import Otherwise
    from headgate.runtime.load import load
    from headgate.runtime.loop import run
    from headgate.runtime.replays import pins_of

    sys.dont_write_bytecode = True
    declared = _choose(load(given.target), given.pipeline)
    now = pins_of(declared)
    target = _file(given.target)

    async def go() -> tuple[Frozen, Report | None]:
        from headgate.ledger import replay as ledger

        async with opened(settings) as db:
            wanted = await _wanted(db, declared, now, given)
            try:
                frozen = await ledger.ask(db, wanted, dry_run=given.dry_run)
            except Otherwise as otherwise:
                if given.publish:
                    raise
                show.note(f"{otherwise}")
                show.note(f"hint: {otherwise.hint}")
                manifest = otherwise.manifest
                return ledger.Frozen(0, manifest["inputs"]["count"], manifest), None
            if given.publish or given.dry_run:
                return frozen, None
            return frozen, await _verify(db, settings, target, declared, frozen, now)

    return run(go)


async def _verify(
    db: Database,
    settings: Settings,
    target: Path,
    declared: Pipeline,
    frozen: Frozen,
    now: Pins,
) -> Report:
    from headgate.runtime.again.verify import verify

    local = settings.tuning().local
    with progress("Verifying") as told:
        return await verify(db, target, declared, frozen, now, local, told)


def _file(target: str) -> Path:
    file = Path(target).resolve()
    if not file.is_file():
        raise UsageError(f"{target} is no file", hint="Give the .py file of the pipeline.")
    return file


async def _wanted(db: Database, declared: Pipeline, now: Pins, given: _Given) -> Wanted:
    from headgate.ledger.replay import Wanted
    from headgate.runtime import station
    from headgate.runtime.again import gather

    window = gather.Window(given.start, given.end)
    unseen: list[Any] = []
    kept = None if given.manifest is None else gather.frozen_in(given.manifest, now, given.accept)
    if kept is not None:
        window = kept.window
    elif given.manifest is not None:
        if not given.publish:
            raise UsageError(
                f"{given.manifest} lists objects, and --verify compares publications",
                hint="give a frozen manifest, or a window: --from, --to",
            )
        unseen = gather.named_in(given.manifest, declared, window)
    elif given.unseen:
        unseen = await gather.never_seen(db, declared, window)
    brings_in = given.unseen or (given.manifest is not None and kept is None)
    if brings_in and not given.dry_run:
        await station.register(db, declared)
    return Wanted(
        pipeline=declared.name,
        mode="publish" if given.publish else "verify",
        pins=now,
        environment=station.environment(),
        start=window.start,
        end=window.end,
        because=given.because,
        per_second=given.rate,
        accepted=given.accept,
        only=None if kept is None else kept.publications,
        every=given.every or (kept is not None and not given.publish),
        known=not brings_in,
        unseen=unseen,
    )


def _choose(declared: list[Pipeline], name: str | None) -> Pipeline:
    names = ", ".join(p.name for p in declared)
    if name is None and len(declared) > 1:
        raise UsageError(
            f"several pipelines are declared there: {names}", hint="Name one behind the file."
        )
    found = next((p for p in declared if name in (None, p.name)), None)
    if found is None:
        raise UsageError(f"there is no pipeline {name!r} there", hint=f"It has: {names}")
    return found


@replay.command("list")
@click.option(
    "--limit", metavar="N", type=click.IntRange(1), default=50, help="At most so many. [50]"
)
@json_option
@pass_asked
def list_(asked: Asked, *, limit: int, as_json: bool) -> None:
    """Replays, the latest first."""

    async def question(db: Database) -> list[Standing]:
        from headgate.ledger.replays import replays

        return await replays(db, limit=limit)

    found = ask(asked.settings(), question)
    if as_json:
        show.as_json({"replays": [one.document() for one in found]})
    else:
        replayed.listed(found)


@replay.command("show")
@click.argument("id", metavar="REPLAY", type=int)
@click.option("--follow", is_flag=True, help="Stay until it has ended.")
@click.option("--manifest", is_flag=True, help="Print its frozen manifest, with all inputs.")
@json_option
@pass_asked
@click.pass_context
def show_(
    ctx: click.Context, asked: Asked, *, id: int, follow: bool, manifest: bool, as_json: bool
) -> None:
    """One replay: how far it is, when it will be done, what it found or became.

    Exit 1 if it is a verification that found something.
    """
    told = replayed.follow(asked.settings(), id, stay=follow, manifest=manifest)
    if manifest:
        show.as_json(told.manifest)
    elif as_json:
        show.as_json(told.document())
    else:
        replayed.shown(told)
    ctx.exit(1 if told.found else 0)


@replay.command("stop")
@click.argument("id", metavar="REPLAY", type=int)
@click.option("--because", required=True, metavar="WHY", help="Why; it is kept with your name.")
@json_option
@pass_asked
def stop(asked: Asked, *, id: int, because: str, as_json: bool) -> None:
    """Admit nothing more of a replay. What it has published stays; revert it, or replay again."""

    async def question(db: Database) -> tuple[int, int] | None:
        from headgate.ledger import replay as ledger

        return await ledger.stop(db, id, because=because)

    far = ask(asked.settings(), question)
    if far is None:
        raise UsageError(
            f"replay {id} is not running", hint="See what there is: headgate replay list"
        )
    if as_json:
        show.as_json({"replay": id, "done": far[0], "inputs": far[1]})
    else:
        click.echo(f"replay {id} is stopped, after {far[0]:,} of {far[1]:,} inputs")
