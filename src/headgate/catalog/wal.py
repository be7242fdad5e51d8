"""The WAL record of a run, in the seeds' words: what the view `wal` says, as a document."""

from __future__ import annotations

import hashlib
from typing import Literal, TypedDict

from headgate.model.facts import Facts

from .hrefs import run_name, within
from .render import moment

Status = Literal["pending", "finalized", "failed"]
StatusV0 = Literal["received", "started", "succeeded", "failed"]
SCHEMA = "wal-v1"


class Step(TypedDict):
    """A step that the attempt reached; milliseconds count from the claim."""

    step: str
    milliseconds: int | None


class Wal(TypedDict):
    """One run as the write-ahead log has it."""

    schema: Literal["wal-v1"]
    wal_id: str
    idempotency_key: str
    status: Status
    status_v0: StatusV0
    outcome: str
    reason: str | None
    first_seen_at: str
    finalized_at: str | None
    source_uri: str
    version_hint: str | None
    checksum_sha256: str | None
    delta_manifest_ref: str | None
    prov_ref: str
    pipeline: str
    entry: int
    run: str
    attempt: int
    journal: str
    steps: list[Step]


def wal(facts: Facts) -> Wal:
    """The record of one run."""
    envelope = facts.shown
    status, status_v0 = _statuses(facts)
    delta = _beside(facts, "delta_manifest.json")
    return {
        "schema": SCHEMA,
        "wal_id": wal_id(facts),
        "idempotency_key": facts.key,
        "status": status,
        "status_v0": status_v0,
        "outcome": facts.outcome,
        "reason": facts.reason,
        "first_seen_at": moment(facts.envelope.received_at),
        "finalized_at": moment(facts.at) if status == "finalized" else None,
        "source_uri": envelope["uri"],
        "version_hint": envelope.get("version_hint"),
        "checksum_sha256": None if facts.content is None else f"sha256:{facts.content}",
        "delta_manifest_ref": None if facts.version is None else delta,
        "prov_ref": _beside(facts, "provenance.prov.jsonld"),
        "pipeline": facts.pipeline,
        "entry": facts.entry,
        "run": facts.run,
        "attempt": facts.attempt,
        "journal": facts.pointer,
        "steps": [{"step": step, "milliseconds": ms} for step, ms in facts.steps],
    }


def _beside(facts: Facts, name: str) -> str:
    return within(facts.store, facts.layout.place(run_name(facts.run, name)))


def wal_id(facts: Facts) -> str:
    """What the view `wal` calls this entry."""
    named = f"headgate:wal:1:{facts.pipeline}:".encode()
    return hashlib.sha256(named + bytes.fromhex(facts.key)).hexdigest()


def _statuses(facts: Facts) -> tuple[Status, StatusV0]:
    match facts.outcome:
        case "finalized" | "skipped":
            return "finalized", "succeeded"
        case "quarantined":
            return "failed", "failed"
        case "received":
            return "pending", "received"
        case "waiting" | "fenced":
            return "pending", "started"
