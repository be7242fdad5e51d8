"""`headgate top`: the ledger at work, live in a terminal."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from headgate.errors import LedgerUnavailable

from . import scene, show
from .asked import Asked, Command, json_option, pass_asked
from .ledger import ask, opened

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headgate.pg import Database
    from headgate.settings import Settings

_QUIT = b"qQ\x1b\x04"


@click.command(cls=Command)
@click.option("--once", is_flag=True, help="Show it once and end.")
@click.option("--every", default="1s", metavar="TIME", help="How often it is looked at. [1s]")
@json_option
@pass_asked
def top(asked: Asked, *, once: bool, every: str, as_json: bool) -> None:
    """Everything at one look: what is wrong first, then how it flows.

    Rates, what is to do, retries, quarantine, watermarks, error budgets, redrives and replays, and
    who works. It needs the ledger alone, and works from any machine that reaches it. q ends it.
    """
    from headgate.model.duration import seconds

    settings = asked.settings()
    pause = max(seconds(every, "--every"), 0.1)
    if as_json or once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        seen = ask(settings, lambda db: scene.look(db, settings))
        if as_json:
            show.as_json(scene.document(seen))
        else:
            show.out(*scene.drawn(seen))
        return
    from headgate.runtime.loop import run

    run(lambda: _watch(settings, pause))


async def _watch(settings: Settings, pause: float) -> None:
    from rich.console import Console, Group
    from rich.live import Live

    console = Console(highlight=False, markup=False, emoji=False)
    over = asyncio.Event()
    async with opened(settings) as db:
        with _keys(over), Live(console=console, screen=True, auto_refresh=False) as live:
            while not over.is_set():
                parts = await _parts(db, settings)
                live.update(Group(*parts), refresh=True)
                try:
                    await asyncio.wait_for(over.wait(), pause)
                except TimeoutError:
                    continue


async def _parts(db: Database, settings: Settings) -> list[RenderableType]:
    try:
        seen = await scene.look(db, settings)
    except LedgerUnavailable as error:
        # It comes back by itself, and so does this view.
        return [_head("the ledger is away"), "", show.text(str(error), "red"), "Trying again…"]
    return [_head(f"{seen.clock.now.astimezone():%H:%M:%S}"), "", *scene.drawn(seen)]


def _head(said: str) -> RenderableType:
    line = show.heading("Headgate")
    line.append(" ").append_text(show.text(f"{said} (q ends this)", "dim"))
    return line


@contextmanager
def _keys(over: asyncio.Event) -> Generator[None]:
    """Hear single keys while the view is open; the terminal is left as it was found."""
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    loop = asyncio.get_running_loop()

    def pressed() -> None:
        said = os.read(keyboard, 64)
        if not said or any(key in _QUIT for key in said):
            over.set()

    tty.setcbreak(keyboard)
    loop.add_reader(keyboard, pressed)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, over.set)
    try:
        yield
    finally:
        loop.remove_reader(keyboard)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
