"""The chain, recomputed: every line from its row, every batch from its lines, every link from both.

After a break the walk goes on from what is stored, so that one change is one violation and not a
violation of everything after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256

from headgate.model.entry import Status
from headgate.pg import Link, Record, queries

from .finding import Findings, Progress
from .journal import Line, batch_digest, published
from .publication import as_written

Q = queries.load(__file__)

COMMITS_PAGE = 2000
LINES_PAGE = 5000


async def check(link: Link, findings: Findings, last: int, progress: Progress) -> None:
    """Walk the commit rows from the first to the last."""
    pos, chain = 0, b""
    while commits := await link.fetch(Q.commits, pos, COMMITS_PAGE):
        for group in _groups(commits):
            rows = await link.fetch(Q.lines, [c["batch"] for c in group])
            lines: dict[int, list[Record]] = {c["batch"]: [] for c in group}
            for row in rows:
                lines[row["batch"]].append(row)
            for commit in group:
                _commit(findings, commit, lines[commit["batch"]], pos, chain)
                pos, chain = commit["pos"], commit["chain"]
            findings.count("commits", len(group))
            findings.count("journal", len(rows))
            progress("chain", pos, last)


async def check_uncommitted(link: Link, findings: Findings) -> None:
    """Lines that are in the journal and have no place in its order."""
    for row in await link.fetch(Q.uncommitted):
        findings.found(
            "journal_uncommitted",
            f"journal batch {row['batch']} ({row['lines']} lines) has no commit row",
            entry=row["entry"],
        )


def _groups(commits: Sequence[Record]) -> Iterator[list[Record]]:
    group: list[Record] = []
    lines = 0
    for commit in commits:
        if group and lines + commit["n"] > LINES_PAGE:
            yield group
            group, lines = [], 0
        group.append(commit)
        lines += commit["n"]
    if group:
        yield group


def _commit(
    findings: Findings, commit: Record, lines: list[Record], before: int, chain: bytes
) -> None:
    pos = commit["pos"]
    for line in lines:
        if _altered(line):
            findings.found(
                "line_altered",
                f"journal {line['batch']}/{line['n']} (commit {pos}) does not match its hash: the "
                "line or what it published was changed after the commit",
                entry=line["entry"],
            )
    if [line["n"] for line in lines] != list(range(1, commit["n"] + 1)):
        findings.found(
            "batch_incomplete",
            f"commit {pos} says that batch {commit['batch']} has {commit['n']} lines; "
            f"the journal has {len(lines)}",
            entry=lines[0]["entry"] if lines else None,
        )
        return  # its link cannot be recomputed without all lines
    if pos != before + 1:
        missing = f"{before + 1}" if pos == before + 2 else f"{before + 1} to {pos - 1}"
        findings.found("commit_gap", f"commit {missing} missing before commit {pos}")
        return  # nor without the link before it
    if sha256(chain + batch_digest([line["hash"] for line in lines])).digest() != commit["chain"]:
        findings.found(
            "chain_broken",
            f"commit {pos} does not follow from commit {before} and the lines of its batch",
        )


def _altered(row: Record) -> bool:
    (
        _, _, entry, fence, outcome, attempt, worker, reason, steps, doc, hash_,
        content, effect, removed, artifacts,
    ) = row  # fmt: skip
    shown = None
    if outcome == "finalized":
        if content is None:
            return False  # its publication is missing: said of the entry, and nothing to compare
        shown = published(content, effect, as_written(artifacts), removed)
    line = Line(entry, fence, Status(outcome), attempt, worker, reason, steps, doc, shown)
    return line.hash() != hash_
