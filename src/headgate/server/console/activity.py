"""*Activity*: who did what, when, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fastapi import Request
from starlette.responses import Response

from headgate.ledger import activity
from headgate.ledger.activity import ROWS, Action, Deed
from headgate.model.mask import mask_uri
from headgate.model.role import Principal
from headgate.server.doors import Serving, ledger
from headgate.server.redact import eyes

from .page import asker, number_in, pages, render, with_query

router = pages()
MOST = 50
_REDRIVE = re.compile(r"redrive (\d+)")
_BUDGET = re.compile(r"budget of ([a-z][a-z0-9_-]*)")


@dataclass(frozen=True, slots=True)
class Told:
    """A deed, and the page where one sees what became of it."""

    deed: Deed
    href: str
    uri: str


@router.get("/activity")
async def list_(request: Request) -> Response:
    """The decisions of people, newest first."""
    serving: Serving = request.app.state.serving
    by, asked = asker(request), request.query_params
    actor, pipeline = asked.get("actor") or None, asked.get("pipeline") or None
    async with serving.readers, ledger():
        page = await activity.actions(
            serving.db,
            actor=actor,
            pipeline=pipeline,
            before_id=number_in(request, "before"),
            limit=ROWS,
        )
        sight = await eyes(serving.db, by)
    deeds = activity.deeds((row for row in page.rows if _theirs(by, row)), MOST)
    cut = len(deeds) == MOST
    place, more = (deeds[-1].last_id, True) if cut else (page.place, page.more)
    return render(
        request,
        "activity.html",
        "Activity",
        here="activity",
        live=True,
        told=[Told(d, _where(d), sight.text(d.pipeline, mask_uri(d.uri or ""))) for d in deeds],
        actor=actor or "",
        pipeline=pipeline or "",
        newer=with_query("/activity", actor=actor, pipeline=pipeline) if "before" in asked else "",
        older=with_query("/activity", actor=actor, pipeline=pipeline, before=place) if more else "",
    )


def _theirs(by: Principal, row: Action) -> bool:
    """Is this for them? What names no pipeline is for those who see them all."""
    if by.pipelines is None:
        return True
    named = row.pipeline or next(iter(_BUDGET.findall(row.verb)), None)
    return named is not None and by.sees(named)


def _where(deed: Deed) -> str:
    if len(deed.entries) == 1:
        return f"/entries/{deed.entries[0]}"
    if found := _REDRIVE.search(deed.verb):
        return f"/redrives/{found[1]}"
    if found := _BUDGET.search(deed.verb):
        return f"/pipelines/{found[1]}"
    if "replay" in deed.verb:
        return "/replays"
    return with_query("/quarantine", pipeline=deed.pipeline) if deed.entries else ""
