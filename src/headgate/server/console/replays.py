"""*Replays*: start one over a window of event time, watch it, read what a verification found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import Request
from starlette.responses import Response

from headgate.errors import UsageError
from headgate.ledger import replays
from headgate.ledger.replays import Standing
from headgate.model.frozen import ASPECTS
from headgate.server.doors import Serving, ledger
from headgate.server.problem import Refusal

from .asked import pipelines
from .page import pages, render, with_query
from .sight import Sight, sight

router = pages()
MANY = 30
# To count what became of more entries than this takes longer than a page may.
FATES = 2_000


@dataclass(frozen=True, slots=True)
class View:
    """Replays, and what a new one is asked with."""

    found: list[Standing]
    pipelines: list[str]
    aspects: tuple[str, ...]
    said: dict[str, str]
    older: str
    newest: str


@router.get("/replays")
async def index(request: Request, before: int = 0) -> Response:
    """Replays, the latest first, and the form for another one."""
    serving: Serving = request.app.state.serving
    by = await sight(request)
    async with serving.readers, ledger():
        known = await pipelines(serving.db, by)
        found = await replays.replays(serving.db, limit=MANY + 1, before=before or None)
    more, found = len(found) > MANY, found[:MANY]
    view = View(
        found=[one for one in found if by.by.sees(one.pipeline)],
        pipelines=known,
        aspects=ASPECTS,
        said={k: v[:100] for k, v in request.query_params.items()},
        older=with_query("/replays", before=found[-1].id) if more else "",
        newest="/replays" if before else "",
    )
    return render(request, "replays.html", "Replays", here="replays", live=True, view=view)


@dataclass(frozen=True, slots=True)
class One:
    """One replay. What diverged is not told of a dataset that is restricted."""

    replay: Standing
    divergences: list[dict[str, Any]]

    @property
    def share(self) -> float:
        return self.replay.done / self.replay.inputs if self.replay.inputs else 1.0

    @property
    def verdict(self) -> str:
        """What it comes to, in a word that has a colour."""
        r = self.replay
        if r.state == "running":
            return "running"
        if r.mode == "verify" and r.state == "done":
            return "diverged" if r.found else "verified"
        return r.state


@router.get("/replays/{id}")
async def one(request: Request, id: int) -> Response:
    """One replay: how far it is, when it will be done, what it found or became."""
    serving: Serving = request.app.state.serving
    by = await sight(request)
    async with serving.readers, ledger():
        try:
            found = await replays.replay(serving.db, id, fates_upto=FATES)
        except UsageError as error:
            raise Refusal("not_found", f"{error}") from error
    by.need(found.pipeline)
    view = One(
        found, [_seen(by, found.pipeline, d) for d in (found.report or {}).get("divergences", ())]
    )
    title = f"Replay {id} of {found.pipeline}"
    live = found.state == "running"
    return render(request, "replay.html", title, here="replays", live=live, view=view)


def _seen(by: Sight, pipeline: str, one: dict[str, Any]) -> dict[str, Any]:
    uri, text = by.uri(pipeline, one["uri"]), by.text(pipeline, one["text"])
    return {**one, "uri": uri, "text": text}
