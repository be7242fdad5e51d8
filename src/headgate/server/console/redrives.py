"""Redrives: plan one with its dry run beside it; watch its canary; pause, resume, stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import Request
from starlette.responses import Response

from headgate.errors import UsageError
from headgate.ledger import budget, quarantined, redrive
from headgate.ledger.redrive import Followed, Planned, Redrive, Wanted
from headgate.ledger.worker import alive
from headgate.model.redrive import HELD, Terms, per_second
from headgate.server.doors import Serving, ledger
from headgate.server.problem import Refusal

from .asked import pipelines, wanted
from .page import pages, render
from .sight import sight

router = pages()
MANY = 50


@dataclass(frozen=True, slots=True)
class Draft:
    """A plan that is not made yet, as the form has it, and what it would do."""

    wanted: Wanted
    said: Mapping[str, str]
    planned: Planned | None
    refusal: str
    hint: str
    slow: list[str]  # pipelines whose error budget is spent
    workers: int
    pipelines: list[str]
    classes: list[str]
    reasons: list[str]
    pace: str


@router.get("/redrives")
async def redrives(request: Request) -> Response:
    """All plans, the latest first."""
    serving: Serving = request.app.state.serving
    by = await sight(request)
    async with serving.readers, ledger():
        found = await redrive.redrives(serving.db, limit=MANY)
    plans = [p for p in found if all(by.by.sees(name) for name in p.pipelines)]
    return render(request, "redrives.html", "Redrives", here="quarantine", live=True, plans=plans)


@router.get("/redrives/new")
async def new(request: Request) -> Response:
    """What a plan would do, before it is made."""
    serving: Serving = request.app.state.serving
    by = await sight(request)
    said = {**_USUAL, **{k: v for k, v in request.query_params.items() if k in _USUAL and v}}
    of = wanted(request.query_params)
    planned, terms, refusal, hint = None, Terms(), "", ""
    async with serving.readers, ledger():
        known = await pipelines(serving.db, by)
        try:
            terms = _terms(said)
            planned = await redrive.preview(serving.db, of, terms)
        except (UsageError, ValueError) as error:
            refusal, hint = f"{error}", getattr(error, "hint", "") or ""
        spent = {row["name"] for row in await serving.db.fetch(budget.Q.spent)}
        workers = await alive(serving.db)
        kinds = await _kinds(serving, of, planned)
    if planned is not None and not all(by.by.sees(name) for name, _, _ in planned.counts):
        planned, refusal = None, "some of these entries are of pipelines that are not yours"
        hint = "Choose a pipeline of yours."
    slow = sorted(spent & {name for name, _, _ in planned.counts} if planned else ())
    classes = sorted({classed for name, classed, _ in kinds if name in known})
    reasons = sorted({reason for name, _, reason in kinds if name in known})
    view = Draft(
        of, said, planned, refusal, hint, slow, workers, known, classes, reasons, terms.pace
    )
    return render(
        request, "redrive_new.html", "Plan a redrive", here="quarantine", view=view, by=by
    )


async def _kinds(
    serving: Serving, of: Wanted, planned: Planned | None
) -> list[tuple[str, str, str]]:
    """What there is to choose from: pipelines, classes, reasons."""
    if planned is not None and of == quarantined.ANY:
        return list(planned.counts)
    found = await quarantined.summary(serving.db)
    return [(group.pipeline, group.classed, group.reason) for group in found]


_USUAL = {"canary": "5", "batch": "50", "rate": "10/s", "stop_share": "0.2", "backlog": "1000"}


def _terms(said: Mapping[str, str]) -> Terms:
    return Terms(
        int(said["canary"]),
        int(said["batch"]),
        per_second(said["rate"]),
        float(said["stop_share"]),
        int(said["backlog"]),
    )


@dataclass(frozen=True, slots=True)
class View:
    """One plan as it stands."""

    followed: Followed
    waits: str

    @property
    def plan(self) -> Redrive:
        return self.followed.redrive

    @property
    def has_ended(self) -> bool:
        return self.plan.state in ("stopped", "done")

    @property
    def share(self) -> float:
        """How much of it has ended."""
        p = self.plan.progress
        return (p.passed + p.failed + p.gone) / p.total if p.total else 1.0

    @property
    def canary(self) -> int:
        """How many go first."""
        return min(self.plan.terms.canary, self.plan.progress.total)


@router.get("/redrives/{id}")
async def one(request: Request, id: int) -> Response:
    """One plan: how far it is, what it waits for, what failed again, who decided what."""
    serving: Serving = request.app.state.serving
    by = await sight(request)
    async with serving.readers, ledger():
        try:
            found = await redrive.followed(serving.db, id)
        except UsageError as error:
            raise Refusal("not_found", f"{error}") from error
    for name in found.redrive.pipelines:
        by.need(name)
    held = found.redrive.held
    view = View(found, HELD[held] if held else "")
    live = not view.has_ended or found.redrive.progress.live > 0
    title = f"Redrive {id}"
    return render(request, "redrive.html", title, here="quarantine", live=live, view=view)
