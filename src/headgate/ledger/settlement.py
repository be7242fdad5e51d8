"""How an attempt ended, with everything its transaction has to write."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

import orjson

from headgate.model.entry import Status
from headgate.model.object import Object
from headgate.model.ports import Chunks
from headgate.model.verdict import Finalized, Quarantine, Release, Retry, Skipped, Verdict

from .gate import Claim
from .journal import Line, published
from .publication import Publication

NOTHING: Mapping[str, Any] = MappingProxyType({})


def _nothing() -> Mapping[str, Any]:
    return NOTHING


def database_now(claim: Claim, began: float) -> datetime:
    """The database's clock, as far as we know it: its time at the claim, and what passed since."""
    return claim.claimed_at + timedelta(seconds=time.monotonic() - began)


@dataclass(slots=True, eq=False)
class Settlement:
    """One attempt on its way into the journal."""

    claim: Claim
    verdict: Verdict
    steps: list[str]
    began: float
    publication: Publication | None = None
    rows: Mapping[str, Chunks] = field(default_factory=_nothing)
    added: Mapping[str, frozenset[str]] = field(default_factory=_nothing)
    objects: Sequence[tuple[bytes, int]] = ()
    facts: Mapping[str, Any] = field(default_factory=_nothing)
    content: bytes | None = None
    preview: str | None = None
    given: tuple[Object, Any] | None = None
    ended: bool = False  # durably; an outage later in its batch does not end it again
    lost: bool = False  # the lease was: nothing of this was kept

    def line(self, *, fenced: bool = False) -> Line:
        """The journal line of this attempt."""
        c = self.claim
        ends, reason, facts = self._ending()
        if fenced:
            ends, reason, facts = (Status.FENCED,), "fenced", NOTHING
        elapsed = int((time.monotonic() - self.began) * 1000)
        steps = " ".join([*self.steps, *(f"{_TEXT[s]}:{elapsed}" for s in ends)])
        shown = None
        if self.publication is not None and ends is _FINALIZED:
            p = self.publication
            shown = published(p.content, p.effect, p.artifacts, p.removed)
        doc = orjson.dumps(facts) if facts else None
        return Line(c.id, c.fence, ends[-1], c.attempts, c.worker, reason, steps, doc, shown)

    def _ending(self) -> tuple[tuple[Status, ...], str | None, Mapping[str, Any]]:
        match self.verdict:
            case Finalized():
                return _FINALIZED, None, self.facts
            case Skipped(reason):
                return (Status.SKIPPED,), reason, self.facts
            case Retry(_, reason, error, _):
                return (Status.FAILED, Status.WAITING), reason, {**self.facts, "error": error}
            case Quarantine(classed, reason, error):
                return _QUARANTINED, reason, {**self.facts, "error": error, "class": classed}
            case Release(reason):
                return (Status.WAITING if self.claim.waited else Status.RECEIVED,), reason, NOTHING


_TEXT = {status: str(status.value) for status in Status}
_FINALIZED = (Status.PROMOTED, Status.FINALIZED)
_QUARANTINED = (Status.FAILED, Status.ROLLED_BACK, Status.QUARANTINED)
