"""A proof: every world played, every difference explained.

First the reference, twice: what differs between those two differs by itself. Then a few worlds that
show which points of the path the pipeline comes by, then all the others.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headgate.errors import UsageError
from headgate.model.entry import Point

from . import world as worlds
from .acting import CALLED
from .compare import Spared, made_up
from .copying import copy_around, copy_samples
from .finding import Finding, Inquiry
from .ground import Ground
from .notes import Note, notes
from .play import Played, Script, look, play, together
from .world import World

# One process works while the next world is furnished; more would wait for each other.
AT_ONCE = max(2, min(4, os.cpu_count() or 2))
_NOT_THERE = re.compile(r"(relation|schema|column|function|type) .*does not exist")
_FIRST = f"{Point.STAGED}#1"

Progress = Callable[[Played, int, int], None]

# Where the files of a catalog are written: after the commit, by a process without the user's code.
AFTERWARDS = {Point.PROJECTED, Point.BEFORE_PROJECT, Point.AFTER_PROJECT}


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be proved. `only` names kinds of worlds, or worlds; empty is all of them.

    `skip` are files that are not copied, `ignore` files and addresses that may differ.
    """

    file: Path
    samples: Sequence[Path]
    pipeline: str | None = None
    setup: str | None = None
    only: frozenset[str] = frozenset()
    skip: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    network: bool = False
    seed: int = 1
    patience_seconds: float = 60.0


@dataclass(slots=True)
class Proof:
    """What came of it."""

    pipeline: str
    file: Path
    root: Path
    samples: list[Path]
    reference: Played
    played: list[Played] = field(default_factory=list[Played])
    findings: list[Finding] = field(default_factory=list[Finding])
    notes: list[Note] = field(default_factory=list[Note])
    never: list[str] = field(default_factory=list[str])
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.findings

    @property
    def kills(self) -> int:
        return sum(len(p.killed) for p in self.played)

    @property
    def worlds(self) -> int:
        """Those in which everything happened that they are about."""
        return sum(p.reached for p in self.played)

    def of(self, *kinds: str) -> list[Played]:
        return [p for p in self.played if p.world.kind in kinds and p.reached]


async def prove(ground: Ground, request: Request, told: Progress | None = None) -> Proof:
    """Play all worlds and look into what differs."""
    began = time.monotonic()
    _check(request)
    script, declared = await _prepare(ground, request)
    run = _Run(ground, script, told)
    plain = worlds.reference(len(script.samples))
    before, again = await run.play([plain, replace(plain, name="again")])
    _require(before)
    ends = [again, *await _play_all(run, request, before)]
    if not any(end.reached for end in ends[1:]):
        raise UsageError(
            f"the pipeline does not come by: {', '.join(sorted(request.only))}",
            hint="Leave out --only, or see with --verbose which worlds there are.",
        )
    columns = made_up(before.state, again.state, frozenset(declared["tables"]))
    spared = Spared(columns, request.ignore)
    findings = await Inquiry(ground, script, before, spared).hold(ends)
    passed = {point for end in [before, *ends] for point in end.points}
    return Proof(
        pipeline=script.pipeline,
        file=request.file,
        root=script.root,
        samples=list(request.samples),
        reference=before,
        played=[before, *ends],
        findings=sorted(findings, key=lambda f: (f.at is None, f.at.line if f.at else 0)),
        notes=notes(before, ends, spared),
        never=[] if request.only else [p.value for p in Point if p not in passed | AFTERWARDS],
        seconds=time.monotonic() - began,
    )


class _Run:
    """Plays worlds, a few at once, and tells how far it is."""

    def __init__(self, ground: Ground, script: Script, told: Progress | None) -> None:
        self._ground = ground
        self._script = script
        self._told = told
        self._places = asyncio.Semaphore(AT_ONCE)
        self._done = self._total = 0

    def expect(self, more: int) -> None:
        """So many worlds are to come."""
        self._total = max(self._total, self._done + more)

    async def play(self, to_play: Sequence[World]) -> list[Played]:
        self.expect(len(to_play))
        return await together(self._one(world) for world in to_play)

    async def _one(self, world: World) -> Played:
        async with self._places:
            ended = await play(self._ground, self._script, world)
        self._done += 1
        if self._told is not None:
            self._told(ended, self._done, self._total)
        return ended


async def _play_all(run: _Run, request: Request, before: Played) -> list[Played]:
    samples, only = len(request.samples), request.only
    plain, fails, released = (
        make(samples) for make in (worlds.reference, worlds.fails, worlds.released)
    )
    calm = worlds.choose(worlds.calm(samples, request.seed), only)
    plainly = list(worlds.crashes(plain, before.points, [*Point, CALLED]))
    if only and "crash" not in only:
        return await run.play(worlds.choose([fails, released, *plainly, *calm], only))
    tidies = worlds.crash(plain, _FIRST)
    run.expect(len(plainly) + len(calm) + 12)
    probes = await run.play([fails, released, tidies])
    by_failing, by_releasing, by_tidying = (probe.points for probe in probes)
    failing = list(worlds.crashes(fails, by_failing, set(by_failing) - set(before.points)))
    aside = set(by_releasing) - set(before.points) - set(by_failing)
    rest = [
        *(w for w in plainly if w.name != tidies.name),
        *failing,
        *worlds.crashes(released, by_releasing, aside),
        *worlds.housekeeping(samples, _FIRST, by_tidying),
        *calm,
    ]
    return [*probes, *await run.play(rest)]


def _check(request: Request) -> None:
    """What can be told before anything is started."""
    if not request.samples:
        raise UsageError("there is no sample", hint="Give one file or more that it would take in.")
    for name in request.only:
        if not worlds.is_world(name):
            known = ", ".join(worlds.KINDS)
            raise UsageError(
                f"there is no world {name!r}",
                hint=f"There are: {known}; crash:POINT, as in crash:handled",
            )


async def _prepare(ground: Ground, request: Request) -> tuple[Script, dict[str, Any]]:
    """Copies of everything, a database to copy, and which pipeline it is about."""
    folder = ground.folder / f"request_{ground.number()}"
    root = await asyncio.to_thread(copy_around, request.file, folder / "base", request.skip)
    samples = await asyncio.to_thread(copy_samples, request.samples, folder / "samples")
    script = Script(
        base=folder / "base",
        root=root,
        target=str(request.file.relative_to(root)),
        pipeline="",
        samples=tuple(samples),
        template=await ground.template(request.setup, [s["uri"] for s in samples]),
        real=(str(root), *sorted({str(s.parent) for s in request.samples})),
        network=request.network,
        patience_seconds=request.patience_seconds,
    )
    declared = _choose(await look(ground, script), request.pipeline)
    if not declared["handlers"]:
        raise UsageError(
            f"{declared['name']} has no handlers: there is nothing to prove",
            hint="Give it one: @pipeline.rows(...), @pipeline.transform or @pipeline.apply",
        )
    return replace(script, pipeline=declared["name"]), declared


def _choose(declared: list[dict[str, Any]], name: str | None) -> dict[str, Any]:
    """The pipeline that is named, or the only one, or the only one that would get the samples."""
    names = ", ".join(p["name"] for p in declared)
    if name is not None:
        found = [p for p in declared if p["name"] == name]
        if not found:
            raise UsageError(f"there is no pipeline {name!r} there", hint=f"It has: {names}")
        return found[0]
    found = declared if len(declared) == 1 else [p for p in declared if p["owns"]]
    if len(found) != 1:
        raise UsageError(
            f"several pipelines are declared there: {names}", hint="Choose one: --pipeline NAME"
        )
    return found[0]


def _require(before: Played) -> None:
    """Refuse to prove anything about what cannot even run once."""
    if before.trouble:
        raise UsageError(
            f"the pipeline did not finish its samples, though nothing went wrong: {before.trouble}",
            hint="Try one: headgate try. If it needs that long, give it: --patience SECONDS",
        )
    refused = [r for r in before.state.records if r["detail"].get("refused")]
    for uri, ending in before.state.endings.items():
        if ending.outcome == "quarantined" and (shut := [r for r in refused if r["uri"] == uri]):
            raise UsageError(
                f"{shut[0]['file']}:{shut[0]['line']} wants to reach {shut[0]['detail']['to']}, "
                "and a proof does not let it",
                hint="Let it with --network, or give the handler a stand-in on this machine.",
            )
        if _NOT_THERE.search(ending.error):
            raise UsageError(
                f"{uri}: {ending.error}",
                hint="The scratch database has only what the pipeline declares. Make your own "
                "tables with --setup FILE.sql.",
            )
