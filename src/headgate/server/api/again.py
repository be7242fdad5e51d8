"""`/v1/redrives` and `/v1/replays`: what runs again, how far it is, and what came of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import Request, Response

from headgate.errors import UsageError
from headgate.ledger import redrive, replays
from headgate.model.redrive import HELD
from headgate.server.problem import Refusal

from . import shapes
from .answers import answers, document, listed
from .asked import Below, Limit, PlanId, below, new_router
from .reader import Reading

router = new_router("redrives and replays")
# To count what became of more entries than this takes too long for an answer.
FATES = 20_000
PLANS = 1000


@router.get("/redrives", summary="Redrives, the latest first", responses=answers(shapes.Redrives))
async def all_redrives(request: Request, by: Reading, limit: Limit = 50) -> Response:
    """Plans by which what was set aside runs again. Those of other pipelines are left out."""
    async with by.look() as seen:
        found = await redrive.redrives(seen.db, limit=PLANS)
    told = [_redrive(r) for r in found if by.sees(*r.pipelines)]
    return document(request, {"redrives": told[:limit], "more": len(told) > limit})


@router.get(
    "/redrives/{id}",
    summary="One redrive",
    responses=answers(shapes.RedriveInFull, "unknown_redrive"),
)
async def one_redrive(request: Request, by: Reading, id: PlanId) -> Response:
    """How far it is, what it waits for, what failed again, and who decided what."""
    async with by.look() as seen:
        try:
            found = await redrive.followed(seen.db, id)
        except UsageError as error:
            raise Refusal("unknown_redrive", str(error)) from error
    if not by.sees(*found.redrive.pipelines):
        raise Refusal("unknown_redrive", f"there is no redrive {id}")
    return document(request, {**found.document(), "redrive": _redrive(found.redrive)})


@router.get("/replays", summary="Replays, the latest first", responses=answers(shapes.Replays))
async def all_replays(
    request: Request, by: Reading, after: Below = None, limit: Limit = 50
) -> Response:
    """How far each is, how fast, and what a verification found."""
    async with by.look() as seen:
        found = await replays.replays(seen.db, limit=limit + 1, before=below(after))
        more, found = len(found) > limit, found[:limit]
        told = [seen.shown(r.pipeline, r.document()) for r in found if by.sees(r.pipeline)]
    last = str(found[-1].id) if found else (after or "0")
    return listed(request, "replays", told, last, more=more)


@router.get(
    "/replays/{id}", summary="One replay", responses=answers(shapes.Replay, "unknown_replay")
)
async def one_replay(request: Request, by: Reading, id: PlanId) -> Response:
    """How far it is, what it waits for, what it found, and what became of its entries."""
    async with by.look() as seen:
        try:
            found = await replays.replay(seen.db, id, fates_upto=FATES)
        except UsageError as error:
            raise Refusal("unknown_replay", str(error)) from error
        if not by.sees(found.pipeline):
            raise Refusal("unknown_replay", f"there is no replay {id}")
        return document(request, seen.shown(found.pipeline, found.document()))


def _redrive(plan: redrive.Redrive) -> dict[str, Any]:
    waits = None if plan.held is None else HELD[plan.held]
    return {**asdict(plan), "waits": waits, "left_seconds": plan.left_seconds}
