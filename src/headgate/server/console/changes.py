"""*Changes*: the feed, the newest first."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request
from starlette.responses import Response

from headgate.errors import UsageError
from headgate.ledger import changes as feed
from headgate.ledger.changes import OUTCOMES, Change, Cursor, Outcome
from headgate.server.doors import Serving, ledger

from .asked import pipelines
from .page import pages, render, with_query
from .sight import Sight, sight

router = pages()
MANY = 50


@dataclass(frozen=True, slots=True)
class Line:
    """One change in the list. What is restricted is not in it."""

    change: Change
    uri: str
    error: str | None
    href: str


@dataclass(frozen=True, slots=True)
class View:
    """A page of the feed, and the filters it was asked with."""

    lines: list[Line]
    pipelines: list[str]
    outcomes: tuple[str, ...]
    pipeline: str
    outcome: str
    uri: str
    older: str
    newest: str

    @property
    def is_filtered(self) -> bool:
        return bool(self.pipeline or self.outcome or self.uri)


@router.get("/changes")
async def changes(
    request: Request, pipeline: str = "", outcome: str = "", uri: str = "", before: str = ""
) -> Response:
    """The feed. `uri` is how the uri begins; `before` is the cursor of the page."""
    serving: Serving = request.app.state.serving
    by = await sight(request)
    async with serving.readers, ledger():
        known = await pipelines(serving.db, by)
        page = await feed.changes(
            serving.db,
            _cursor(before),
            MANY,
            pipelines=await by.eyes.searched(serving.db, _of(by, known, pipeline), uri or None),
            outcome=_outcome(outcome),
            uri_prefix=uri or None,
            newest_first=True,
        )
    asked = {"pipeline": pipeline, "outcome": outcome, "uri": uri}
    view = View(
        lines=[_line(by, c) for c in page.changes],
        pipelines=known,
        outcomes=OUTCOMES,
        **asked,
        older=with_query("/changes", **asked, before=page.cursor) if page.more else "",
        newest=with_query("/changes", **asked) if before else "",
    )
    return render(request, "changes.html", "Changes", here="changes", live=not before, view=view)


def _of(by: Sight, known: list[str], pipeline: str) -> list[str] | None:
    """The pipelines to look for; None is all, which is found quickest."""
    if pipeline:
        return [name for name in known if name == pipeline]
    return None if by.by.pipelines is None else known


def _cursor(text: str) -> Cursor | None:
    try:
        return Cursor.parse(text) if text else None
    except UsageError:
        return None


def _outcome(text: str) -> list[Outcome] | None:
    return [o for o in OUTCOMES if o == text] or None


def _line(by: Sight, c: Change) -> Line:
    where = "changes" if c.outcome == "finalized" else "entries"
    return Line(
        c, by.uri(c.pipeline, c.source_uri), by.text(c.pipeline, c.error), f"/{where}/{c.entry}"
    )
