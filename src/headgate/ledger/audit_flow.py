"""Flow: what was added up is what the journal and the tally say, up to where it was added up."""

from __future__ import annotations

from headgate.pg import Link, queries

from .finding import Findings, Progress

Q = queries.load(__file__)

# Where the journal itself is damaged, figures that differ from it say nothing more.
_DAMAGED = frozenset(
    {"batch_incomplete", "chain_broken", "commit_gap", "journal_uncommitted", "line_altered"}
)


async def check(link: Link, findings: Findings, progress: Progress) -> None:
    """Add up once more, in another way, and compare."""
    mark = await link.fetchrow(Q.mark)
    if mark is None or mark["pos"] > mark["last"]:
        where = "no commit" if mark is None else f"commit {mark['pos']}"
        last = 0 if mark is None else mark["last"]
        findings.found("flow_mismatch", f"added up to {where}, and the journal ends at {last}")
        return
    if not _DAMAGED.intersection(v.code for v in findings.violations):
        await _lines(link, findings)
    for pipeline, source, seen, told, counted in await link.fetch(Q.deliveries):
        findings.found(
            "flow_mismatch",
            f"{pipeline}/{source}: {seen} deliveries were added up, {told} were told,"
            f" and the hours have {counted}",
        )
    progress("flow", 1, 1)


async def _lines(link: Link, findings: Findings) -> None:
    for pipeline, what, told, counted in await link.fetch(Q.rests):
        findings.found(
            "flow_mismatch",
            f"{pipeline}: {told} {what} were added up, and the journal has {counted}",
        )
    for pipeline, at, told, counted in await link.fetch(Q.lines):
        findings.found(
            "flow_mismatch",
            f"{pipeline}: {told} lines were added up in the hour of {at:%F %H:%M},"
            f" and the journal has {counted}",
        )
