"""`/v1/quarantine`: what a person has to decide."""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from fastapi import Query, Request, Response

from headgate.ledger import quarantined as ledger
from headgate.ledger.redrive import Wanted
from headgate.model.mask import mask_uri
from headgate.model.verdict import QuarantineClass
from headgate.server.problem import Refusal

from . import shapes
from .answers import answers, document, listed
from .asked import Below, EntryId, Limit, Pipelines, below, new_router
from .reader import Reading

router = new_router("quarantine")
T = TypeVar("T")
Class = Annotated[
    QuarantineClass | None,
    Query(alias="class", description="Only of this class.", examples=["schema"]),
]
Reason = Annotated[
    str | None,
    Query(pattern=r"^[a-z][a-z0-9_]{0,62}$", description="Only this reason.", examples=["schema"]),
]
Since = Annotated[
    datetime | None, Query(description="Only what was set aside since. Without a zone it is UTC.")
]
Discarded = Annotated[bool, Query(description="What was discarded and can still come back.")]


@router.get(
    "/quarantine",
    summary="What waits for a decision, the newest entry first",
    responses=answers(shapes.Quarantined),
)
async def list_(
    request: Request,
    by: Reading,
    after: Below = None,
    limit: Limit = 50,
    pipeline: Pipelines = None,
    classed: Class = None,
    reason: Reason = None,
    since: Since = None,
    discarded: Discarded = False,
) -> Response:
    """Errors are masked: nothing in them is a secret that could be recognised."""
    asked = _each(by.of(pipeline), classed, reason, _utc(since))
    async with by.look() as seen:
        read = ledger.discards if discarded else ledger.listed

        async def page(wanted: Wanted) -> list[Any]:
            return await read(seen.db, wanted, limit=limit + 1, before=below(after))

        rows = heapq.nlargest(limit + 1, await _all(asked, page), key=lambda row: row.entry)
        more, rows = len(rows) > limit, rows[:limit]
        told = [seen.shown(r.pipeline, {**r.document(), "uri": mask_uri(r.uri)}) for r in rows]
    last = str(rows[-1].entry) if rows else (after or "0")
    return listed(request, "entries", told, last, more=more)


@router.get(
    "/quarantine/summary",
    summary="What waits for a decision, counted",
    responses=answers(shapes.QuarantineSummary),
)
async def summary(
    request: Request,
    by: Reading,
    pipeline: Pipelines = None,
    classed: Class = None,
    reason: Reason = None,
    since: Since = None,
) -> Response:
    """By pipeline, class and reason; the most first."""
    asked = _each(by.of(pipeline), classed, reason, _utc(since))
    async with by.look() as seen:

        async def counted(wanted: Wanted) -> list[ledger.Alike]:
            return await ledger.summary(seen.db, wanted)

        rows = sorted(await _all(asked, counted), key=lambda row: -row.entries)
    told = [{**row.document(), "code": row.code} for row in rows]
    return document(request, {"entries": sum(r.entries for r in rows), "reasons": told})


@router.get(
    "/quarantine/{entry}",
    summary="One entry in quarantine",
    responses=answers(shapes.Case, "unknown_entry"),
)
async def one(request: Request, by: Reading, entry: EntryId) -> Response:
    """The error, the code, the failures before it, and how its data begins, masked."""
    async with by.look() as seen:
        case = await ledger.case(seen.db, entry)
        if case is None or not by.sees(case.pipeline):
            raise Refusal("unknown_entry", f"entry {entry} is not in quarantine")
        told = {**case.document(), "uri": mask_uri(case.uri)}
        return document(request, seen.shown(case.pipeline, told))


def _each(pipelines: list[str] | None, *asked: Any) -> list[Wanted]:
    """The same question for each of the pipelines; one for all of them where none is named."""
    return [Wanted(name, *asked) for name in ([None] if pipelines is None else pipelines)]


async def _all(asked: Iterable[Wanted], answer: Callable[[Wanted], Awaitable[list[T]]]) -> list[T]:
    return [row for wanted in asked for row in await answer(wanted)]


def _utc(moment: datetime | None) -> datetime | None:
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)
