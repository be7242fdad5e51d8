"""*Now*: what is wrong first, then how everything flows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import Request
from starlette.responses import Response

from headgate.ledger import gate, history, watermark
from headgate.ledger.history import Overview
from headgate.ledger.watermark import Standing
from headgate.server.doors import Serving, ledger

from . import wrong
from .page import pages, render
from .words import many

router = pages()


@dataclass(frozen=True, slots=True)
class Now:
    """Where everything stands."""

    overview: Overview
    streams: list[Standing]
    wrongs: list[wrong.Wrong]

    @property
    def lead(self) -> str:
        """It in one sentence."""
        bad = sum(w.severity == "bad" for w in self.wrongs)
        if bad:
            return f"{many(bad, 'thing needs', 'things need')} you now."
        if self.wrongs:
            looks = many(len(self.wrongs), "thing is", "things are")
            return f"Nothing is broken. {looks} worth a look."
        return "Nothing needs you."


async def _look(serving: Serving) -> Now:
    async with serving.readers, ledger():
        overview = await history.overview(serving.db)
        resting = await gate.resting(serving.db, 0)
        window = serving.tuning.error_budget_seconds
        found = await wrong.look(
            serving.db, resting, overview.workers_alive, datetime.now(UTC), window
        )
        return Now(overview, await watermark.streams(serving.db), found)


@router.get("/")
async def now(request: Request) -> Response:
    """The first page."""
    view = await _look(request.app.state.serving)
    return render(request, "now.html", "Now", here="now", live=True, view=view)
