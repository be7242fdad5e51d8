"""The files of a run: everything about one attempt at one entry, for people and for machines.

    detector.json            what came, without its bytes
    wal.json                 how far it got, in the words of the WAL
    manifest.json            what went in and what came out, by digest
    delta_manifest.json      what it changed for readers, and how to take that back
    provenance.prov.jsonld   PROV-O
    openlineage.ndjson       OpenLineage
    run_manifest.json        what it would take to do it again
    qa.json                  what was checked, and what came of it
    summary.md               all of it on a page

A run that published nothing has no delta manifest.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from headgate.model import delta
from headgate.model.facts import Facts

from . import names, openlineage, prov
from .render import dump, iri, lines, moment
from .summary import summary
from .wal import wal

NAMES = (
    "detector.json",
    "wal.json",
    "manifest.json",
    "delta_manifest.json",
    "provenance.prov.jsonld",
    "openlineage.ndjson",
    "run_manifest.json",
    "qa.json",
    "summary.md",
)


class Input(TypedDict):
    """What a run read: what the source said about it, and the digest of its bytes."""

    uri: str
    version_hint: str | None
    strength: str
    version_id: str | None
    etag: str | None
    md5: str | None
    event_time: str
    digest: str | None
    size: int | None


class Output(TypedDict):
    """A file that a run published."""

    name: str
    digest: str
    size: int | None
    media_type: str


class IoManifest(TypedDict):
    """What went into a run, and what came out of it. `rows` counts them by table."""

    schema: Literal["io-manifest-v1"]
    run: str
    pipeline: str
    outcome: str
    inputs: list[Input]
    outputs: list[Output]
    rows: dict[str, int]


class Commits(TypedDict):
    """Which code ran."""

    code_digest: str | None


class RunManifest(TypedDict):
    """What it would take to do the same again."""

    schema: Literal["run-manifest-v1"]
    run: str
    run_uuid: str
    ledger: str
    store: str
    pipeline: str
    pipeline_version: str
    entry: int
    attempt: int
    started_at: str
    ended_at: str
    inputs: list[Input]
    late: str | None
    reverts: int | None
    restores: int | None
    idempotency_key: str
    effect_key: str | None
    commits: Commits
    parameters_digest: str | None
    config_digest: str | None
    config: dict[str, Any]
    environment: dict[str, str]
    seeds: dict[str, Any]
    model_versions: dict[str, str]


class Counts(TypedDict):
    """How much was checked."""

    checks: int
    passed: int
    failed: int
    rows_examined: int
    rows_failed: int


class Qa(TypedDict):
    """What was checked, and what came of it. `reasons` counts failed checks by reason code."""

    schema: Literal["qa-v1"]
    run: str
    pipeline: str
    outcome: str
    reason: str | None
    error: str | None
    error_class: str | None
    declared: list[str]
    passed: bool
    counts: Counts
    reasons: dict[str, int]
    checks: list[dict[str, Any]]


def files(facts: Facts) -> dict[str, bytes]:
    """Every file of the run, by name."""
    made = {
        "detector.json": dump(facts.shown),
        "wal.json": dump(wal(facts)),
        "manifest.json": dump(manifest(facts)),
        "provenance.prov.jsonld": dump(prov.bundle(facts)),
        "openlineage.ndjson": lines(openlineage.events(facts)),
        "run_manifest.json": dump(run_manifest(facts)),
        "qa.json": dump(qa(facts)),
        "summary.md": summary(facts).encode(),
    }
    if facts.version is not None:
        made["delta_manifest.json"] = dump(delta.manifest(facts))
    return {name: made[name] for name in NAMES if name in made}


def manifest(facts: Facts) -> IoManifest:
    """What went in and what came out."""
    version = facts.version
    return {
        "schema": "io-manifest-v1",
        "run": facts.run,
        "pipeline": facts.pipeline,
        "outcome": facts.outcome,
        "inputs": [_input(facts)],
        "outputs": [
            {
                "name": file.name,
                "digest": f"sha256:{file.digest}",
                "size": file.size,
                "media_type": file.media_type,
            }
            for file in (version.files if version else ())
        ],
        "rows": dict(sorted(version.rows.items())) if version else {},
    }


def run_manifest(facts: Facts) -> RunManifest:
    """What it would take to do the same again."""
    return {
        "schema": "run-manifest-v1",
        "run": facts.run,
        "run_uuid": facts.run_uuid,
        "ledger": facts.ledger,
        "store": iri(facts.store),
        "pipeline": facts.pipeline,
        "pipeline_version": facts.pipeline_version,
        "entry": facts.entry,
        "attempt": facts.attempt,
        "started_at": moment(facts.started_at),
        "ended_at": moment(facts.at),
        "inputs": [_input(facts)],
        "late": None if facts.late is None else moment(facts.late),
        "reverts": facts.reverts,
        "restores": facts.restores,
        "idempotency_key": facts.key,
        "effect_key": facts.effect,
        "commits": {"code_digest": _sha256(facts.code)},
        "parameters_digest": _sha256(facts.params),
        "config_digest": _sha256(facts.declared.policy_digest),
        "config": facts.declared.policy,
        "environment": names.environment(facts),
        "seeds": {} if facts.seed is None else {"run": facts.seed},
        "model_versions": {},
    }


def qa(facts: Facts) -> Qa:
    """What was checked, and what came of it."""
    failed = [check for check in facts.checks if not check.passed]
    reasons: dict[str, int] = {}
    for check in failed:
        reason = check.reason or check.kind
        reasons[reason] = reasons.get(reason, 0) + 1
    return {
        "schema": "qa-v1",
        "run": facts.run,
        "pipeline": facts.pipeline,
        "outcome": facts.outcome,
        "reason": facts.reason,
        "error": facts.error,
        "error_class": facts.error_class,
        "declared": list(facts.declared.get("validators", ())),
        "passed": not failed and facts.outcome in ("finalized", "skipped"),
        "counts": {
            "checks": len(facts.checks),
            "passed": len(facts.checks) - len(failed),
            "failed": len(failed),
            "rows_examined": sum(check.examined or 0 for check in facts.checks),
            "rows_failed": sum(check.failed or 0 for check in facts.checks),
        },
        "reasons": reasons,
        "checks": openlineage.results(facts)["checks"],
    }


def _input(facts: Facts) -> Input:
    envelope = facts.shown
    return {
        "uri": envelope["uri"],
        "version_hint": envelope.get("version_hint"),
        "strength": envelope.get("strength", "none"),
        "version_id": envelope.get("version_id"),
        "etag": envelope.get("etag"),
        "md5": envelope.get("md5"),
        "event_time": envelope["event_time"],
        "digest": None if facts.content is None else f"sha256:{facts.content}",
        "size": facts.version.size if facts.version else envelope.get("size"),
    }


def _sha256(digest: str) -> str | None:
    return f"sha256:{digest}" if digest else None
