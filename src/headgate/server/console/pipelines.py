"""*Pipelines*: what each reads, how far, how it retries, and what it may still spend."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

from fastapi import Request
from starlette.responses import Response

from headgate.ledger import budget, gate, pipelines, watermark
from headgate.ledger.gate import Resting
from headgate.ledger.pipelines import Declared, Deployment, SourceState
from headgate.ledger.watermark import Standing
from headgate.model.verdict import CRON, UPSTREAM, WEBHOOK, RetryPlan
from headgate.pg import Record
from headgate.server.doors import Serving, ledger
from headgate.server.problem import Refusal
from headgate.server.redact import RESTRICTED, Eyes, eyes

from .page import asker, pages, render
from .words import span

router = pages()
SHOWN_RETRIES = 8


@dataclass(frozen=True, slots=True)
class Row:
    """One pipeline of the list."""

    declared: Declared
    resting: Resting | None
    budget: Record | None


@dataclass(frozen=True, slots=True)
class Source:
    """A source: what it told, how far it was read, and how far it is by its own account."""

    name: str
    declared: bool
    state: SourceState | None
    stream: Standing | None


@dataclass(frozen=True, slots=True)
class View:
    """One pipeline."""

    declared: Declared
    resting: Resting | None
    budget: Record | None
    sources: list[Source]
    deployments: list[Deployment]
    plans: list[tuple[RetryPlan, list[str]]]
    steps: list[tuple[str, str]]
    tables: list[dict[str, Any]]


@router.get("/pipelines")
async def list_(request: Request) -> Response:
    """All of them."""
    serving: Serving = request.app.state.serving
    by = asker(request)
    async with serving.readers, ledger():
        resting = {one.pipeline: one for one in await gate.resting(serving.db, 0)}
        budgets = await _budgets(serving)
        rows = [
            Row(one, resting.get(one.name), budgets.get(one.name))
            for one in await pipelines.pipelines(serving.db)
            if by.sees(one.name)
        ]
    return render(request, "pipelines.html", "Pipelines", here="pipelines", live=True, rows=rows)


@router.get("/pipelines/{name}")
async def one(request: Request, name: str) -> Response:
    """One of them, with everything that it declared."""
    serving: Serving = request.app.state.serving
    async with serving.readers, ledger():
        found = await pipelines.pipelines(serving.db, name) if asker(request).sees(name) else []
        if not found:
            raise Refusal(
                "not_found", f"there is no pipeline {name!r}", hint="See them: /pipelines."
            )
        view = await _view(serving, found[0], await eyes(serving.db, asker(request)))
    tuning = serving.tuning
    return render(
        request,
        "pipeline.html",
        name,
        here="pipelines",
        live=True,
        view=view,
        share=tuning.error_budget,
        window=tuning.error_budget_seconds,
        least=budget.LEAST_FAILURES,
    )


async def _view(serving: Serving, declared: Declared, sight: Eyes) -> View:
    db, name = serving.db, declared.name
    told = {s.source: s for s in await pipelines.sources(db, declared.id)}
    if sight.hides(name):
        # How far a source was read may be said in the words of the data.
        told = {k: replace(s, checkpoint=s.checkpoint and RESTRICTED) for k, s in told.items()}
    streams = {s.source: s for s in await watermark.streams(db, name)}
    named = declared.source_names
    sources = [
        Source(source, source in named, told.get(source), streams.get(source))
        for source in [*named, *sorted(told.keys() - set(named))]
    ]
    resting = {one.pipeline: one for one in await gate.resting(db, 0)}
    plans = [declared.retry] if declared.retry is not None else [UPSTREAM, WEBHOOK, CRON]
    return View(
        declared,
        resting.get(name),
        (await _budgets(serving)).get(name),
        sources,
        await pipelines.deployments(db, declared.id),
        [(plan, _waits(plan)) for plan in plans],
        _steps(declared.declared),
        cast("list[dict[str, Any]]", declared.declared.get("rows", [])),
    )


async def _budgets(serving: Serving) -> dict[str, Record]:
    rows = await serving.db.fetch(budget.Q.budgets, serving.tuning.error_budget_seconds)
    return {row["pipeline"]: row for row in rows}


def _waits(plan: RetryPlan) -> list[str]:
    """How long is waited ahead of each retry, at most."""
    many = min(plan.attempts - 1, SHOWN_RETRIES)
    shown = [span(plan.bound_seconds(n)) for n in range(many)]
    return [*shown, "…"] if plan.attempts - 1 > many else shown


def _steps(declared: dict[str, Any]) -> list[tuple[str, str]]:
    """What is done with an object, in the order of the path."""
    applies = [a["handler"] for a in declared.get("applies", [])]
    rows = [f"{r['handler']} → {r['table']}" for r in declared.get("rows", [])]
    steps = [
        *(("Check", name) for name in declared.get("validators", [])),
        *(("Transform", name) for name in declared.get("transforms", [])),
        *(("Rows", name) for name in rows),
        *(("Apply", name) for name in applies),
    ]
    return [*steps, ("Describe", declared["item"])] if declared.get("item") else steps
