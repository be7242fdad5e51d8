"""*Quarantine*: what a person has to decide, by reason; one entry, and what can be decided."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from fastapi import Request
from starlette.responses import Response

from headgate.ledger import quarantined, redrive
from headgate.ledger.quarantined import Alike, Case, Discard, Line
from headgate.ledger.redrive import Redrive, Wanted
from headgate.server.doors import Serving, ledger
from headgate.server.problem import Refusal

from .asked import pipelines, wanted
from .page import pages, render, with_query
from .sight import Sight, sight
from .words import name_of

router = pages()
MANY = 50
PLANS = 5


@dataclass(frozen=True, slots=True)
class View:
    """What waits for a decision: counted by reason, and a page of it."""

    groups: list[Alike]
    lines: list[Line]
    discards: list[Discard]
    plans: list[Redrive]
    pipelines: list[str]
    wanted: Wanted
    discarded: bool
    older: str
    newest: str

    @property
    def total(self) -> int:
        return sum(group.entries for group in self.groups)

    @property
    def is_filtered(self) -> bool:
        return self.wanted != quarantined.ANY

    def plan(self, group: Alike | None = None) -> str:
        """Where a redrive of these is planned."""
        of = self.wanted if group is None else group
        return with_query(
            "/redrives/new", pipeline=of.pipeline, **{"class": of.classed}, reason=of.reason
        )

    def only(self, group: Alike) -> str:
        """Where only these are listed."""
        named = {"class": group.classed}
        return with_query("/quarantine", pipeline=group.pipeline, **named, reason=group.reason)


@router.get("/quarantine")
async def quarantine(request: Request, discarded: bool = False, before: int = 0) -> Response:
    """By class and reason, and a page of entries."""
    serving: Serving = request.app.state.serving
    by = await sight(request)
    of = wanted(request.query_params)
    async with serving.readers, ledger():
        db = serving.db
        known = await pipelines(db, by)
        groups = [g for g in await quarantined.summary(db, of) if by.by.sees(g.pipeline)]
        lines: list[Line] = []
        gone: list[Discard] = []
        if discarded:
            gone = await quarantined.discards(db, of, limit=MANY + 1, before=before or None)
        else:
            lines = await quarantined.listed(db, of, limit=MANY + 1, before=before or None)
        plans = await redrive.redrives(db, limit=PLANS)
    last = (lines or gone)[: MANY + 1]
    asked = {"pipeline": of.pipeline, "class": of.classed, "reason": of.reason}
    asked["discarded"] = "true" if discarded else None
    more = len(last) > MANY
    view = View(
        groups=groups,
        lines=[_seen(by, line) for line in lines[:MANY] if by.by.sees(line.pipeline)],
        discards=[_gone(by, one) for one in gone[:MANY] if by.by.sees(one.pipeline)],
        plans=[p for p in plans if all(by.by.sees(name) for name in p.pipelines)],
        pipelines=known,
        wanted=of,
        discarded=discarded,
        older=with_query("/quarantine", **asked, before=last[MANY - 1].entry) if more else "",
        newest=with_query("/quarantine", **asked) if before else "",
    )
    return render(
        request, "quarantine.html", "Quarantine", here="quarantine", live=True, view=view, by=by
    )


@router.get("/quarantine/{entry}")
async def case(request: Request, entry: int) -> Response:
    """One entry: its error, its payload (masked), the failures before, and what can be decided."""
    serving: Serving = request.app.state.serving
    by = await sight(request)
    async with serving.readers, ledger():
        found = await quarantined.case(serving.db, entry)
        if found is None:
            return await _elsewhere(request, serving, by, entry)
    by.need(found.pipeline)
    view = _shown(by, found)
    title = f"Entry {entry} in quarantine: {name_of(view.uri)}"
    return render(request, "quarantine_case.html", title, here="quarantine", view=view)


async def _elsewhere(request: Request, serving: Serving, by: Sight, entry: int) -> Response:
    """It is not there now: it was discarded, or it has moved on."""
    gone = await quarantined.discards(serving.db, limit=1, before=entry + 1)
    if not gone or gone[0].entry != entry:
        raise Refusal(
            "not_found",
            f"entry {entry} is not in quarantine",
            hint=f"See what became of it: /entries/{entry}",
        )
    by.need(gone[0].pipeline)
    view = _gone(by, gone[0])
    title = f"Entry {entry}, discarded: {name_of(view.uri)}"
    return render(request, "quarantine_gone.html", title, here="quarantine", view=view)


def _seen(by: Sight, line: Line) -> Line:
    error = by.text(line.pipeline, line.error) or ""
    return replace(line, uri=by.uri(line.pipeline, line.uri), error=error)


def _gone(by: Sight, one: Discard) -> Discard:
    error = by.text(one.pipeline, one.error) or ""
    return replace(one, uri=by.uri(one.pipeline, one.uri), error=error)


def _shown(by: Sight, x: Case) -> Case:
    failures = [
        {**f, "at": datetime.fromisoformat(f["at"]), "error": by.text(x.pipeline, f["error"])}
        for f in x.failures
    ]
    return replace(
        x,
        uri=by.uri(x.pipeline, x.uri),
        error=by.text(x.pipeline, x.error) or "",
        preview=by.text(x.pipeline, x.preview),
        content=by.text(x.pipeline, x.content),
        failures=failures,
    )
