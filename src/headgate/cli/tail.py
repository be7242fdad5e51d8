"""`headgate tail`: how changes end, as it happens."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from headgate.errors import LedgerUnavailable

from . import show
from .asked import Asked, Command, json_option, pass_asked
from .wanted import moment

if TYPE_CHECKING:
    from headgate.ledger.changes import Change, Cursor
    from headgate.pg import Database
    from headgate.settings import Settings

OUTCOMES = ("finalized", "skipped", "quarantined", "rolled_back")
PAGE = 500
POLL_SECONDS, AWAY_SECONDS = 0.5, 5.0


@click.command(cls=Command)
@click.option("--pipeline", metavar="NAME", multiple=True, help="Only this pipeline. Repeatable.")
@click.option(
    "--outcome", type=click.Choice(OUTCOMES), multiple=True, help="Only what ended so. Repeatable."
)
@click.option("--uri", metavar="TEXT", help="Only uris that begin with this.")
@click.option("--since", metavar="TIME", help="Begin there: 2h, 3d, or 2026-01-05.")
@click.option("--after", metavar="CURSOR", help="Go on behind this change.")
@click.option(
    "--last",
    metavar="N",
    type=click.IntRange(0, 1000),
    default=10,
    help="Begin with so many that there are already. [10]",
)
@click.option("--no-follow", "once", is_flag=True, help="Stop at the end.")
@json_option
@pass_asked
def tail(asked: Asked, *, as_json: bool, **given: Any) -> None:
    """How changes end, as it happens; Ctrl-C ends it.

    \b
    headgate tail
    headgate tail --outcome quarantined --since 2h
    headgate tail --json --after 41-2 | while read change; do …; done

    Each change comes once, in the order of commits. With --json there is one document on each
    line; its `cursor` is what --after takes, also tomorrow. An outage of the ledger is waited out.
    """
    from headgate.runtime.loop import run

    told = _Told(as_json)
    try:
        run(lambda: _tail(asked.settings(), told, **given))
    except KeyboardInterrupt:
        if told.cursor is not None:
            show.note("\nTo go on from here:")
            show.hints(f"headgate tail --after {told.cursor}")
    except BrokenPipeError:
        # Whoever read has enough. The interpreter would flush once more, and complain.
        import os
        import sys

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@dataclass(slots=True)
class _Told:
    """How changes are told, and how far that is."""

    as_json: bool
    cursor: Cursor | None = None
    _style: dict[str, str] = field(default_factory=lambda: {**show.COLOURS, "skipped": "dim"})

    def tell(self, changes: list[Change]) -> None:
        for change in changes:
            if self.as_json:
                click.echo(json.dumps(show.plain(change.document()), ensure_ascii=False))
            else:
                show.out(self._line(change))
            self.cursor = change.cursor

    def _line(self, c: Change) -> Any:
        what = c.outcome
        if c.outcome == "finalized":
            verb = "removed" if c.removed else "reverted" if c.reverts else "published"
            what = f"{verb} v{c.version}"
        line = show.text(f"{c.at.astimezone():%H:%M:%S}", "dim")
        for part, width, style in (
            (what, 16, self._style.get(c.outcome, "")),
            (c.pipeline, 14, "bold"),
            (show.near(c.source_uri), 0, ""),
            (c.reason or "", 0, "yellow"),
            (f"entry {c.entry}", 0, "dim"),
        ):
            if part:
                line.append("  ").append(show.text(part.ljust(width), style))
                line.append(" " * (width - len(part)))
        return line


async def _tail(settings: Settings, told: _Told, **given: Any) -> None:
    from headgate.ledger.changes import changes

    from .ledger import opened

    async with opened(settings) as db:
        place = await _begin(db, told, **given)
        pause = POLL_SECONDS
        while True:
            try:
                page = await changes(db, place, PAGE, **_filters(**given))
            except LedgerUnavailable as error:
                if pause == POLL_SECONDS:
                    show.note(f"The ledger is away: {error}. This goes on when it is back.")
                pause = min(2 * pause, AWAY_SECONDS)
                await asyncio.sleep(pause)
                continue
            if pause > POLL_SECONDS:
                show.note("The ledger is back.")
                pause = POLL_SECONDS
            told.tell(page.changes)
            place = page.cursor
            if not page.more:
                if given["once"]:
                    return
                await asyncio.sleep(pause)


async def _begin(db: Database, told: _Told, **given: Any) -> Cursor:
    """Where it begins; what is shown of the past is told already."""
    from headgate.ledger import changes as ledger

    if given["after"] is not None:
        return ledger.Cursor.parse(given["after"])
    if given["since"] is not None:
        return await ledger.since(db, moment(given["since"]))
    # First the end: what comes while the past is read is not told twice.
    end = await ledger.latest(db)
    if given["last"]:
        behind = ledger.Cursor(end.position, end.n + 1)
        page = await ledger.changes(
            db, behind, given["last"], newest_first=True, **_filters(**given)
        )
        told.tell(page.changes[::-1])
    return end


def _filters(
    *, pipeline: tuple[str, ...], outcome: tuple[Any, ...], uri: str | None, **_: Any
) -> dict[str, Any]:
    return {"pipelines": pipeline or None, "outcome": outcome or None, "uri_prefix": uri}
