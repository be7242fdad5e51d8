"""The words of a proof, for a terminal, a pipe and a test's failure: the same everywhere."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.model.mask import printable

from .finding import Finding
from .fixes import fix, title
from .play import Played
from .proof import Proof
from .world import TIMES_TOLD

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

BAR = 32
GOOD, BAD, DIM = "green", "red", "dim"


def said(proof: Proof, *, verbose: bool = False) -> str:
    """All of it as plain text."""
    from rich.console import Console

    out = Console(file=io.StringIO(), width=100, highlight=False, markup=False, emoji=False)
    for part in shown(proof, verbose=verbose):
        out.print(part)
    assert isinstance(out.file, io.StringIO)
    return "".join(f"{line.rstrip()}\n" for line in out.file.getvalue().splitlines())


def shown(proof: Proof, *, verbose: bool = False) -> Iterator[RenderableType]:
    """The account of the worlds, the findings, and the verdict."""
    from rich.padding import Padding

    yield ""
    yield Padding(_account(proof), (0, 0, 0, 2), expand=False)
    for number, found in enumerate(proof.findings, 1):
        yield ""
        yield from _finding(proof, number, found)
    told = [n for n in proof.notes if verbose or not n.quiet]
    if told:
        yield ""
        yield from (
            Padding(_text(f"Note: {n.said}", DIM), (0, 0, 0, 2), expand=False) for n in told
        )
    if verbose:
        yield ""
        yield from _worlds(proof)
    yield ""
    yield _verdict(proof)


def heading(file: str, samples: int) -> Text:
    from rich.text import Text

    return Text.assemble(("headgate prove ", DIM), (file, "bold"), f"   {_many(samples, 'sample')}")


def _account(proof: Proof) -> RenderableType:
    from rich.table import Table

    made = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=False)
    for _ in range(3):
        made.add_column(no_wrap=True)
    faulty = {name for found in proof.findings for name in found.worlds}
    for name, what, same, ends in _lines(proof):
        bad = [end for end in ends if end.world.name in faulty]
        result = _text(f"{len(bad)} of {len(ends)} differ", BAD) if bad else _text(same, GOOD)
        made.add_row(_text(name), what, result)
    return made


def _lines(proof: Proof) -> Iterator[tuple[str, Text, str, list[Played]]]:
    """What was tried, how much of it, what it came to if all is well, and the worlds."""
    effects = _many(proof.reference.state.effects, "effect")
    samples = len(proof.samples)
    if crashes := proof.of("crash"):
        yield "kill -9", _bar(proof, crashes), _each(proof), crashes
    if ends := proof.of("fails"):
        yield "fails once", _text("every handler, after all of it has run"), effects, ends
    if ends := proof.of("released"):
        yield "set aside", _text("and released"), effects, ends
    if ends := proof.of("told"):
        deliveries = samples * TIMES_TOLD
        told = f"{deliveries} deliveries, shuffled"
        yield f"told {TIMES_TOLD} times", _text(told), effects, ends
    if ends := proof.of("raced"):
        yield "raced", _text("2 receivers, 2 workers"), effects, ends
    if ends := proof.of("order", "alone"):
        yield "other order", _text("reversed · each sample in its own process"), "same", ends
    names = {"clock": "clock", "random": "random", "hash": "hash order", "listing": "listing"}
    if ends := proof.of(*names):
        kinds = [
            f"{n} ×{c}" if (c := len(proof.of(k))) > 1 else n
            for k, n in names.items()
            if proof.of(k)
        ]
        yield "other weather", _text(" · ".join(kinds)), "same", ends


def _bar(proof: Proof, crashes: list[Played]) -> Text:
    from rich.text import Text

    faulty = {name for found in proof.findings for name in found.worlds}
    bad = sum(end.world.name in faulty for end in crashes)
    red = -(-BAR * bad // len(crashes))
    points = {point.partition("#")[0] for end in crashes for point in end.killed}
    bar = Text().append("█" * (BAR - red), GOOD).append("░" * red, BAD)
    return bar.append(f"  {_many(len(crashes), 'world')}, {_many(len(points), 'crash point')}", "")


def _each(proof: Proof) -> str:
    return "1 effect each" if proof.reference.state.effects else "no effect"


def _finding(proof: Proof, number: int, found: Finding) -> Iterator[RenderableType]:
    from rich.text import Text

    at = found.at
    where = f"{at.file}:{at.line}" if at else proof.file.name
    yield Text.assemble(
        (f"  {number}  ", "bold red"), (f"{where}  ", "bold cyan"), (title(found), "bold")
    )
    yield ""
    if at is not None:
        yield from _source(proof, found)
        yield ""
    yield _indented(_text(f"{_capital(found.said)}."))
    if found.name is not None and found.left is not None:
        name, left, right = (_short(part) for part in (found.name, found.left, found.right))
        yield _text(f"     {name}  {left}  in the first world")
        yield _text(f"     {' ' * len(name)}  {right}  in this one")
    yield _indented(_text(_seen(found), DIM))
    first, *code = fix(found, proof.pipeline)
    yield _indented(Text.assemble(("Fix: ", "bold green"), first))
    yield from (Text(f"          {line}", "green") for line in code)


def _source(proof: Proof, found: Finding) -> Iterator[Text]:
    """The line, marked, between its neighbours."""
    from rich.text import Text

    at = found.at
    assert at is not None
    lines = _read(proof.file.parent / at.file)
    if not 0 < at.line <= len(lines):
        yield Text.assemble((f"   ▸ {at.line:4} ", "bold red"), ("│ ", DIM), at.code)
        return
    for n in range(max(1, at.line - 2), min(len(lines), at.line + 1) + 1):
        text = printable(lines[n - 1].expandtabs(4))[:88]
        if n != at.line:
            if text.strip():
                yield Text(f"     {n:4} │ {text}", DIM)
            continue
        yield Text.assemble((f"   ▸ {n:4} ", "bold red"), ("│ ", DIM), (text, "bold"))
        indent = len(text) - len(text.lstrip())
        yield Text(f"          │ {' ' * indent}{'^' * len(text.strip())}", "red")


def _read(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _seen(found: Finding) -> str:
    more = len(found.worlds) - 1
    also = f", and in {_many(more, 'other world')}" if more else ""
    return f"Seen when {found.world.changed}{also}."


def _worlds(proof: Proof) -> Iterator[Text]:
    yield _text("  Worlds", "bold")
    for end in proof.played:
        mark = "" if end.reached else " (not reached, and not counted)"
        effects = _many(end.state.effects, "effect")
        yield _text(f"  {end.world.name}: {end.world.changed}{mark}: {effects}", DIM)
    if proof.never:
        yield _text(f"  never passed, so not proved: {', '.join(proof.never)}", DIM)


def _verdict(proof: Proof) -> Text:
    from rich.text import Text

    figures = (
        f"   {_many(proof.kills, 'kill')}, {_many(proof.worlds, 'world')}, {proof.seconds:.1f} s"
    )
    if proof.findings:
        count = _many(len(proof.findings), "fault")
        return Text.assemble((f"  Not proved: {count}.", "bold red"), (figures, DIM))
    aside = "every sample is set aside once, without effect"
    effects = "one change, one effect" if proof.reference.state.effects else aside
    return Text.assemble((f"  Proved: {effects}.", "bold green"), (figures, DIM))


def plain(proof: Proof) -> dict[str, Any]:
    """The same for programs."""
    return {
        "ok": proof.ok,
        "pipeline": proof.pipeline,
        "file": str(proof.file),
        "samples": [str(sample) for sample in proof.samples],
        "effects": proof.reference.state.effects,
        "kills": proof.kills,
        "crash_points": sorted(
            {point.partition("#")[0] for end in proof.of("crash") for point in end.killed}
        ),
        "never_passed": proof.never,
        "findings": [_plain(found, proof.pipeline) for found in proof.findings],
        "notes": [note.said for note in proof.notes],
        "worlds": [
            {
                "name": end.world.name,
                "kind": end.world.kind,
                "changed": end.world.changed,
                "reached": end.reached,
                "effects": end.state.effects,
            }
            for end in proof.played
        ],
        "seconds": round(proof.seconds, 3),
    }


def _plain(found: Finding, pipeline: str) -> dict[str, Any]:
    at = found.at
    return {
        "cause": found.cause,
        "title": title(found),
        "file": at.file if at else None,
        "line": at.line if at else None,
        "code": at.code if at else None,
        "said": found.said,
        "world": found.world.name,
        "changed": found.world.changed,
        "worlds": sorted(found.worlds),
        "variable": found.name,
        "fix": fix(found, pipeline),
    }


def _indented(text: Text) -> RenderableType:
    """Under its heading, also where it folds."""
    from rich.padding import Padding

    return Padding(text, (0, 0, 0, 5), expand=False)


def _short(value: str | None) -> str:
    said = value or ""
    return said if len(said) <= 60 else said[:59] + "…"


def _text(value: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(printable(value), style=style)


def _capital(text: str) -> str:
    """A sentence begins with a capital, a name stays as it is."""
    first = text.partition(" ")[0].rstrip(":")
    return text if any(c in first for c in "./_(") else text[:1].upper() + text[1:]


def _many(number: int, one: str) -> str:
    return f"{number:,} {one}{'' if number == 1 else 's'}"
