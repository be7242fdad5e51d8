"""`/v1/pipelines`, `/v1/watermarks`, `/v1/flow`, `/v1/slos`, `/v1/activity`: how things stand."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Query, Request, Response

from headgate.ledger import activity as acted
from headgate.ledger import flow as flowing
from headgate.ledger import pipelines as declared
from headgate.ledger import slo, watermark
from headgate.server.problem import Refusal

from . import shapes
from .answers import answers, document, listed
from .asked import Below, Limit, Pipeline, PipelineName, below, new_router
from .reader import Reader, Reading

router = new_router("standing")
Minutes = Annotated[int, Query(ge=1, le=4320, description="So many minutes back.")]
Actor = Annotated[
    str | None, Query(max_length=200, pattern="^[^\\x00]*$", description="Only by this person.")
]


@router.get("/pipelines", summary="All pipelines", responses=answers(shapes.Pipelines))
async def pipelines(request: Request, by: Reading) -> Response:
    """What each declared when it was started last."""
    async with by.look() as seen:
        found = await declared.pipelines(seen.db)
    return document(request, {"pipelines": [_told(p) for p in found if by.sees(p.name)]})


@router.get(
    "/pipelines/{name}",
    summary="One pipeline",
    responses=answers(shapes.PipelineInFull, "no_such_pipeline"),
)
async def pipeline(request: Request, by: Reading, name: PipelineName) -> Response:
    """What it declared, what its sources told and how far they were read, what it ran with."""
    async with by.look() as seen:
        found = await declared.pipelines(seen.db, name) if by.sees(name) else []
        if not found:
            raise Refusal("no_such_pipeline", f"there is no pipeline {name!r}")
        told = {
            **_told(found[0]),
            "declared": found[0].declared,
            "sources_now": await declared.sources(seen.db, found[0].id),
            "deployments": await declared.deployments(seen.db, found[0].id),
        }
    return document(request, told)


@router.get("/watermarks", summary="How far streams are", responses=answers(shapes.Watermarks))
async def watermarks(request: Request, by: Reading, pipeline: Pipeline = None) -> Response:
    """By event time: each stream, and what the streams of a pipeline have in common."""
    async with by.look() as seen:
        standing = await watermark.streams(seen.db, pipeline)
    streams = [s for s in standing if by.sees(s.pipeline)]
    told = [
        {
            "stream": s.name,
            "pipeline": s.pipeline,
            "source": s.source,
            "watermark": s.watermark,
            "lag_seconds": s.lag_seconds,
            "seen": s.seen,
            "heard_at": s.heard_at if s.seen else None,
            "idle": s.idle,
            "late": s.late,
        }
        for s in streams
    ]
    return document(request, {"streams": told, "watermarks": watermark.combined(streams)})


@router.get("/flow", summary="How much, and how fast", responses=answers(shapes.Flow))
async def flow(
    request: Request, by: Reading, pipeline: Pipeline = None, minutes: Minutes = 60
) -> Response:
    """Each pipeline as it stands now, and its last minutes one by one."""
    async with by.look() as seen:
        now = await flowing.now(seen.db)
        series = await flowing.series(seen.db, minutes, pipeline=pipeline)
    return document(
        request,
        {
            "pipelines": [s for s in now if by.sees(s.pipeline) and pipeline in (None, s.pipeline)],
            "series": {
                **asdict(series),
                "pipelines": {n: p for n, p in series.pipelines.items() if by.sees(n)},
            },
        },
    )


@router.get("/slos", summary="What is promised, and what is left", responses=answers(shapes.Slos))
async def slos(request: Request, by: Reading, pipeline: Pipeline = None) -> Response:
    """Each pipeline against each promise; what is wrong comes first."""
    async with by.look() as seen:
        standing = await slo.standing(seen.db, by.serving.tuning.targets, pipeline=pipeline)
    told = slo.worst([s for s in standing if by.sees(s.pipeline)])
    return document(request, {"slos": told})


@router.get("/activity", summary="Who did what, and why", responses=answers(shapes.Activity))
async def activity(
    request: Request,
    by: Reading,
    after: Below = None,
    limit: Limit = 50,
    actor: Actor = None,
    pipeline: Pipeline = None,
) -> Response:
    """Decisions of people, the newest first."""
    async with by.look() as seen:
        page = await acted.actions(
            seen.db, actor=actor, pipeline=pipeline, before_id=below(after), limit=limit
        )
        theirs = [r for r in page.rows if by.principal.pipelines is None or _is_theirs(r, by)]
        told = [seen.shown(r.pipeline, asdict(r)) for r in theirs]
    return listed(request, "actions", told, page.place, more=page.more)


def _is_theirs(row: acted.Action, by: Reader) -> bool:
    return row.pipeline is not None and by.sees(row.pipeline)


def _told(p: declared.Declared) -> dict[str, Any]:
    return {
        "name": p.name,
        "version": p.version,
        "code": p.code,
        "created_at": p.created_at,
        "registered_at": p.registered_at,
        "dataset": p.dataset,
        "sources": p.source_names,
        "retry": p.retry,
        "budget_spent_at": p.spent_at,
        "budget_overridden_until": p.overridden_until,
    }
