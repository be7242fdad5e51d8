"""One change: what it changed, when, why it can be trusted, and whether it can be undone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from fastapi import Request
from markupsafe import Markup
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from headgate.catalog import run
from headgate.catalog.lineage import Lineage, lineage
from headgate.errors import UsageError
from headgate.ledger import anchor, facts, published, revert
from headgate.ledger.changes import Cursor
from headgate.ledger.changes import change as ended
from headgate.ledger.revert import Plan
from headgate.model import delta
from headgate.model.delta import Delta, Rows
from headgate.model.facts import Facts, Version
from headgate.server.doors import Serving, ledger
from headgate.server.problem import Refusal

from .page import pages, render
from .sight import Sight, sight
from .words import name_of

router = pages()
VERSIONS = 12


@dataclass(frozen=True, slots=True)
class Moment:
    """A step of the change's way, as `parts.timeline` wants it."""

    title: str
    at: datetime
    detail: str
    tone: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class Undo:
    """How it can be taken back, or why not."""

    plan: Plan | None
    refusal: str = ""
    hint: str = ""
    head: int | None = None  # what readers see now, if that is another one


@dataclass(frozen=True, slots=True)
class View:
    """One publication, as the page shows it."""

    told: Facts
    version: Version
    operation: str
    uri: str
    delta: Delta
    rows: list[Rows]
    moments: list[Moment]
    versions: list[Facts]
    chain: str | None
    position: int  # of the chain's head
    drawn: Lineage
    picture: Markup
    files: list[tuple[str, int]]
    undo: Undo

    @property
    def is_current(self) -> bool:
        return self.told.successor is None


@router.get("/changes/{place}")
async def change(request: Request, place: str, to: int | None = None) -> Response:
    """One change, by its publication's number; or by its place in the feed."""
    serving: Serving = request.app.state.serving
    by = await sight(request)
    async with serving.readers, ledger():
        if not place.isdecimal() or len(place) > 18:
            return await _placed(serving, place)
        told = await _told(serving, by, int(place))
        if by.hides(told.pipeline):
            return render(request, "change_hidden.html", "Change", here="changes", told=told)
        view = await _view(serving, told, to)
    title = f"Version {view.version.number} of {name_of(view.uri)}"
    return render(request, "change.html", title, here="changes", view=view, to=to)


@router.get("/changes/{entry}/run/{name}")
async def run_file(request: Request, entry: int, name: str) -> Response:
    """A file of its run, as it lies beside the data."""
    serving: Serving = request.app.state.serving
    by = await sight(request)
    async with serving.readers, ledger():
        told = await _told(serving, by, entry)
    if by.hides(told.pipeline) or (made := run.files(told).get(name)) is None:
        raise Refusal("not_found")
    return PlainTextResponse(made)


async def _placed(serving: Serving, place: str) -> Response:
    try:
        found = await ended(serving.db, Cursor.parse(place))
    except UsageError:
        found = None
    if found is None:
        raise Refusal("not_found")
    where = "changes" if found.outcome == "finalized" else "entries"
    return RedirectResponse(f"/{where}/{found.entry}", 303)


async def _told(serving: Serving, by: Sight, entry: int) -> Facts:
    found = await facts.of_publications(serving.db, [entry])
    if not found or found[0].version is None:
        raise Refusal("not_found", f"entry {entry} published nothing", hint=f"See /entries/{entry}")
    by.need(found[0].pipeline)
    return found[0]


async def _view(serving: Serving, told: Facts, to: int | None) -> View:
    assert told.version is not None
    db = serving.db
    chain, head = await anchor.chain_at(db, told.position), await anchor.head(db)
    drawn = lineage(told)
    return View(
        told=told,
        version=told.version,
        operation=delta.operation(told),
        uri=str(told.shown["uri"]),
        delta=delta.between(told.before, told.version),
        rows=delta.rows(told.before, told.version),
        moments=list(_moments(told)),
        versions=await published.versions(db, told.entry, VERSIONS),
        chain=None if chain is None else chain.hex(),
        position=0 if head is None else head.pos,
        drawn=drawn,
        # Made by us, of shapes and escaped text: catalog/drawing.py.
        picture=Markup(drawn.svg),
        files=[(name, len(body)) for name, body in run.files(told).items()],
        undo=await _undo(serving, told, to),
    )


async def _undo(serving: Serving, told: Facts, to: int | None) -> Undo:
    head = None if told.successor is None else told.successor[0]
    if head is not None:
        newest = await published.versions(serving.db, told.entry, 1)
        head = newest[0].entry if newest else head
    try:
        return Undo(await revert.plan(serving.db, told.entry, to=to))
    except UsageError as error:
        return Undo(None, f"{error}", error.hint or "", head)


def _moments(told: Facts) -> Iterator[Moment]:
    envelope = told.envelope
    yield Moment("Changed at its source", envelope.event_time, "by its source's account")
    yield Moment("Heard of", envelope.received_at, f"by {envelope.source} ({envelope.detector})")
    if told.late is not None:
        yield Moment("Late", told.late, "the watermark that had already passed it", "warn")
    yield Moment(
        f"Attempt {told.attempt} began", told.started_at, f"fence {told.fence}, {told.worker or ''}"
    )
    steps = ", ".join(f"{step} {ms} ms" for step, ms in told.steps if ms is not None)
    yield Moment("Published", told.at, steps, "good")
