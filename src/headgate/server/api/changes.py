"""`/v1/changes`: how each change ended, in the order of commits."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from headgate.ledger import changes as ledger
from headgate.model.mask import mask_uri
from headgate.pg import Database
from headgate.server import feed
from headgate.server.problem import Refusal

from . import shapes
from .answers import answers, document, listed, problems, render
from .asked import (
    After,
    ChangeId,
    LastEventId,
    Limit,
    Order,
    Outcomes,
    Pipelines,
    Uri,
    cursor,
    new_router,
)
from .reader import Reading, hidden

router = new_router("changes")


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
    async with by.look() as seen:
        page = await ledger.changes(
            seen.db,
            place,
            limit,
            pipelines=await seen.searched(by.of(pipeline), uri),
            outcome=outcome,
            uri_prefix=uri,
            newest_first=order == "newest",
        )
        if place is not None and order == "oldest" and not page.changes and not page.more:
            await check(seen.db, place)
    told = [shown(change, by.sees_restricted) for change in page.changes]
    return listed(request, "changes", told, page.cursor, more=page.more)


@router.get(
    "/changes/stream",
    summary="Changes as they end, as server-sent events",
    response_class=feed.EventStream,
    responses={
        200: {
            "description": "Events `change`, each with its cursor as `id`, until it is closed.",
            "content": {feed.MEDIA_TYPE: {"schema": {"type": "string"}}},
        },
        **problems("cursor_ahead", "too_many_requests"),
    },
)
async def stream(
    request: Request,
    by: Reading,
    after: After = None,
    last_event_id: LastEventId = None,
    pipeline: Pipelines = None,
    outcome: Outcomes = None,
    uri: Uri = None,
) -> Response:
    """Every change behind `Last-Event-ID` or `after`; without them, what ends from now on.

    Each comes once and in order, also across connections. A comment comes when there is nothing
    new for a while, and when the ledger is away. A stream ends after 15 minutes: go on from the
    last id.
    """
    streams: feed.Feed = request.app.state.feed
    streams.admit()
    place = cursor(last_event_id or after)
    async with by.look() as seen:
        if place is None:
            place = await ledger.latest(seen.db)
        else:
            await check(seen.db, place)
        named = await seen.searched(by.of(pipeline), uri)
    wanted = feed.Wanted(
        by.sees_restricted,
        None if named is None else frozenset(named),
        None if outcome is None else frozenset(outcome),
        uri,
    )
    return feed.EventStream(feed.stream(streams, place, wanted, as_event))


@router.get(
    "/changes/{change_event_id}",
    summary="One change",
    responses=answers(shapes.Change, "unknown_change"),
)
async def change(request: Request, by: Reading, change_event_id: ChangeId) -> Response:
    """How it ended. This never changes."""
    place = cursor(change_event_id)
    assert place is not None
    async with by.look() as seen:
        found = await ledger.change(seen.db, place)
    if found is None or not by.sees(found.pipeline):
        raise Refusal("unknown_change", f"there is no change {change_event_id}")
    return document(request, shown(found, by.sees_restricted))


async def check(db: Database, place: ledger.Cursor) -> None:
    """Raises `Refusal` for a place that the feed has not reached: it is of another ledger."""
    end = await ledger.latest(db)
    if place.position > end.position:
        raise Refusal("cursor_ahead", f"the feed ends at {end}, before {place}")


def shown(change: ledger.Change, sees_restricted: bool) -> dict[str, Any]:
    """A change as a reader may see it. References lead to this API, not into a store."""
    told = change.document()
    if change.has_records:
        at = f"/v1/runs/{change.run}"
        if change.delta_manifest_ref is not None:
            told["delta_manifest_ref"] = f"{at}/delta_manifest.json"
        told["prov_ref"] = f"{at}/provenance.prov.jsonld"
        told["openlineage_ref"] = f"{at}/openlineage.ndjson"
    told["source_uri"] = mask_uri(change.source_uri)
    restricted = change.access not in (None, "public")
    return hidden(told) if restricted and not sees_restricted else told


def as_event(change: ledger.Change, sees_restricted: bool) -> bytes:
    """A change as an event of the stream."""
    return feed.event("change", change.cursor, render(shown(change, sees_restricted)))
