"""`/v1/changes`: how each change ended, in the order of commits."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from headgate.ledger import changes as ledger
from headgate.server.problem import Refusal

from . import shapes
from .answers import answers, document
from .asked import After, ChangeId, Limit, Order, Outcomes, Pipelines, Uri, cursor
from .reader import Reader, Reading

router = APIRouter(tags=["changes"])


@router.get(
    "/changes",
    summary="How changes ended, page by page",
    responses=answers(shapes.Changes, "cursor_ahead"),
)
async def changes(
    request: Request,
    by: Reading,
    after: After = None,
    limit: Limit = 100,
    pipeline: Pipelines = None,
    outcome: Outcomes = None,
    uri: Uri = None,
    order: Order = "oldest",
) -> Response:
    """Every change that was finalized, skipped, quarantined or rolled back, once each.

    Go on with `after` = `cursor`, now or next week: nothing is skipped and nothing repeated.
    """
    place = cursor(after)
    async with by.look() as db:
        page = await ledger.changes(
            db,
            place,
            limit,
            pipelines=by.of(pipeline),
            outcome=outcome,
            uri_prefix=uri,
            newest_first=order == "newest",
        )
        if place is not None and order == "oldest" and not page.changes and not page.more:
            await check(db, place)
    told = [shown(change, by) for change in page.changes]
    return document(request, {"changes": told, "cursor": str(page.cursor), "more": page.more})


@router.get(
    "/changes/{change_event_id}",
    summary="One change",
    responses=answers(shapes.Change, "unknown_change"),
)
async def change(request: Request, by: Reading, change_event_id: ChangeId) -> Response:
    """How it ended. This never changes."""
    place = cursor(change_event_id)
    assert place is not None
    async with by.look() as db:
        found = await ledger.change(db, place)
    if found is None or not by.sees(found.pipeline):
        raise Refusal("unknown_change", f"there is no change {change_event_id}")
    return document(request, shown(found, by))


async def check(db: ledger.Database, place: ledger.Cursor) -> None:
    """Raises `Refusal` for a place that the feed has not reached: it is of another ledger."""
    end = await ledger.latest(db)
    if place.position > end.position:
        raise Refusal("cursor_ahead", f"the feed ends at {end}, before {place}")


def shown(change: ledger.Change, by: Reader) -> dict[str, Any]:
    """A change as this reader may see it. References lead to this API, not into a store."""
    told = change.document()
    if change.has_records:
        at = f"/v1/runs/{change.run}"
        if change.delta_manifest_ref is not None:
            told["delta_manifest_ref"] = f"{at}/delta_manifest.json"
        told["prov_ref"] = f"{at}/provenance.prov.jsonld"
        told["openlineage_ref"] = f"{at}/openlineage.ndjson"
    return told
