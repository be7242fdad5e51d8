"""A terminal, as much of one as our commands need: text, colours, and going back up to redraw.

What it does not know it refuses: a picture that quietly differs from what was shown is worse
than none.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, replace
from itertools import groupby

COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_TOKEN = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|([\r\n\t\x07])|([^\x1b\x00-\x1f]+)", re.DOTALL)


@dataclass(frozen=True)
class Style:
    """How a character looks."""

    colour: str = ""
    bold: bool = False
    dim: bool = False


@dataclass(frozen=True)
class Line:
    """A line of the screen: runs of text that look alike, each with the column it begins at."""

    runs: tuple[tuple[int, str, Style], ...]

    @property
    def text(self) -> str:
        shown = ""
        for column, text, _ in self.runs:
            shown = shown.ljust(column) + text
        return shown


class Screen:
    """Grows downwards for ever; nothing scrolls away."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._rows: list[dict[int, tuple[str, Style]]] = [{}]
        self._row = self._column = 0
        self._style = Style()
        self._decode = codecs.getincrementaldecoder("utf-8")()
        self._rest = ""

    def feed(self, data: bytes) -> None:
        """Take what a program wrote. A sequence may come in parts."""
        text = self._rest + self._decode.decode(data)
        # A sequence at the very end may not be whole yet.
        cut = text.rfind("\x1b")
        if cut >= 0 and not _TOKEN.match(text, cut):
            text, self._rest = text[:cut], text[cut:]
        else:
            self._rest = ""
        at = 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                raise ValueError(f"a sequence this terminal does not know: {text[at : at + 12]!r}")
            self._obey(*token.groups())
            at = token.end()

    def lines(self) -> list[Line]:
        """What is to be seen now, without empty lines at the end."""
        shown = [_line(row) for row in self._rows]
        while len(shown) > 1 and not shown[-1].runs:
            shown.pop()
        return shown

    def _obey(
        self, numbers: str | None, command: str | None, control: str | None, text: str | None
    ) -> None:
        if text is not None:
            for character in text:
                self._put(character)
        elif control is not None:
            self._control(control)
        elif command is not None and numbers is not None:
            self._sequence(numbers, command)

    def _put(self, character: str) -> None:
        if self._column == self._columns:
            self._column = 0
            self._down()
        self._rows[self._row][self._column] = (character, self._style)
        self._column += 1

    def _control(self, control: str) -> None:
        match control:
            case "\r":
                self._column = 0
            case "\n":
                self._down()
            case "\t":
                self._column = min(self._columns - 1, self._column // 8 * 8 + 8)
            case _:
                pass  # the bell

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append({})

    def _sequence(self, numbers: str, command: str) -> None:
        if numbers.startswith("?"):
            return  # modes: the cursor is hidden or shown, and is never drawn here
        values = [int(n or 0) for n in numbers.split(";")]
        count = max(1, values[0])
        match command:
            case "m":
                for value in values:
                    self._style = _styled(self._style, value)
            case "A":
                self._row = max(0, self._row - count)
            case "K":
                keep = {0: range(self._column), 1: range(self._column, self._columns)}
                row = self._rows[self._row]
                kept = keep.get(values[0], range(0))
                self._rows[self._row] = {c: cell for c, cell in row.items() if c in kept}
            case _:
                raise ValueError(f"a sequence this terminal does not know: {numbers}{command}")


def _styled(style: Style, value: int) -> Style:
    match value:
        case 0:
            return Style()
        case 1:
            return replace(style, bold=True)
        case 2:
            return replace(style, dim=True)
        case 22:
            return replace(style, bold=False, dim=False)
        case 39:
            return replace(style, colour="")
        case _ if 30 <= value <= 37:
            return replace(style, colour=COLOURS[value - 30])
        case _ if 90 <= value <= 97:
            return replace(style, colour=COLOURS[value - 90])
        case _:
            raise ValueError(f"a style this terminal does not know: {value}")


def _line(row: dict[int, tuple[str, Style]]) -> Line:
    cells = [(c, *row.get(c, (" ", Style()))) for c in range(max(row, default=-1) + 1)]
    runs: list[tuple[int, str, Style]] = []
    for style, group in groupby(cells, key=lambda cell: cell[2]):
        run = list(group)
        text = "".join(character for _, character, _ in run)
        if text.strip():
            lead = len(text) - len(text.lstrip())
            runs.append((run[0][0] + lead, text.strip(), style))
    return Line(tuple(runs))
