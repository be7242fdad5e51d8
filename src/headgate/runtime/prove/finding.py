"""From differences to causes: which line did what, in which worlds, and what to write instead.

Where the witness saw the deed, its line is known. Where only the output differs, two worlds are
played again with a trace, and the first line that came out differently is named. One cause is one
finding, however many worlds it shows in.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .compare import Difference, Spared, differences
from .ground import Ground
from .play import Played, Script, played
from .state import Record
from .trace import Divergence, first_difference, sending_lines
from .world import Kind, World, reference

Cause = Literal[
    "file", "mail", "request", "socket", "database", "call", "process",
    "clock", "random", "hash", "listing", "earlier", "order", "attempt", "race", "unstable",
    "raised", "stuck",
]  # fmt: skip

# What an output that differs in such a world depends on. In this order: whoever depends on what
# came earlier also depends on the attempt.
_DEPENDS: dict[Kind, Cause] = {
    "clock": "clock",
    "random": "random",
    "hash": "hash",
    "listing": "listing",
    "alone": "earlier",
    "order": "order",
    "reference": "unstable",
    "fails": "attempt",
    "crash": "attempt",
    "released": "attempt",
    "told": "race",
    "raced": "race",
}
_WEATHER: frozenset[Kind] = frozenset({"clock", "random", "hash", "listing"})
_LATER: frozenset[Cause] = frozenset({"order", "attempt", "race"})
_WRITER = re.compile(r"prove:(?:(?P<file>.+):)?(?P<line>\d+)")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the user's code."""

    file: str
    line: int
    code: str


@dataclass(slots=True)
class Finding:
    """One fault: what was seen, where, in which worlds. `said` is of the first world."""

    cause: Cause
    thing: str
    said: str
    world: World
    at: Line | None = None
    name: str | None = None  # of the variable that came out differently
    left: str | None = None
    right: str | None = None
    mode: str = ""
    worlds: set[str] = field(default_factory=set[str])


class Inquiry:
    """Collects findings. Two with one line are one."""

    def __init__(self, ground: Ground, script: Script, before: Played, spared: Spared) -> None:
        self._ground = ground
        self._script = script
        self._before = before
        self._spared = spared
        self._path = script.base.parent / "trace"  # that of the reference, once it was asked for
        self._found: dict[tuple[object, ...], Finding] = {}
        self._explained: dict[tuple[str, ...], Finding] = {}

    async def hold(self, ends: Sequence[Played]) -> list[Finding]:
        """Look into every world that did not end as the reference did."""
        seen = [(end, differences(self._before, end, self._spared)) for end in ends]
        unclear: list[tuple[Played, Difference]] = []
        for end, found in sorted(seen, key=lambda one: _eloquence(one[0].world)):
            for difference in found:
                if not self._clear(end, difference):
                    unclear.append((end, difference))
        ranks = list(_DEPENDS)
        for end, difference in sorted(unclear, key=lambda one: ranks.index(one[0].world.kind)):
            await self._look_into(end, difference)
        return list(self._found.values())

    def _clear(self, end: Played, d: Difference) -> bool:
        """Is the cause known without asking further?"""
        world = end.world
        match d.what:
            case "file" if world.kind not in _WEATHER:
                mode = d.record["detail"].get("mode", "") if d.record else ""
                cause: Cause = "process" if d.record and d.record["what"] == "process" else "file"
                self._add(cause, d, world, _line(d.record), mode=mode)
            case "connect":
                kinds: dict[str, Cause] = {"smtp": "mail", "socket": "socket"}
                self._add(kinds.get(d.thing, "request"), d, world, _line(d.record))
            case "call":
                self._add("call", d, world, _line(d.record))
            case "trouble":
                self._add("stuck", d, world, None)
            case "rows" if d.thing in end.state.writers:
                for who in sorted(end.state.writers[d.thing]):
                    self._add("database", d, world, _writer(who, end.state.records))
            case "outcome" if d.record is not None and world.kind not in _WEATHER:
                self._add("raised", d, world, _line(d.record))
            case _:
                return False
        return True

    async def _look_into(self, end: Played, d: Difference) -> None:
        cause = _DEPENDS[end.world.kind]
        known = self._explained.get(d.signature)
        if known is not None and (cause == known.cause or cause in _LATER or known.cause == "file"):
            known.worlds.add(end.world.name)
            return
        split = await self._divergence(end.world)
        at = _witnessed(cause, end) if split is None else Line(split.file, split.line, split.code)
        if at is None and d.what == "rows" and self._path.exists():
            # Every path was the same: it is what was sent that differs in its effect.
            sent = sending_lines(self._path)
            at = Line(*sent.pop()) if len(sent) == 1 else None
        self._add(cause, d, end.world, at, split=split)

    async def _divergence(self, world: World) -> Divergence | None:
        if world.processes > 1:
            return None  # two processes at once leave no path to compare
        if not self._path.exists():
            plain = reference(len(self._script.samples))
            async with played(self._ground, self._script, plain, trace=True) as (_, folder):
                shutil.move(folder / "trace", self._path)
        async with played(self._ground, self._script, world, trace=True) as (_, folder):
            return first_difference(self._path, folder / "trace")

    def _add(
        self,
        cause: Cause,
        d: Difference,
        world: World,
        at: Line | None,
        *,
        mode: str = "",
        split: Divergence | None = None,
    ) -> None:
        key = (at.file, at.line) if at else (cause, d.what, d.thing)
        found = self._found.get(key)
        if found is None:
            found = Finding(cause, d.thing, d.said, world, at, mode=mode)
            if split is not None:
                found.name, found.left, found.right = split.name, split.left, split.right
            self._found[key] = found
        elif found.cause == "socket" and cause in ("mail", "request"):
            found.cause, found.thing, found.said, found.world = cause, d.thing, d.said, world
        found.worlds.add(world.name)
        self._explained.setdefault(d.signature, found)


def _eloquence(world: World) -> int:
    """In which world a fault is easiest to understand."""
    if world.kind == "crash" and len(world.crashes) == 1:
        return 0 if world.crashes[0].startswith("handled#") else 1
    kinds: Iterable[Kind] = ("fails", "crash", "released", "told", "raced", "alone", "order")
    return 2 + (list(kinds).index(world.kind) if world.kind in kinds else 9)


def _line(record: Record | None) -> Line | None:
    if record is None or record["line"] is None:
        return None
    return Line(record["file"], record["line"], record["code"])


def _witnessed(cause: Cause, end: Played) -> Line | None:
    """The one line that read the clock, drew or listed, where the paths did not tell."""
    lines = {_line(r) for r in end.state.records if r["what"] == cause and r["uri"]}
    return lines.pop() if len(lines) == 1 else None


def _writer(who: str, records: Sequence[Record]) -> Line | None:
    """The line that a connection's name tells of."""
    told = _WRITER.fullmatch(who)
    if told is None:
        return None
    number = int(told["line"])
    same = [r for r in records if r["what"] == "database" and r["line"] == number]
    return _line(same[-1]) if same else Line(told["file"] or "", number, "")
