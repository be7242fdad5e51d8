"""How the demo looks: acts and their lines, and the race against the truth, live on a terminal."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import click

from headgate.cli import show

from .standing import Standing

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

WIDTH = 96
HALF, SHORTEST_HALF = 18, 11
# What is beside the bars: names and figures.
BESIDE = 58
REDRAW_SECONDS = 0.1
SAY_SECONDS = 5.0
# What fills half of a gauge, as a share of the whole sum.
FULL = Decimal("0.025")
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@dataclass(frozen=True, slots=True)
class Race:
    """What the race shows: who runs, how much there is to deliver, and how much was."""

    runners: Sequence[Standing]
    total: Decimal
    deliveries: int
    delivered: Callable[[], int]


class Stage:
    """Where the demo speaks: stdout, or stderr when stdout is for a program."""

    def __init__(self, *, err: bool) -> None:
        self._err = err
        self._stream = sys.stderr if err else sys.stdout

    def say(self, *lines: str) -> None:
        for line in lines:
            click.echo(line, err=self._err)

    def act(self, number: int, title: str) -> None:
        self.say("", click.style(f"{number}  {title}", bold=True))

    def row(self, left: str, right: str) -> None:
        self.say(f"   {left:<27}{right}")

    def mark(self, good: bool, text: str) -> None:
        self.say(
            "   " + click.style(("✓ " if good else "✗ ") + text, fg="green" if good else "red")
        )

    def quote(self, said: str) -> None:
        """What a command printed, folded to the width of the demo."""
        for line in said.splitlines():
            indent = " " * (5 + len(line) - len(line.lstrip()))
            for part in textwrap.wrap(
                line.strip(), WIDTH - len(indent), break_on_hyphens=False
            ) or [""]:
                self.say(click.style(indent + part, dim=True) if part else "")

    @asynccontextmanager
    async def live(self, race: Race) -> AsyncGenerator[None]:
        """Show the race while it lasts, and how it ended."""
        if not self._stream.isatty():
            telling = asyncio.create_task(self._tell(race))
            try:
                yield
            finally:
                telling.cancel()
            self.say(*(line.plain.rstrip() for line in picture(race)))
            return
        from rich.live import Live

        with Live(console=self._console(), auto_refresh=False) as view:
            drawing = asyncio.create_task(_draw(race, view))
            try:
                yield
            finally:
                drawing.cancel()
                view.update(_group(race, view.console.width), refresh=True)

    async def _tell(self, race: Race) -> None:
        while True:
            await asyncio.sleep(SAY_SECONDS)
            stand = " · ".join(
                f"{r.name} {'catching up' if r.pending else _signed(r.error)}" for r in race.runners
            )
            self.say(f"   … {race.delivered():,} of {race.deliveries:,} delivered: {stand}")

    def _console(self) -> Console:
        from rich.console import Console

        return Console(file=self._stream, highlight=False, markup=False, emoji=False)


async def _draw(race: Race, view: Live) -> None:
    while True:
        view.update(_group(race, view.console.width), refresh=True)
        await asyncio.sleep(REDRAW_SECONDS)


def _group(race: Race, columns: int) -> Text:
    from rich.text import Text

    # A very narrow terminal loses the ends of the lines, not their order.
    return Text("\n", no_wrap=True, overflow="crop").join(picture(race, columns))


def picture(race: Race, columns: int = WIDTH) -> list[Text]:
    """The race as lines: what was delivered, and how far each runner is from the truth.

    In few columns the bars are shorter: what is said behind them matters more.
    """
    from rich.text import Text

    half = max(SHORTEST_HALF, min(HALF, (columns - BESIDE) // 2))
    width, done = 2 * half + 1, race.delivered()
    filled = width * done // race.deliveries
    head = Text(f"   {'delivered':<16}")
    head.append("━" * filled, "cyan").append("─" * (width - filled), "dim")
    head.append(f"  {done:,} of {race.deliveries:,}, kill -9: ")
    head.append(", ".join(f"{r.kills}" for r in race.runners), "bold red")
    scale = Text(f"{'too little':<{half - 2}}truth{'too much':>{half - 2}}", "dim")
    lines = [head, Text(" " * 19).append_text(scale)]
    for runner in race.runners:
        line = Text(f"   {runner.name:<16}").append_text(_gauge(runner, race.total, half))
        said, style = _verdict(runner)
        lines.append(line.append(f"{_signed(runner.error):>12} mm  ").append(said, style))
    return lines


def _gauge(runner: Standing, total: Decimal, half: int) -> Text:
    """A bar from the truth to what there is: to the right too much, to the left too little."""
    from rich.text import Text

    share = min(Decimal(1), abs(runner.error) / (total * FULL))
    eighths = int(share * half * 8) or (1 if runner.error else 0)
    full, rest = divmod(eighths, 8)
    style = "yellow" if runner.pending else "red"
    if runner.error >= 0:
        bar = ("█" * full + _EIGHTHS[rest].strip()).ljust(half)
        return Text(" " * half).append("│", "bold green").append(bar, style)
    # There are no blocks that fill from the right by eighths; half of one has to do.
    bar = (("▐" if rest >= 4 or not full else "") + "█" * full).rjust(half)
    return Text().append(bar, style).append("│", "bold green").append(" " * half)


def _verdict(runner: Standing) -> tuple[str, str]:
    rows = runner.rows - runner.true_rows
    if runner.pending:
        return f"catching up, {show.many(runner.pending, 'file')} to do", "yellow"
    if rows:
        return f"{show.many(abs(rows), 'row')} {'too many' if rows > 0 else 'missing'}", "red"
    return ("exact", "green") if not runner.error else ("not exact", "red")


def _signed(error: Decimal) -> str:
    return f"{error:+,.2f}".replace("-", "−") if error else "0.00"
