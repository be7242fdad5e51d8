"""The life of one entry: everything the ledger knows about it, gathered from its rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from headgate.model.envelope import Envelope, stored
from headgate.model.identity import occurrence
from headgate.pg import Database, Link, Record, queries

from .facts import steps

Q = queries.load(__file__)


@dataclass(frozen=True, slots=True)
class JournalLine:
    """One line of the journal. `steps` are names, with milliseconds since the claim if known."""

    batch: int
    n: int
    commit: int | None
    at: datetime
    fence: int
    outcome: str
    attempt: int
    worker: str | None
    reason: str | None
    steps: list[tuple[str, int | None]]
    facts: dict[str, Any]

    @property
    def pointer(self) -> str:
        return f"journal {self.batch}/{self.n}"


@dataclass(frozen=True, slots=True)
class Published:
    """What the entry made visible, and what came before and after it."""

    entry: int
    version: int
    removed: bool
    content: str
    effect: str
    predecessor: int | None
    successor: int | None
    artifacts: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class CurrentThen:
    """The publication of the same uri that was current when the entry was skipped."""

    entry: int
    version: int
    content: str
    event_time: datetime
    sequence: str | None


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Why a person has to decide."""

    classed: str
    reason: str
    error: str
    preview: str | None
    content: str | None
    attempts: int
    failures: list[dict[str, Any]]
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Deployed:
    """The code that published it, or gave it up."""

    id: int
    version: str
    code: str
    first_seen: datetime


@dataclass(frozen=True, slots=True)
class Action:
    """What an operator decided, and why."""

    id: int
    at: datetime
    actor: str
    verb: str
    because: str


@dataclass(frozen=True, slots=True)
class Call:
    """A named step outside Postgres."""

    name: str
    key: str
    begun: datetime
    done: datetime | None
    undone: datetime | None


@dataclass(frozen=True, slots=True)
class Replay:
    """The replay that admitted an entry. `replays` is the publication that is run again, if any."""

    id: int
    replays: int | None
    actor: str
    because: str | None
    asked_at: datetime


@dataclass(frozen=True, slots=True)
class Life:
    """Everything that is known about one entry. Digests and keys are hex."""

    entry: int
    pipeline: str
    uri: str
    key: str
    status: str
    reason: str | None
    attempts: int
    fence: int
    event_time: datetime
    received_at: datetime
    settled_at: datetime | None
    due_at: datetime | None
    worker: str | None
    removed: bool
    sequence: str | None
    occurrence: tuple[str, str]
    envelope: dict[str, Any]
    told_again: int
    conflicts: int
    last_told_at: datetime | None
    conflict_rows: list[tuple[int, datetime]]
    lines: list[JournalLine]
    publication: Published | None
    current_then: CurrentThen | None
    quarantine: Quarantined | None
    deployment: Deployed | None
    actions: list[Action]
    calls: list[Call]
    reverts: int | None
    restores: int | None
    late: datetime | None
    replay: Replay | None


async def life(db: Database, entry: int) -> Life | None:
    """The life of an entry as of one moment; None when there is no such entry."""
    async with db.transaction() as link:
        await link.execute(Q.snapshot)
        row = await link.fetchrow(Q.entry, entry)
        return None if row is None else await _gather(link, row)


async def _gather(link: Link, row: Record) -> Life:
    entry: int = row["entry"]
    lines = [_line(r) for r in await link.fetch(Q.lines, entry)]
    shown = await link.fetchrow(Q.publication, entry)
    aside = await link.fetchrow(Q.quarantine, entry)
    judged = shown or aside
    deployed = await link.fetchrow(Q.deployment, judged["deployment"]) if judged else None
    last = lines[-1] if lines else None
    then = None
    if row["status"] == "skipped" and last is not None:
        then = await link.fetchrow(Q.current_then, row["pipeline_id"], row["uri"], last.commit)
    kind, value = _occurrence(row)
    return Life(
        *row[:13],
        removed=row["removed"],
        sequence=row["sequence"],
        occurrence=(kind, value),
        envelope=stored(row["envelope"]),
        told_again=row["times"] or 0,
        conflicts=row["conflicts"] or 0,
        last_told_at=row["last_at"],
        conflict_rows=[(r["id"], r["at"]) for r in await link.fetch(Q.conflicts, entry)],
        lines=lines,
        publication=None if shown is None else _published(shown),
        current_then=None if then is None else CurrentThen(*then),
        quarantine=None if aside is None else _quarantined(aside),
        deployment=None if deployed is None else Deployed(*deployed),
        actions=[Action(*r) for r in await link.fetch(Q.actions, entry)],
        calls=[Call(*r) for r in await link.fetch(Q.calls, entry)],
        reverts=row["reverts"],
        restores=row["restores"],
        late=row["late"],
        replay=None if row["replay"] is None else _replay(row),
    )


def _occurrence(row: Record) -> tuple[str, str]:
    envelope = Envelope.restore(
        row["envelope"],
        uri=row["uri"],
        event_time=row["event_time"],
        received_at=row["received_at"],
        sequence=row["sequence"],
        key=row["change_key"],
        data=row["data"],
    )
    kind, value = occurrence(envelope)
    return str(kind), str(value)


def _replay(r: Record) -> Replay:
    return Replay(
        r["replay"], r["replays"], r["replay_actor"], r["replay_because"], r["replay_asked_at"]
    )


def _line(r: Record) -> JournalLine:
    facts: dict[str, Any] = orjson.loads(r["doc"]) if r["doc"] else {}
    return JournalLine(*r[:9], steps=list(steps(r["steps"])), facts=facts)


def _published(r: Record) -> Published:
    artifacts: list[dict[str, Any]] = orjson.loads(r["artifacts"]) if r["artifacts"] else []
    return Published(*r[:7], artifacts=artifacts)


def _quarantined(r: Record) -> Quarantined:
    failures: list[dict[str, Any]] = orjson.loads(r["failures"])
    return Quarantined(*r[:6], failures=failures, first_at=r["first_at"], last_at=r["last_at"])
