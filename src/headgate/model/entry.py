"""The life of an entry: its statuses, the steps between them, and which may follow which.

Resting states are rows of the ledger; the steps between `claimed` and `finalized` are written in
the journal row of the attempt. `NEXT` is the whole machine: the journal of any entry is a path
through it, and `headgate verify` walks it.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise


class Status(StrEnum):
    """Where an entry is, or was on its way. Postgres' enum `headgate.status` has the same names."""

    RECEIVED = "received"
    CLAIMED = "claimed"
    FETCHED = "fetched"
    VALIDATED = "validated"
    STAGED = "staged"
    PROMOTED = "promoted"
    FINALIZED = "finalized"
    FAILED = "failed"
    WAITING = "waiting"
    QUARANTINED = "quarantined"
    ROLLED_BACK = "rolled_back"
    SKIPPED = "skipped"
    FENCED = "fenced"


S = Status

NEXT: dict[Status, frozenset[Status]] = {
    S.RECEIVED: frozenset({S.CLAIMED}),
    # A claim that is given back unstarted goes to `received`, or to `waiting` if that was before.
    # A removal has no bytes to fetch: it is promoted at once.
    S.CLAIMED: frozenset(
        {S.FETCHED, S.PROMOTED, S.SKIPPED, S.FAILED, S.RECEIVED, S.WAITING, S.FENCED}
    ),
    S.FETCHED: frozenset({S.VALIDATED, S.SKIPPED, S.FAILED, S.RECEIVED, S.WAITING, S.FENCED}),
    S.VALIDATED: frozenset({S.STAGED, S.FAILED, S.RECEIVED, S.WAITING, S.FENCED}),
    S.STAGED: frozenset({S.PROMOTED, S.FAILED, S.RECEIVED, S.WAITING, S.FENCED}),
    S.PROMOTED: frozenset({S.FINALIZED}),  # rows of one commit: nothing rests between them
    S.FAILED: frozenset({S.WAITING, S.ROLLED_BACK}),
    S.ROLLED_BACK: frozenset({S.QUARANTINED}),  # after a failure; or a discard is taken back
    S.WAITING: frozenset({S.CLAIMED}),
    S.QUARANTINED: frozenset({S.RECEIVED, S.ROLLED_BACK}),  # released, or discarded
    S.FINALIZED: frozenset(),
    S.SKIPPED: frozenset({S.RECEIVED}),  # reset: the gates are asked again
    S.FENCED: frozenset(),  # ends an attempt that had lost its lease, not the entry
}

# Where a line of an operator may begin: what a person decides about is at rest.
DECIDED = frozenset({S.QUARANTINED, S.ROLLED_BACK, S.SKIPPED})
RESTING = frozenset(
    {S.RECEIVED, S.CLAIMED, S.WAITING, S.QUARANTINED, S.ROLLED_BACK, S.FINALIZED, S.SKIPPED}
)
DONE = frozenset({S.FINALIZED, S.SKIPPED, S.ROLLED_BACK})


def is_path(steps: list[Status]) -> bool:
    """May these statuses follow one another?"""
    return all(after in NEXT[before] for before, after in pairwise(steps))


class Point(StrEnum):
    """Every place where the process may die and a test makes sure that it does no harm.

    `before:` and `after:` are the two sides of a commit; the others follow a step.
    """

    BEFORE_RECEIVE = "before:receive"
    AFTER_RECEIVE = "after:receive"
    BEFORE_CLAIM = "before:claim"
    AFTER_CLAIM = "after:claim"
    FETCHED = "fetched"
    VALIDATED = "validated"
    HANDLED = "handled"
    TOUCHED = "touched"
    STAGED = "staged"
    EFFECTS = "effects"
    PROMOTED = "promoted"
    BEFORE_FINALIZE = "before:finalize"
    AFTER_FINALIZE = "after:finalize"
    BEFORE_FAIL = "before:fail"
    AFTER_FAIL = "after:fail"
    BEFORE_CALL = "before:call"
    AFTER_CALL = "after:call"
    BEFORE_RELEASE = "before:release"
    AFTER_RELEASE = "after:release"
    BEFORE_BURY = "before:bury"
    AFTER_BURY = "after:bury"
    BEFORE_CONDEMN = "before:condemn"
    AFTER_CONDEMN = "after:condemn"
    COLLECTED = "collected"
    ANCHORED = "anchored"
    PROJECTED = "projected"
    BEFORE_PROJECT = "before:project"
    AFTER_PROJECT = "after:project"
