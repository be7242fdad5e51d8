"""`headgate prove`: kill a pipeline at every point, tell it everything twice, count effects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate.errors import UsageError

from . import show
from .asked import Command, json_option
from .progress import progress

if TYPE_CHECKING:
    from headgate.runtime.prove.play import Played
    from headgate.runtime.prove.proof import Proof, Request

_FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


@click.command("prove", cls=Command)
@click.argument("target", metavar="FILE.py")
@click.argument("samples", metavar="SAMPLE...", nargs=-1, required=True, type=_FILE)
@click.option("--pipeline", metavar="NAME", help="Which one, if FILE.py declares several.")
@click.option("--setup", type=_FILE, metavar="FILE.sql", help="SQL that makes your own tables.")
@click.option("--only", metavar="WORLD", multiple=True, help="Play only these worlds.")
@click.option("--skip", metavar="PATTERN", multiple=True, help="Leave out when copying the folder.")
@click.option(
    "--ignore", metavar="PATTERN", multiple=True, help="Files or HOST:PORT that may differ: logs."
)
@click.option("--network", is_flag=True, help="Let handlers reach other machines.")
@click.option("--seed", metavar="N", type=int, default=1, help="Of the shuffled deliveries. [1]")
@click.option(
    "--patience",
    metavar="SECONDS",
    type=click.FloatRange(min=1),
    default=60.0,
    help="How long a process may take. [60]",
)
@click.option("-v", "--verbose", is_flag=True, help="List the worlds, and what was only noticed.")
@json_option
@click.pass_context
def prove(
    ctx: click.Context,
    *,
    target: str,
    samples: tuple[Path, ...],
    pipeline: str | None,
    setup: Path | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    ignore: tuple[str, ...],
    network: bool,
    seed: int,
    patience: float,
    verbose: bool,
    as_json: bool,
) -> None:
    """Prove that each SAMPLE has one effect, whatever happens to the handlers of FILE.py.

    The pipeline runs on scratch copies: in one world nothing goes wrong; in each of the
    others one thing does. Its process is killed at a named point, a handler fails, a
    delivery comes three times, two workers race, the clock shows another day. Every world
    must end as the first one did. Where one does not, the line that is to blame is named,
    with what to write instead.

    Your database, your store and your files are not touched: what handlers write lands in
    copies, and other machines are not reached unless you say --network. Three different
    samples show more than one.

    WORLD is crash, fails, released, told, raced, order, alone, clock, random, hash,
    listing, or a name that --verbose lists.

    Exit 0 if it is proved, 1 if there are faults, 2 if it cannot be tried.
    """
    from headgate.runtime.prove import words
    from headgate.runtime.prove.proof import Request

    request = Request(
        file=_pipeline_file(target),
        samples=list(dict.fromkeys(sample.resolve() for sample in samples)),
        pipeline=pipeline,
        setup=None if setup is None else setup.read_text(encoding="utf-8"),
        only=frozenset(only),
        skip=skip,
        ignore=ignore,
        network=network,
        seed=seed,
        patience_seconds=patience,
    )
    if not as_json:
        show.out(words.heading(target, len(request.samples)))
    proof = _prove(request)
    if as_json:
        show.as_json(words.plain(proof))
    else:
        show.out(*words.shown(proof, verbose=verbose))
    ctx.exit(0 if proof.ok else 1)


def _prove(request: Request) -> Proof:
    from headgate.runtime.loop import run
    from headgate.runtime.prove.ground import ground
    from headgate.runtime.prove.proof import prove as play_all

    async def go() -> Proof:
        with progress("Setting up") as told:

            def played(ended: Played, done: int, of: int) -> None:
                told(done, of, f"Worlds ({ended.world.changed})")

            async with ground() as made:
                return await play_all(made, request, played)

    return run(go)


def _pipeline_file(target: str) -> Path:
    file = Path(target)
    if not file.is_file():
        raise UsageError(f"there is no file {file.resolve()}", hint="Give a .py file.")
    if file.suffix != ".py":
        raise UsageError(f"{target} is not a Python file", hint="Give a .py file, then samples.")
    return file.resolve()
