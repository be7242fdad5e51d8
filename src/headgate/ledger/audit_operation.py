"""Operations: each one's journal is whole, and its row, result, lock and calls agree with it.

The lines of an operation are chained to each other alone, so that none waits for another one's
commit. No line can be changed or taken out unseen, except the last one by somebody who also makes
its hash and the row fit: no anchor outside the database knows of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headgate.pg import Link, Record, queries

from .finding import Findings, Progress

Q = queries.load(__file__)

PAGE = 2000
LINES_PAGE = 5000

# How an attempt ended, by what its row says. An attempt that runs has not.
_ENDS: dict[str, set[str | None]] = {
    "running": {None},
    "success": {"done"},
    "failure": {"failed", "reset"},
    "partial": {"failed"},
}


@dataclass(slots=True)
class _Story:
    """What the lines of one operation come to, up to the last one read."""

    last: int = 0
    fence: int = 0
    ended: str | None = None  # how the attempt of the last line ended
    done: int | None = None  # the line that says so, and was not reset
    told: bool = False  # that lines are missing


async def check(link: Link, findings: Findings, operations: int, progress: Progress) -> None:
    """Walk all operations with their lines, a page at a time."""
    after = seen = 0
    while page := await link.fetch(Q.operations, after, PAGE):
        stories: dict[int, _Story] = {row["id"]: _Story() for row in page}
        await _lines(link, findings, stories, after, page[-1]["id"])
        for row in page:
            _operation(findings, row, stories[row["id"]])
        after, seen = page[-1]["id"], seen + len(page)
        findings.count("operations", len(page))
        progress("operations", min(seen, operations), operations)


async def check_tables(link: Link, findings: Findings) -> None:
    """What holds between the tables of operations; each question is one statement."""
    for id_, task, key, lease_until, calls in await link.fetch(Q.stuck):
        findings.found(
            "operation_stuck",
            f"{_named(id_, task, key)}: its caller is gone since {lease_until:%F %T}, and had"
            f" called {', '.join(calls)}; nobody has finished it or taken that back",
        )
    _locks(findings, await link.fetch(Q.locks))
    for id_, name, dangling in await link.fetch(Q.calls):
        if dangling:
            text = f"call {name!r} is of operation {id_}, which is not there"
            findings.found("dangling_operation_call", text)
        else:
            text = f"operation {id_}: call {name!r} has another key than its operation gives it"
            findings.found("operation_call_mismatch", text)
    for id_, lines in await link.fetch(Q.dangling):
        text = f"{lines} journal lines are of operation {id_}, which is not there"
        findings.found("dangling_operation_line", text)


async def _lines(
    link: Link, findings: Findings, stories: dict[int, _Story], after: int, upto: int
) -> None:
    at = (after, 1 << 30)  # beyond the last line of the page before
    while rows := await link.fetch(Q.lines, *at, upto, LINES_PAGE):
        for row in rows:
            if (story := stories.get(row["operation"])) is not None:
                _line(findings, row, story)
        at = rows[-1]["operation"], rows[-1]["n"]
        findings.count("operation lines", len(rows))


def _line(findings: Findings, row: Record, story: _Story) -> None:
    id_, n, fence, event, sound = row
    pointer = f"operation/{id_}/{n}"
    if n != story.last + 1:
        story.told = True
        text = f"operation {id_}: line {story.last + 1} is missing before {pointer}"
        findings.found("operation_line_missing", text)
    if sound is False:
        text = f"{pointer} does not match its hash: it, or the line before it, was changed"
        findings.found("operation_line_altered", text)
    if fence < story.fence:
        text = f"operation {id_}: its fence fell from {story.fence} to {fence} at {pointer}"
        findings.found("operation_status_mismatch", text)
    elif fence > story.fence:
        story.ended = None
    if event in ("done", "failed", "lost"):
        if story.done is not None:
            text = f"operation {id_}: it was done by line {story.done}, and ran again by {pointer}"
            findings.found("operation_done_twice", text)
        story.done = n if event == "done" else None
    if event == "reset":
        story.done = None
    if event in ("done", "failed", "lost", "reset"):
        story.ended = event
    story.last, story.fence = n, fence


def _operation(findings: Findings, row: Record, story: _Story) -> None:
    name = _named(row["id"], row["task"], row["key"])
    if row["lines"] != story.last and not story.told:
        text = f"{name}: its row counts {row['lines']} lines, and its journal ends at {story.last}"
        findings.found("operation_line_missing", text)
    elif not story.told and not _agrees(row, story):
        is_ = story.ended if story.fence == row["fence"] and story.ended else "nothing"
        text = f"{name} is {row['status']} at fence {row['fence']}; its journal says {is_} of that"
        findings.found("operation_status_mismatch", text)
    if row["status"] == "success":
        if row["stored"] == (row["store"] is not None) or not row["coded"]:
            text = f"{name}: it is done, and its result is not there"
            findings.found("operation_result_mismatch", text)
        elif row["stored"] and not row["same"]:
            text = f"{name}: its result is not the one that was recorded"
            findings.found("operation_result_mismatch", text)


def _agrees(row: Record, story: _Story) -> bool:
    if story.fence > row["fence"]:
        return False
    ended = story.ended if story.fence == row["fence"] else None
    # Who is interrupted while it asks has nothing to say, and what it was given is taken back.
    interrupted = row["status"] == "failure" and row["reason"] == "interrupted" and ended is None
    return interrupted or ended in _ENDS[row["status"]]


def _locks(findings: Findings, rows: Iterable[Record]) -> None:
    left = 0
    for lock_key, id_, holder, lease_until, status, live in rows:
        if not live:
            left += 1
            continue
        state = f"is {status}" if status != "running" else "is held by another attempt"
        text = (
            f"lock {lock_key} is held for operation {id_} until {lease_until:%F %T} by {holder},"
            f" and that operation {'is not there' if status is None else state}"
        )
        findings.found("operation_lock_left", text)
    if left:
        findings.note(f"locks of finished operations: {left}; their leases ran out, nobody waits")


def _named(id_: int, task: str, key: bytes) -> str:
    return f"operation {id_} ({task}, {key.hex()[:12]})"
