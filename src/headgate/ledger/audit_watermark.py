"""Event time: what is marked late was passed by a watermark, and none is ahead of its events.

Which stream an entry came from is not kept, so a watermark is held against the events of its whole
pipeline. A mark above all watermarks of today would mean that one of them went back.
"""

from __future__ import annotations

from headgate.pg import Link, queries

from .finding import Findings, Progress

Q = queries.load(__file__)


async def check(link: Link, findings: Findings, progress: Progress) -> None:
    """Hold marks and watermarks against each other."""
    for entry, event_time, late in await link.fetch(Q.unearned):
        if late is None:
            text = "it is held for being late, and is not marked so"
        else:
            text = (
                f"it is of {event_time:%F %T} and was marked late by {late:%F %T},"
                " where no watermark of its pipeline can have stood"
            )
        findings.found("late_unearned", text, entry=entry)
    for pipeline, seen, latest, counted, marked in await link.fetch(Q.streams):
        if seen is not None and (latest is None or seen > latest):
            findings.found(
                "watermark_ahead",
                f"a stream of {pipeline} has seen {seen:%F %T}, and no event is as late as that",
            )
        if counted != marked:
            findings.found(
                "late_miscounted",
                f"{pipeline}: {counted} late events were counted, and {marked} are marked",
            )
    progress("watermarks", 1, 1)
