"""Each entry's life: its journal is a path of the machine, and the tables agree with its end.

An attempt's line begins with `claimed`, from where the entry was left: received or waiting. A line
of an operator begins where the entry was at rest. Each claim raises the fence by one and ends in
one line, so along the lines of an entry no fence falls and none is left out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

from msgspec import MsgspecError

from headgate.model.entry import DECIDED, DONE, Status, is_path
from headgate.model.envelope import Envelope
from headgate.model.frozen import replay_key
from headgate.model.identity import change_key, fingerprint
from headgate.pg import Link, Record, queries

from .finding import Findings, Progress

Q = queries.load(__file__)

PAGE = 5000

_MILLISECONDS = re.compile(r":\d+")
_FAULTS = {
    "publication_mismatch": "publication {0} does not say what entry {0} does, "
    "or is a removal with other content than its predecessor's",
    "link_broken": "publication {0} and its predecessor or successor do not name each other",
    "version_broken": "publication {0} is not one version above its predecessor",
    "head_went_back": "publication {0} follows one that is newer by the source's account",
}


@dataclass(slots=True)
class _End:
    """Where the journal left an entry."""

    state: Status = Status.RECEIVED
    fence: int = 0
    where: str = "its journal is empty"


async def check(
    link: Link, findings: Findings, entries: int, deep: bool, progress: Progress
) -> None:
    """Walk all entries in their order."""
    after = done = 0
    while page := await link.fetch(Q.entries, after, PAGE):
        first, after = page[0]["id"], page[-1]["id"]
        ends: dict[int, _End] = {}
        rows = await link.fetch(Q.lines, first, after)
        for entry, lines in groupby(rows, key=itemgetter("entry")):
            ends[entry] = _walk(findings, entry, lines)
        for row in page:
            _compare(findings, row, ends.get(row["id"]) or _End())
        if deep:
            await _keys(link, findings, first, after)
        done += len(page)
        findings.count("entries", len(page))
        progress("entries", done, entries)


@lru_cache(maxsize=4096)
def _shape(steps: str) -> tuple[Status, ...] | None:
    """The statuses of a line without their times; None when they are no path of the machine."""
    try:
        path = [Status(step) for step in steps.split()]
    except ValueError:
        return None
    return tuple(path) if path and is_path(path) else None


def _walk(findings: Findings, entry: int, lines: Iterable[Record]) -> _End:
    end = _End()
    for _, batch, n, fence, outcome, steps in lines:
        where = f"journal {batch}/{n}"
        path = _shape(_MILLISECONDS.sub("", steps))
        if path is None or path[-1] != outcome:
            findings.found(
                "journal_not_a_path",
                f"{where} says {steps!r} and ends {outcome}: no path of the machine",
                entry=entry,
            )
        if outcome == Status.FENCED:
            continue
        operator = path is not None and path[0] in DECIDED
        if outcome == Status.FINALIZED and end.state == Status.FINALIZED:
            findings.found(
                "finalized_twice", f"{where} finalizes again after {end.where}", entry=entry
            )
        elif path is not None and not _continues(end.state, path[0]):
            findings.found(
                "journal_not_a_path",
                f"{where} begins with {path[0]}, but {end.where} left the entry {end.state}",
                entry=entry,
            )
        _fence(findings, entry, where, fence, end, end.fence + (0 if operator else 1))
        end = _End(Status(outcome), fence, where)
    return end


def _continues(state: Status, first: Status) -> bool:
    if first in DECIDED:
        return state == first
    return first == Status.CLAIMED and state in (Status.RECEIVED, Status.WAITING)


def _fence(
    findings: Findings, entry: int, where: str, fence: int, end: _End, expected: int
) -> None:
    if fence < expected:
        findings.found(
            "fence_fell",
            f"{where} has fence {fence}; after {end.where} it must be {expected}",
            entry=entry,
        )
    elif fence > expected:
        findings.found(
            "attempt_missing",
            f"{where} has fence {fence}; after {end.where} it should be {expected}: "
            "an attempt has no line",
            entry=entry,
        )


def _compare(findings: Findings, row: Record, end: _End) -> None:
    entry, uri, work_fence, worker, waits, spent, quarantine_fence, published, faults = row
    working, aside = work_fence is not None, quarantine_fence is not None

    def found(code: str, text: str) -> None:
        findings.found(code, text, entry=entry, uri=uri)

    at = f"{end.where}, so it is {end.state}"
    if working and aside:
        found("entry_in_two_states", "it is live work and in quarantine")
    elif end.state in DONE:
        if working or aside:
            where = "live work" if working else "in quarantine"
            found("entry_in_two_states", f"it is {where}, and done: {at}")
    elif not working and not aside:
        found("entry_lost", f"it is neither live work nor in quarantine: {at}")
    elif aside != (end.state == Status.QUARANTINED):
        where = "in quarantine" if aside else "live work"
        found("state_mismatch", f"it is {where}: {at}")
    elif working and waits != (end.state == Status.WAITING):
        found("state_mismatch", f"its work is {'' if waits else 'not '}waiting for a retry: {at}")
    elif aside:
        _fence(findings, entry, f"quarantine {entry}", quarantine_fence, end, end.fence)
    else:
        claims = 0 if worker is None else 1
        _fence(findings, entry, f"work {entry}", work_fence, end, end.fence + claims)
        if spent > work_fence:
            found("attempts_mismatch", f"{spent} attempts are charged, of {work_fence} claims")
    if published and end.state != Status.FINALIZED:
        found("publication_unearned", f"it is published, but not finalized: {at}")
    elif not published and end.state == Status.FINALIZED:
        found("publication_missing", f"{end.where} finalized it, and it has no publication")
    for code in faults or ():
        found(code, _FAULTS[code].format(entry))


async def _keys(link: Link, findings: Findings, first: int, last: int) -> None:
    for row in await link.fetch(Q.envelopes, first, last):
        id, key, uri, event_time, received_at, sequence, print_, document, data, content, *of = row
        try:
            envelope = Envelope.restore(
                document,
                uri=uri,
                event_time=event_time,
                received_at=received_at,
                sequence=sequence,
                key=key,
                data=data,
            )
            same = _key(envelope, *of) == key and fingerprint(envelope) == print_
        except (ValueError, MsgspecError):
            same = False
        if not same:
            findings.found(
                "key_mismatch", "its key does not follow from its envelope", entry=id, uri=uri
            )
        if content is not None and hashlib.sha256(data).digest() != content:
            findings.found(
                "content_mismatch", "its inline bytes are not what was published", entry=id, uri=uri
            )


def _key(envelope: Envelope, replay: int | None, replayed: bytes | None) -> bytes | None:
    """The key that an entry must have: a replay's is its own, made of the one it replays."""
    if replay is None:
        return change_key(envelope)
    return None if replayed is None else replay_key(replay, replayed)
