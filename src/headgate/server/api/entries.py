"""`/v1/entries`: what was done about each change, and why."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Query, Request, Response

from headgate.ledger import entries as ledger
from headgate.ledger import history
from headgate.ledger.life import Life
from headgate.model.mask import mask, mask_uri
from headgate.server.problem import Refusal

from . import shapes
from .answers import answers, document, listed
from .asked import Below, EntryId, Limit, Pipelines, Uri, below, new_router
from .reader import Look, Reader, Reading

router = new_router("entries")
Status = Annotated[
    shapes.EntryStatus | None, Query(description="Only what is there now.", examples=["waiting"])
]


@router.get("/entries", summary="Entries, the newest first", responses=answers(shapes.Entries))
async def entries(
    request: Request,
    by: Reading,
    after: Below = None,
    limit: Limit = 50,
    status: Status = None,
    pipeline: Pipelines = None,
    uri: Uri = None,
) -> Response:
    """Where each entry is now."""
    async with by.look() as seen:
        page = await ledger.entries(
            seen.db,
            pipelines=await seen.searched(by.of(pipeline), uri),
            status=status,
            uri_like=None if uri is None else ledger.beginning(uri),
            limit=limit,
            before=below(after),
        )
        told = [seen.shown(e.pipeline, {**asdict(e), "uri": mask_uri(e.uri)}) for e in page.rows]
    return listed(request, "entries", told, page.before, more=page.more)


@router.get(
    "/entries/{entry}",
    summary="Everything that is known about one entry",
    responses=answers(shapes.Life, "unknown_entry"),
)
async def entry(request: Request, by: Reading, entry: EntryId) -> Response:
    """Its state, its journal, what it published or why it was set aside, who decided what."""
    async with by.look() as seen:
        known = await _life(seen, by, entry)
        return document(request, seen.shown(known.pipeline, _told(known)))


@router.get(
    "/entries/{entry}/explain",
    summary="Why an entry is where it is",
    responses=answers(shapes.Explained, "unknown_entry"),
)
async def explain(request: Request, by: Reading, entry: EntryId) -> Response:
    """In sentences, each with the rows of the ledger that prove it."""
    async with by.look() as seen:
        known = await _life(seen, by, entry)
        said = await history.explain(seen.db, entry)
        told = {
            "entry": entry,
            "pipeline": known.pipeline,
            "status": known.status,
            "statements": said,
        }
        return document(request, seen.shown(known.pipeline, told))


async def _life(seen: Look, by: Reader, entry: int) -> Life:
    known = await history.life(seen.db, entry)
    if known is None or not by.sees(known.pipeline):
        raise Refusal("unknown_entry", f"there is no entry {entry}")
    return known


def _told(known: Life) -> dict[str, Any]:
    """Without secrets that its source wrote into names."""
    return {**asdict(known), "uri": mask_uri(known.uri), "envelope": mask(known.envelope)}
