"""A view that stays at the bottom of the terminal while log lines scroll above it.

Workers write their logs, and handlers whatever they print, to the file descriptors they inherited.
While the view is open these lead into a pipe, and what comes out of it is printed above the view:
nobody draws over anybody.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Update = Callable[["RenderableType"], None]


@contextmanager
def view(*, keep: bool) -> Generator[Update]:
    """Hand out a function that replaces what the view shows. `keep` leaves its last picture."""
    from rich.console import Console
    from rich.live import Live

    sys.stdout.flush()
    sys.stderr.flush()
    saved = {number: os.dup(number) for number in (1, 2)}
    reading, writing = os.pipe()
    with os.fdopen(os.dup(saved[2]), "w", encoding="utf-8") as terminal:
        console = Console(file=terminal, highlight=False, markup=False, emoji=False)
        live = Live(
            console=console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            transient=not keep,
        )
        pump = threading.Thread(target=_pump, args=(reading, console), daemon=True)
        for number in saved:
            os.dup2(writing, number)
        os.close(writing)
        pump.start()
        try:
            with live:
                yield lambda shown: live.update(shown, refresh=True)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, original in saved.items():
                os.dup2(original, number)
                os.close(original)
            # A grandchild of a handler may hold the pipe for longer than we want to wait.
            pump.join(timeout=1.0)


def _pump(reading: int, console: Console) -> None:
    from rich.text import Text

    # ValueError: the view was closed while somebody still held the pipe.
    with suppress(ValueError), os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            console.print(Text.from_ansi(line.rstrip("\n")))
