"""OpenLineage: a START and an end for each attempt, told as others tell theirs.

    finalized, skipped         COMPLETE
    quarantined, waiting       FAIL       (waiting for its retry: this attempt failed)
    fenced, given back         ABORT

The run's id is made of the ledger's id and the run's name, so that it is the same whenever and
wherever it is told. Names: `event.ingest` and `run.start` are the START event, `run.metrics` and
`run.end` the last one; the facet `headgate_run` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import urlsplit

from headgate.model.facts import Facts, Version
from headgate.model.mask import mask_uri
from headgate.model.uri import split_uri

from . import names
from .facets import CORE, energy, ours, standard
from .render import iri, moment, said

SCHEMA = f"{CORE}#/$defs/RunEvent"

Kind = Literal["START", "COMPLETE", "FAIL", "ABORT"]
Document = dict[str, Any]


def events(facts: Facts) -> list[Document]:
    """The two events of a run, as they would have been sent."""
    told, shared, where = _told(facts), _shared(facts), _source(facts)
    began = ours("headgate_run", events=["event.ingest", "run.start"], **told)
    start = _event(facts, "START", moment(facts.started_at), {"headgate_run": began, **shared})
    start["inputs"] = [_input(where, facts.shown.get("version_hint"))]
    kind = end_of(facts)
    ended = ours("headgate_run", events=["run.metrics", "run.end"], **told, **_end(facts))
    facets = {"headgate_run": ended, **shared, **_outcome(facts, kind)}
    end = _event(facts, kind, moment(facts.at), facets)
    if facts.content is None:
        end["inputs"] = start["inputs"]
    else:
        end["inputs"] = [_input(where, f"sha256:{facts.content}", facts)]
    if facts.version is not None:
        end["outputs"] = _outputs(facts, facts.version)
    return [start, end]


def end_of(facts: Facts) -> Kind:
    """How a run ended, in OpenLineage's words."""
    match facts.outcome:
        case "finalized" | "skipped":
            return "COMPLETE"
        case "quarantined":
            return "FAIL"
        case "waiting" if any(step == "failed" for step, _ in facts.steps):
            return "FAIL"
        case _:
            return "ABORT"


def _event(facts: Facts, kind: Kind, at: str, facets: Document) -> Document:
    return {
        "eventType": kind,
        "eventTime": at,
        "producer": names.PRODUCER,
        "schemaURL": SCHEMA,
        "run": {"runId": facts.run_uuid, "facets": facets},
        "job": {"namespace": names.ledger(facts), "name": facts.pipeline, "facets": _JOB},
        "inputs": [],
        "outputs": [],
    }


_JOB = {
    "jobType": standard(
        "jobType", processingType="BATCH", integration="HEADGATE", jobType="PIPELINE"
    )
}


def _told(facts: Facts) -> Document:
    """What is known of a run from its beginning."""
    return {
        "run": facts.run,
        "entry": facts.entry,
        "fence": facts.fence,
        "attempt": facts.attempt,
        "idempotencyKey": facts.key,
        **said(
            effectKey=facts.effect,
            worker=facts.worker,
            pipelineVersion=facts.pipeline_version,
            codeDigest=facts.code,
            paramsDigest=facts.params,
        ),
    }


def _end(facts: Facts) -> Document:
    """What is known of a run at its end."""
    return said(
        outcome=facts.outcome,
        reason=facts.reason,
        errorClass=facts.error_class,
        journal=facts.pointer,
        milliseconds=_milliseconds(facts),
    )


def _shared(facts: Facts) -> Document:
    """The facets that both events of a run have."""
    about = facts.dataset
    made: Document = {
        "tags": _tags(
            facts.envelope.detector,
            facts.envelope.provider,
            about.name if about else None,
            about.access if about else None,
        )
    }
    engine: str | None = names.environment(facts).get("headgate")
    if engine is not None:
        made["processing_engine"] = _engine(engine)
    if facts.envelope.detector == "cron":
        due = moment(facts.envelope.event_time)
        made["nominalTime"] = standard("nominalTime", nominalStartTime=due)
    return made


def _outcome(facts: Facts, kind: Kind) -> Document:
    """The facets that only the end of a run has."""
    made: Document = {}
    if facts.checks:
        made["headgate_checks"] = ours("headgate_checks", **results(facts))
    if facts.energy is not None:
        made["headgate_energy"] = energy(facts.energy)
    if kind == "FAIL":
        text = facts.error or facts.reason or "failed"
        made["errorMessage"] = standard("errorMessage", message=text, programmingLanguage="PYTHON")
    return made


def results(facts: Facts) -> Document:
    """What was checked, by what policy, and what came of it."""
    return {
        "policyDigest": facts.declared.policy_digest,
        "passed": sum(check.passed for check in facts.checks),
        "failed": sum(not check.passed for check in facts.checks),
        "checks": [
            {"name": check.name, "kind": check.kind, "passed": check.passed}
            | said(
                reason=check.reason,
                text=check.text,
                examined=check.examined,
                failed=check.failed,
            )
            for check in facts.checks
        ],
    }


def _milliseconds(facts: Facts) -> Document:
    return {step: ms for step, ms in facts.steps if ms is not None}


# Most runs of a pipeline have these facets in common, and nobody changes what was made once.
@lru_cache(256)
def _tags(detector: str, provider: str, dataset: str | None, access: str | None) -> Document:
    told = said(detector=detector, provider=provider, dataset=dataset, access=access)
    tags = [{"key": key, "value": value, "source": "HEADGATE"} for key, value in told.items()]
    return standard("tags", tags=tags)


@lru_cache(16)
def _engine(version: str) -> Document:
    return standard("processing_engine", name="Headgate", version=version)


@lru_cache(256)
def _data_source(name: str) -> Document:
    return standard("dataSource", name=name, uri=iri(name))


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a source keeps its object, and what it said about it."""

    namespace: str
    name: str
    place: Document
    told: Document


def _source(facts: Facts) -> _Source:
    namespace, name = place(facts.envelope.uri)
    told = said(**{field: facts.shown.get(field) for field in _SOURCE})
    return _Source(namespace, name, _data_source(namespace), ours("headgate_source", **told))


def _input(where: _Source, version: str | None, read: Facts | None = None) -> Document:
    """What a run is about; with the facts of one that has read it, also what it read."""
    facets: Document = {"dataSource": where.place, "headgate_source": where.told}
    made: Document = {"namespace": where.namespace, "name": where.name, "facets": facets}
    if read is not None:
        facets["headgate_source"] = {**where.told, "sha256": read.content}
        made["inputFacets"] = _read(read)
    if version:
        facets["version"] = standard("version", datasetVersion=version)
    return made


_SOURCE = (
    "event_id",
    "source",
    "detector",
    "kind",
    "event_time",
    "received_at",
    "etag",
    "md5",
    "version_id",
    "version_hint",
    "strength",
    "sequence",
)


def _read(facts: Facts) -> Document:
    size = facts.version.size if facts.version is not None else facts.envelope.size
    made: Document = {
        "inputStatistics": standard("inputStatistics", fileCount=1, **said(size=size))
    }
    if facts.checks:
        made["dataQualityAssertions"] = standard(
            "dataQualityAssertions",
            assertions=[
                {"assertion": check.kind, "success": check.passed, "name": check.name}
                | said(description=check.text)
                for check in facts.checks
            ],
        )
    return made


def _outputs(facts: Facts, version: Version) -> list[Document]:
    """The dataset, and each table of declared rows."""
    name = facts.item.collection if facts.item else facts.pipeline
    sizes = [file.size for file in version.files if file.size is not None]
    made = [
        {
            "namespace": names.ledger(facts),
            "name": name,
            "facets": {
                "version": standard("version", datasetVersion=str(facts.entry)),
                "dataSource": _data_source(facts.store),
                "headgate_publication": ours("headgate_publication", **_publication(facts)),
            },
            "outputFacets": {
                "outputStatistics": standard(
                    "outputStatistics", fileCount=len(version.files), size=sum(sizes)
                )
            },
        }
    ]
    declared = {rows["table"]: rows for rows in facts.declared.get("rows", ())}
    for table, count in sorted(version.rows.items()):
        facets: Document = {"version": standard("version", datasetVersion=str(facts.entry))}
        columns = declared.get(table, {}).get("columns")
        if columns:
            fields = [
                {"name": c["name"], "type": c["type"], "ordinal_position": n}
                for n, c in enumerate(columns, 1)
            ]
            facets["schema"] = standard("schema", fields=fields)
        made.append(
            {
                "namespace": names.ledger(facts),
                "name": table,
                "facets": facets,
                "outputFacets": {"outputStatistics": standard("outputStatistics", rowCount=count)},
            }
        )
    return made


def _publication(facts: Facts) -> Document:
    version = facts.version
    assert version is not None, "asked for what was published"
    return {
        "publication": facts.entry,
        "version": version.number,
        "removed": version.removed,
        "retired": version.retired,
        "files": [
            {"name": f.name, "sha256": f.digest, "mediaType": f.media_type} | said(size=f.size)
            for f in version.files
        ],
        **said(
            item=facts.item.id if facts.item else None,
            predecessor=facts.before.entry if facts.before else None,
            reverts=facts.reverts,
            restores=facts.restores,
            because=facts.because,
            actor=facts.actor,
        ),
    }


def place(uri: str) -> tuple[str, str]:
    """A source's object in OpenLineage's names: where it is kept, and what it is called there."""
    shown = mask_uri(uri)
    if found := split_uri(shown):
        return shown[: shown.index("/", shown.index("://") + 3)], found[1]
    try:
        parts = urlsplit(shown)
    except ValueError:  # a bracket that is no host
        return "headgate", shown
    if not parts.scheme:
        return "headgate", shown
    if parts.scheme == "file":
        return "file", parts.path or "/"
    rest = shown[len(parts.scheme) + 1 :].removeprefix(f"//{parts.netloc}")
    return f"{parts.scheme}://{parts.netloc}", rest or "/"
