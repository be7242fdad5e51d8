"""How far a long command is and how long it will take: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic
from typing import Protocol

from . import show

# Elsewhere than on a terminal, so that a log of hours shows that it lives.
SAY_SECONDS = 10.0


class Told(Protocol):
    """How many are done, of how many (None: nobody knows), and what is done now."""

    def __call__(self, done: int, of: int | None, now: str = "") -> None: ...


@contextmanager
def progress(what: str) -> Generator[Told]:
    """Show it while the block runs. A stage with another total begins anew."""
    console = show.console(err=True)
    if not console.is_terminal:
        yield _Lines(what).told
        return
    from rich import progress as rich

    bar = rich.Progress(
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(30, complete_style="green", finished_style="green"),
        rich.TextColumn("{task.fields[count]}", style="dim"),
        rich.TextColumn("{task.fields[left]}", style="dim"),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=None, count="", left="")
        stage = _Stage()

        def told(done: int, of: int | None, now: str = "") -> None:
            left = stage.left(done, of)
            bar.update(
                task,
                description=now or what,
                completed=done,
                total=of,
                count=f"{done:,} of {of:,}" if of is not None else f"{done:,}",
                left=f"about {show.span(left)} left" if left is not None else "",
            )

        yield told


class _Stage:
    """What is under way, since when, and how much was done then."""

    def __init__(self) -> None:
        self._of: int | None = None
        self._began = 0.0
        self._first = 0

    def left(self, done: int, of: int | None) -> float | None:
        """Seconds until all is done, if it goes on like this."""
        if self._of != of or done < self._first:
            self._of, self._began, self._first = of, monotonic(), done
        since = done - self._first
        if of is None or since <= 0:
            return None
        return max(0, of - done) * (monotonic() - self._began) / since


class _Lines:
    def __init__(self, what: str) -> None:
        self._what = what
        self._stage = _Stage()
        self._said = monotonic()

    def told(self, done: int, of: int | None, now: str = "") -> None:
        left = self._stage.left(done, of)
        if monotonic() - self._said < SAY_SECONDS:
            return
        self._said = monotonic()
        count = f"{done:,} of {of:,}" if of is not None else f"{done:,}"
        rest = f", about {show.span(left)} left" if left is not None else ""
        show.note(f"{now or self._what}: {count}{rest}")
