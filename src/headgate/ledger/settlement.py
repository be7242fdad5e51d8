"""How an attempt ended, with everything its transaction has to write."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

import orjson

from headgate.model.entry import Status
from headgate.model.object import Object
from headgate.model.verdict import Finalized, Quarantine, Release, Retry, Skipped, Verdict

from .gate import Claim
from .journal import Line, published
from .publication import Publication


class RunInApply(Protocol):
    """A run that knows when it is inside `apply`, where foreign calls are refused."""

    def inside_apply(self) -> AbstractContextManager[None]: ...


@dataclass(slots=True)
class Settlement:
    """One attempt on its way into the journal."""

    claim: Claim
    verdict: Verdict
    steps: list[tuple[Status, float]]
    began: float
    publication: Publication | None = None
    rows: Mapping[str, Sequence[bytes]] = field(default_factory=dict[str, Sequence[bytes]])
    added: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    objects: list[tuple[bytes, int]] = field(default_factory=list[tuple[bytes, int]])
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    content: bytes | None = None
    preview: str | None = None
    given: tuple[Object, Any] | None = None

    def now(self) -> datetime:
        """The database's clock, as far as we know it: its time at the claim, and what passed since."""
        return self.claim.claimed_at + timedelta(seconds=time.monotonic() - self.began)

    def line(self, *, fenced: bool = False) -> Line:
        """The journal line of this attempt."""
        c = self.claim
        ends, reason, facts = self._ending()
        if fenced:
            ends, reason, facts = [Status.FENCED], "fenced", {}
        elapsed = (time.monotonic() - self.began) * 1000
        path = [(s, at) for s, at in self.steps if fenced is False or s is not Status.PROMOTED]
        steps = " ".join(f"{s}:{at:.0f}" for s, at in path + [(s, elapsed) for s in ends])
        shown = None
        if self.publication is not None and isinstance(self.verdict, Finalized) and not fenced:
            p = self.publication
            shown = published(p.content, p.effect, p.artifacts, p.removed)
        doc = orjson.dumps(facts) if facts else None
        return Line(c.id, c.fence, ends[-1], c.attempts, c.worker, reason, steps, doc, shown)

    def _ending(self) -> tuple[list[Status], str | None, dict[str, Any]]:
        match self.verdict:
            case Finalized():
                return [Status.PROMOTED, Status.FINALIZED], None, self.facts
            case Skipped(reason):
                return [Status.SKIPPED], reason, self.facts
            case Retry(_, reason, error, _):
                return [Status.FAILED, Status.WAITING], reason, {**self.facts, "error": error}
            case Quarantine(classed, reason, error):
                ends = [Status.FAILED, Status.ROLLED_BACK, Status.QUARANTINED]
                return ends, reason, {**self.facts, "error": error, "class": classed}
            case Release(reason):
                return [Status.WAITING if self.claim.waited else Status.RECEIVED], reason, {}
