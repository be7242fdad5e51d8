"""`/v1/publications`: what readers see, what it replaced, what that changed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import Query, Request, Response

from headgate.errors import UsageError
from headgate.ledger import published as ledger
from headgate.ledger.entries import beginning
from headgate.model.facts import Facts
from headgate.model.mask import mask_uri
from headgate.server.problem import Refusal

from . import shapes
from .answers import answers, document, listed
from .asked import Below, EntryId, Limit, Pipelines, Uri, below, new_router
from .reader import Look, Reader, Reading

router = new_router("publications")
VERSIONS = 50
Every = Annotated[bool, Query(alias="all", description="Every version, not only the heads.")]
Since = Annotated[
    int | None,
    Query(alias="from", ge=1, le=2**31 - 1, description="Compare with this older version."),
]


@router.get(
    "/publications",
    summary="What readers see, the latest first",
    responses=answers(shapes.Publications),
)
async def publications(
    request: Request,
    by: Reading,
    after: Below = None,
    limit: Limit = 50,
    pipeline: Pipelines = None,
    uri: Uri = None,
    every: Every = False,
) -> Response:
    """The head of each uri; or every version."""
    async with by.look() as seen:
        page = await ledger.publications(
            seen.db,
            pipelines=await seen.searched(by.of(pipeline), uri),
            uri_like=None if uri is None else beginning(uri),
            every=every,
            limit=limit,
            before=below(after),
        )
        told = [
            seen.shown(p.pipeline, {**asdict(p), "uri": mask_uri(p.uri), "what": p.what})
            for p in page.rows
        ]
    return listed(request, "publications", told, page.before, more=page.more)


@router.get(
    "/publications/{entry}",
    summary="One publication",
    responses=answers(shapes.PublicationAndVersions, "unknown_publication"),
)
async def publication(request: Request, by: Reading, entry: EntryId) -> Response:
    """Its files, where it came from, what checked it, and its other versions."""
    async with by.look() as seen:
        told = await _found(seen, by, entry)
        versions = await ledger.versions(seen.db, entry, VERSIONS)
        whole = {
            "publication": ledger.document(told),
            "versions": [ledger.document(v) for v in versions],
        }
        return document(request, seen.shown(told.pipeline, whole))


@router.get(
    "/publications/{entry}/diff",
    summary="What a publication changed for readers",
    responses=answers(shapes.Diff, "unknown_publication", "unknown_version"),
)
async def diff(request: Request, by: Reading, entry: EntryId, since: Since = None) -> Response:
    """Files added, replaced and removed; without `from`, this is its delta manifest."""
    async with by.look() as seen:
        told = await _found(seen, by, entry)
        try:
            made = await ledger.diff(seen.db, told, since)
        except UsageError as error:
            raise Refusal("unknown_version", str(error)) from error
        return document(request, seen.shown(told.pipeline, made))


async def _found(seen: Look, by: Reader, entry: int) -> Facts:
    told = await ledger.publication(seen.db, entry)
    if told is None or not by.sees(told.pipeline):
        raise Refusal("unknown_publication", f"entry {entry} published nothing")
    return told
