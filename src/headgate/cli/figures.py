"""Pipelines in figures: what arrived, what became of it, and what stays to be done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from . import show

if TYPE_CHECKING:
    from rich.table import Table

    from headgate.ledger.gate import Resting
    from headgate.ledger.history import Overview
    from headgate.ledger.watermark import Standing as Stream
    from headgate.pg import Database

COLUMNS = (
    "pipeline", "received", "new", "duplicates", "to do", "waiting", "skipped", "quarantined",
    "finalized",
)  # fmt: skip


class Aside(NamedTuple):
    """How many entries of a pipeline were set aside for one reason."""

    pipeline: str
    classed: str
    reason: str
    entries: int


@dataclass(frozen=True, slots=True)
class Standing:
    """Where everything stands now."""

    overview: Overview
    resting: list[Resting]
    aside: list[Aside]
    streams: list[Stream]


async def standing(db: Database) -> Standing:
    """Ask the ledger where everything stands."""
    from headgate.ledger import gate, history, watermark
    from headgate.ledger.quarantine import Q

    return Standing(
        await history.overview(db),
        await gate.resting(db, 0),
        [Aside(*row) for row in await db.fetch(Q.counts)],
        await watermark.streams(db),
    )


def table(overview: Overview) -> Table:
    """A line for each pipeline. A nought is not worth a reader's eye."""
    rows: list[list[object]] = []
    for p in overview.pipelines:
        numbers = [
            p.received, p.entries, p.duplicates, p.ready + p.claimed, p.waiting,
            sum(p.skipped.values()), p.quarantined, p.finalized,
        ]  # fmt: skip
        row: list[object] = [p.pipeline]
        for name, number in zip(COLUMNS[1:], numbers, strict=True):
            style = "dim" if not number else show.COLOURS.get(name, "none")
            row.append(show.text(f"{number:,}", style))
        rows.append(row)
    return show.table(COLUMNS, rows, right=COLUMNS[1:], gap=1)


def say_how_far(streams: Sequence[Stream]) -> None:
    """How far each stream has come by its own account."""
    if not streams:
        return
    rows: list[list[object]] = []
    for s in streams:
        at = None if s.watermark is None else f"{s.watermark.astimezone():%Y-%m-%d %H:%M:%S %Z}"
        behind = None if s.lag_seconds is None else show.span(max(s.lag_seconds, 0.0))
        late = show.text(f"{s.late:,}", "yellow" if s.late else "dim")
        heard = show.ago(s.heard_at, s.now) if s.seen is not None else "never"
        rows.append([s.name, at or "none yet", behind, late, f"{heard}{', idle' * s.idle}"])
    columns = ("stream", "watermark", "behind", "late", "last event")
    show.out(show.table(columns, rows, right=("behind", "late")), "")


def say_what_stays(now: Standing) -> None:
    """What is left, when it goes on, and what a person has to decide."""
    for one in now.resting:
        if one.ready or one.leased:
            show.out(
                show.text(f"{one.pipeline}: {one.ready} ready, {one.leased} running", "yellow")
            )
        waiting = one.soon + one.later
        if waiting:
            said = f"{one.pipeline}: {show.many(waiting, 'entry', 'entries')} wait for a retry"
            show.out(show.text(f"{said}; the next is due {show.moment(one.next_due)}", "yellow"))
    _say_aside(now.aside)


def _say_aside(aside: Sequence[Aside]) -> None:
    if not aside:
        return
    total = sum(a.entries for a in aside)
    show.out(show.text(f"{show.many(total, 'entry', 'entries')} in quarantine:", "red"))
    for a in aside:
        said = f"{a.entries:,} × {a.pipeline}: {a.reason}"
        show.out(
            show.indented(show.text(said + ("" if a.classed == a.reason else f" ({a.classed})")))
        )
    show.note("Look at them, then decide:")
    show.hints("headgate quarantine list")
