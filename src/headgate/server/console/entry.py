"""*Entry*: the life of one entry, step by step, and why it is where it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from headgate.errors import UsageError
from headgate.ledger import explain, history, reset
from headgate.ledger.explain import Statement
from headgate.ledger.history import EntryState
from headgate.ledger.life import JournalLine, Life, life
from headgate.model.entry import DECIDED
from headgate.model.facts import run_name
from headgate.server.doors import Serving, ledger
from headgate.server.problem import Refusal

from .page import pages, render
from .sight import Sight, sight
from .words import name_of

router = pages()
FOUND = 50
TONES = {"finalized": "good", "quarantined": "bad", "waiting": "warn", "fenced": "warn"}


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happened to it. `bars` are the steps of an attempt, as shares of its time."""

    at: datetime
    title: str
    tone: str
    proof: str
    detail: str = ""
    error: str | None = None
    bars: tuple[Bar, ...] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """One step of an attempt: when it was reached, in milliseconds since the claim."""

    name: str
    ms: int | None
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Reset:
    """What a reset would mean, or why it means nothing."""

    how: str = ""
    means: str = ""
    refusal: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """One entry, as the page shows it; without names and errors where it is restricted."""

    life: Life
    uri: str
    steps: list[Step]
    said: list[Statement]
    trace: str | None
    runs: list[str]
    reset: Reset
    hidden: bool


@router.get("/find")
async def find(request: Request, q: str = "") -> Response:
    """An entry by its number, its key or the beginning of it, a journal line, or its uri."""
    serving: Serving = request.app.state.serving
    by = await sight(request)
    refusal = ""
    found: list[EntryState] = []
    async with serving.readers, ledger():
        try:
            found = await history.find(serving.db, q, limit=FOUND, quick=True) if q.strip() else []
        except UsageError as error:
            refusal = f"{error}: {error.hint}"
    # What is found by its name is known by its name.
    named = not q.strip().replace("/", "").isdecimal()
    found = [f for f in found if by.by.sees(f.pipeline) and not (named and by.hides(f.pipeline))]
    if len(found) == 1:
        return RedirectResponse(f"/entries/{found[0].entry}", 303)
    lines = [(f, by.uri(f.pipeline, f.uri)) for f in found]
    return render(request, "find.html", "Find", q=q, lines=lines, refusal=refusal)


@router.get("/entries/{entry}")
async def entry(request: Request, entry: int) -> Response:
    """The life of one entry."""
    serving: Serving = request.app.state.serving
    by = await sight(request)
    async with serving.readers, ledger():
        known = await life(serving.db, entry) if 0 < entry < history.NEWEST else None
        if known is None:
            raise Refusal("not_found", f"there is no entry {entry}")
        by.need(known.pipeline)
        view = await _view(serving, by, known)
    title = f"Entry {entry}: {name_of(view.uri)}"
    live = known.settled_at is None
    return render(request, "entry.html", title, here="changes", live=live, view=view)


async def _view(serving: Serving, by: Sight, known: Life) -> View:
    hidden = by.hides(known.pipeline)
    fences = [line.fence for line in known.lines if line.attempt > 0]
    return View(
        life=known,
        uri=by.uri(known.pipeline, known.uri),
        steps=sorted(_steps(known, hidden=hidden), key=lambda step: step.at),
        said=[] if hidden else list(explain.statements(known)),
        trace=None if hidden else known.envelope.get("trace"),
        runs=[run_name(known.entry, fence) for fence in dict.fromkeys(fences)],
        reset=await _reset(serving, known.entry),
        hidden=hidden,
    )


async def _reset(serving: Serving, entry: int) -> Reset:
    try:
        how = await reset.plan(serving.db, entry)
    except UsageError as error:
        return Reset(refusal=f"{error}", hint=error.hint or "")
    return Reset(how, reset.MEANS[how])


def _steps(x: Life, *, hidden: bool) -> Iterator[Step]:
    """Everything that happened, each with the row that says so."""
    entry = f"entry {x.entry}"
    by = f"by {x.envelope.get('source', 'its source')} ({x.envelope.get('detector', '')})"
    yield Step(x.received_at, "Received", "busy", entry, by)
    for id, at in x.conflict_rows:
        told = "the same key with another payload: refused, and kept as evidence"
        yield Step(at, "Conflict", "bad", f"conflict {id}", told)
    if x.told_again > x.conflicts and x.last_told_at is not None:
        times = x.told_again - x.conflicts
        told = f"{times:,} time{'' if times == 1 else 's'}, and not done again; this is the last"
        yield Step(x.last_told_at, "Told again", "calm", f"redelivery {x.entry}", told)
    for line in x.lines:
        yield _line(line, hidden=hidden)
    for action in x.actions:
        if action.verb not in _BY_LINE:
            told = f"{action.actor}, because: {action.because}"
            yield Step(action.at, action.verb.capitalize(), "busy", f"action {action.id}", told)
    for call in x.calls:
        proof = f"call {x.entry}/{call.name}"
        yield Step(call.begun, f"Call {call.name} begun", "calm", proof, "a step outside Postgres")
        if call.done is not None:
            yield Step(call.done, f"Call {call.name} done", "calm", proof, "not made again")
        if call.undone is not None:
            yield Step(call.undone, f"Call {call.name} undone", "warn", proof)
    if x.due_at is not None:
        yield Step(x.due_at, "Due again", "warn", f"work {x.entry}", "its next attempt")


# Whoever did these is told by the line of the journal that was written with them.
_BY_LINE = frozenset({"release", "discard", "undiscard"})


def _line(line: JournalLine, *, hidden: bool) -> Step:
    error = line.facts.get("error")
    proof = line.pointer if line.commit is None else f"{line.pointer}, commit {line.commit}"
    if line.attempt == 0 and line.steps and line.steps[0][0] in DECIDED:
        told = " → ".join(name for name, _ in line.steps)
        return Step(line.at, (line.reason or "Decided").capitalize(), "busy", proof, told)
    who = f"fence {line.fence}" + (f", {line.worker}" if line.worker else "")
    outcome = line.outcome.replace("_", " ")
    why = f" ({line.reason})" if line.reason else ""
    return Step(
        at=line.at,
        title=f"Attempt {line.attempt}: {outcome}{why}",
        tone=TONES.get(line.outcome, "calm"),
        proof=proof,
        detail=who,
        error="restricted" if error and hidden else error,
        bars=_bars(line.steps),
    )


def _bars(steps: list[tuple[str, int | None]]) -> tuple[Bar, ...]:
    """Each step as long as it took to be reached from the one before."""
    longest = max((ms for _, ms in steps if ms is not None), default=0) or 1
    made: list[Bar] = []
    before = 0
    for name, ms in steps:
        here = before if ms is None else ms
        made.append(Bar(name, ms, 100 * before / longest, 100 * max(here - before, 0) / longest))
        before = here
    return tuple(made)
