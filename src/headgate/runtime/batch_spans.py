"""The spans of a batch: its handlers, one span for each trace they belong to, and its commit.

A thousand entries that were received together share a trace, and are one span. Who came with a
trace of its own has a span there, and so has a handler that asked for `run.trace`, and an attempt
that failed. The commit is in the trace of the first; the others are linked to it, and it to them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from headgate.ledger.attempt import Attempt
from headgate.model import trace
from headgate.model.mask import mask_uri
from headgate.model.trace import Attribute, Context, Span
from headgate.model.verdict import Quarantine, Release, Retry, Skipped

# Of a batch that fails as a whole, so many attempts are shown one by one.
FAILURES = 100
_FAILED = (Retry, Quarantine)
_BEGAN, _CPU = attrgetter("began"), attrgetter("energy.used.cpu_seconds")


def begin(pipeline: str, batch: Sequence[Attempt]) -> Settling | None:
    """Before a batch is settled; None when nobody wants spans."""
    return Settling(pipeline, batch) if trace.tracing() else None


@dataclass(slots=True)
class _Group:
    """Attempts that are one span."""

    parent: Context | None
    context: Context
    attempts: list[Attempt] = field(default_factory=list[Attempt])


class Settling:
    """A batch on its way into the ledger. Whoever settles it is in the span of the commit."""

    def __init__(self, pipeline: str, batch: Sequence[Attempt]) -> None:
        self._pipeline = pipeline
        self._now = time.time_ns()
        self._since = self._now - int(time.monotonic() * 1e9)
        self._groups = [g for g in _grouped(batch) if g.context.sampled]
        first, *others = [g.context for g in self._groups] or [None]
        said = {"db.system.name": "postgresql", **self._said(len(batch))}
        links = [context for context in others if context is not None]
        self._settle = trace.begin(f"settle {pipeline}", "client", first, said, links, self._now)
        self._settle.wanted = first is not None
        trace.enter(self._settle.context if first is not None else None)

    def end(self) -> None:
        """It is durable: show what became of it."""
        trace.end(self._settle)
        trace.enter(None)
        left = FAILURES
        for n, group in enumerate(self._groups):
            links = (self._settle.context,) if n else ()
            attempts = group.attempts
            failed = [a for a in attempts if a.lost or a.verdict.__class__ in _FAILED][:left]
            if failed and len(attempts) > 1:
                left -= len(failed)
                for attempt in failed:
                    alone = _Group(group.parent, trace.child(group.parent))
                    self._show(alone, [attempt], links)
                attempts = [a for a in attempts if a not in failed] or attempts
            self._show(group, attempts, links)

    def _show(self, group: _Group, attempts: Sequence[Attempt], links: tuple[Context, ...]) -> None:
        began = self._since + int(min(map(_BEGAN, attempts)) * 1e9)
        parent = group.parent.span_id if group.parent is not None else ""
        name = f"process {self._pipeline}"
        span = Span(name, "consumer", group.context, parent, began, self._now)
        span.links = links
        span.attributes = {"messaging.system": "headgate", **self._said(len(attempts))}
        if attempts[0].energy is not None:
            span.attributes |= _energy(attempts)
        if len(attempts) == 1:
            span.attributes |= _attempt(attempts[0])
            span.steps = _steps(attempts[0], began)
            span.error = _error(attempts[0])
        trace.end(span)

    def _said(self, entries: int) -> dict[str, Attribute]:
        return {"headgate.pipeline": self._pipeline, "messaging.batch.message_count": entries}


def _grouped(batch: Sequence[Attempt]) -> list[_Group]:
    groups: dict[str | None, _Group] = {}
    own: list[_Group] = []
    group, mark = None, b""
    for attempt in batch:
        document = attempt.claim.document
        if attempt.run.span is not None:
            own.append(_Group(trace.of_document(document), attempt.run.span, [attempt]))
            continue
        # Most were received with the one before: seeing that is quicker than reading.
        if group is None or not mark or not document.endswith(mark):
            told = trace.text_of(document)
            mark = b'"trace":"%b"}' % told.encode() if told else b""
            group = groups.get(told)
            if group is None:
                parent = trace.of_document(document)
                group = groups[told] = _Group(parent, trace.child(parent))
        group.attempts.append(attempt)
    return [*own, *groups.values()]


def _attempt(attempt: Attempt) -> dict[str, Attribute]:
    claim, verdict = attempt.claim, attempt.verdict
    said: dict[str, Attribute] = {
        "headgate.entry": claim.id,
        "headgate.run": attempt.run.id,
        "headgate.attempt": claim.attempts,
        "headgate.idempotency_key": claim.key.hex(),
        "headgate.uri": mask_uri(claim.uri),
        "headgate.outcome": "fenced" if attempt.lost else type(verdict).__name__.lower(),
        "messaging.message.id": claim.envelope().event_id,
    }
    if isinstance(verdict, (Retry, Quarantine, Skipped, Release)):
        said["headgate.reason"] = verdict.reason
    return said


def _steps(attempt: Attempt, began: int) -> list[tuple[str, int]]:
    # From `staged` on it is the commit's.
    handled = attempt.steps.partition(" staged:")[0].split()
    parted = (step.partition(":") for step in handled)
    return [(name, began + int(ms) * 1_000_000) for name, _, ms in parted if ms.isdecimal()]


def _error(attempt: Attempt) -> str:
    if attempt.lost:
        return "the lease was lost: nothing of it was kept"
    verdict = attempt.verdict
    return verdict.error if isinstance(verdict, (Retry, Quarantine)) else ""


def _energy(attempts: Sequence[Attempt]) -> dict[str, Attribute]:
    first = attempts[0].energy
    assert first is not None, "a batch is metered as a whole"
    used = first.used._replace(cpu_seconds=sum(map(_CPU, attempts)))
    return {
        "headgate.cpu.seconds": used.cpu_seconds,
        "headgate.energy.joules": used.joules,
        "headgate.carbon.grams": used.grams,
    }
