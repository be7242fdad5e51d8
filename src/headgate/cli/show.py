"""How answers look: tables for people, JSON for programs, times both ways.

What comes from outside (uris, errors, previews) is shown as plain text: it can neither style our
output nor write to the reader's terminal.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, cast
from uuid import UUID

import click

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

# A table in a pipe keeps its columns whole: whoever reads it can cut them, not mend them.
_PIPE_COLUMNS = 4096
_STEPS = ((60.0, "s"), (60.0, "min"), (24.0, "h"), (365.0, "days"))

COLOURS = {
    "finalized": "green",
    "ok": "green",
    "quarantined": "red",
    "fail": "red",
    "waiting": "yellow",
    "warn": "yellow",
}


def console(*, err: bool = False) -> Console:
    """Where people read. Without a terminal there is no colour and no folding."""
    from rich.console import Console

    stream = sys.stderr if err else sys.stdout
    width = None if stream.isatty() else _PIPE_COLUMNS
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def out(*parts: RenderableType) -> None:
    """Show something on stdout. In a pipe no line is padded to the width of its table."""
    shown = console()
    if shown.is_terminal:
        for part in parts:
            shown.print(part)
        return
    with shown.capture() as caught:
        for part in parts:
            shown.print(part)
    click.echo("".join(f"{line.rstrip()}\n" for line in caught.get().splitlines()), nl=False)


def note(text: str) -> None:
    """Words beside the answer, on stderr."""
    click.echo(text, err=True)


def as_json(value: object) -> None:
    """The answer for programs, on stdout."""
    click.echo(json.dumps(plain(value), indent=2, ensure_ascii=False))


def plain(value: object) -> object:
    """The value in JSON's own types. Times are ISO 8601 in UTC, bytes are hex."""
    match value:
        case None | bool() | int() | float() | str():
            return value.value if isinstance(value, Enum) else value
        case Enum():
            return plain(value.value)
        case datetime():
            return value.astimezone(UTC).isoformat()
        case date() | Path() | UUID() | Decimal():
            return str(value)
        case timedelta():
            return value.total_seconds()
        case bytes():
            return value.hex()
        case Mapping():
            named = cast("Mapping[object, object]", value)
            return {str(k): plain(v) for k, v in named.items()}
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        case Iterable():
            return [plain(v) for v in cast("Iterable[object]", value)]
        case _:
            return str(value)


def text(value: object, style: str = "", *, limit: int = 0) -> Text:
    """A value as it may be shown to anyone: one line, nothing in it is obeyed."""
    from rich.text import Text

    from headgate.model.mask import printable

    said = "" if value is None else " ".join(printable(str(value)).split())
    if limit and len(said) > limit:
        said = said[: limit - 1] + "…"
    return Text(said, style=style or COLOURS.get(said, ""))


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Sequence[str] = (),
    gap: int = 2,
) -> Table:
    """Columns under their heads, without lines. The last column gives way when it is narrow."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for name in columns:
        last = name == columns[-1]
        made.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=not last,
            overflow="fold" if last else "ellipsis",
        )
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else text(cell) for cell in row))
    return made


def facts(pairs: Iterable[tuple[str, object]]) -> Table:
    """Names and their values, one under the other; a value that is None is left out."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None:
            made.add_row(name, value if isinstance(value, Text) else text(value))
    return made


def indented(part: RenderableType) -> RenderableType:
    """Two columns to the right, also where it folds."""
    from rich.padding import Padding

    return Padding(part, (0, 0, 0, 2), expand=False)


def heading(said: str) -> Text:
    from rich.text import Text

    return Text(said, style="bold")


def hints(*commands: str) -> None:
    """What to run next, on stderr."""
    for command in commands:
        note(f"  {command}")


def ago(at: datetime | None, now: datetime | None = None) -> str:
    """How long ago, or how far ahead, in one unit."""
    if at is None:
        return ""
    passed = ((now or datetime.now(UTC)) - at).total_seconds()
    said = span(abs(passed))
    if said == "0 s":
        return "now"
    return f"{said} ago" if passed > 0 else f"in {said}"


def moment(at: datetime | None, now: datetime | None = None) -> str | None:
    """A time both ways: by the clock on the wall here, and by how long ago."""
    if at is None:
        return None
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S %Z} ({ago(at, now)})"


def span(seconds: float) -> str:
    """A duration in the largest unit that fits."""
    value = seconds
    for size, unit in _STEPS:
        if value < size:
            return f"{value:.0f} {unit}"
        value /= size
    return f"{value:.1f} years"


def size(number: int | None) -> str:
    """Bytes as people say them."""
    if number is None:
        return ""
    value = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def near(uri: str) -> str:
    """A uri in a table: a file below the current folder by its path from here."""
    from urllib.parse import quote_from_bytes, unquote

    here = f"file://{quote_from_bytes(os.fsencode(os.getcwd())).rstrip('/')}/"
    return unquote(uri.removeprefix(here)) if uri.startswith(here) else uri


def many(number: int, one: str, several: str = "") -> str:
    """`1 entry`, `2 entries`."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"
