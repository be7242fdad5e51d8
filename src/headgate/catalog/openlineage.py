"""OpenLineage: a START and an end for each attempt, told as others tell theirs.

    finalized, skipped         COMPLETE
    quarantined, waiting       FAIL       (waiting for its retry: this attempt failed)
    fenced, given back         ABORT

The run's id is made of the ledger's id and the run's name, so that it is the same whenever and
wherever it is told. Names: `event.ingest` and `run.start` are the START event, `run.metrics` and
`run.end` the last one; the facet `headgate_run` says so.
"""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import urlsplit

from headgate.model.facts import Facts, Version
from headgate.model.mask import mask_uri
from headgate.model.uri import split_uri

from . import names
from .facets import CORE, ours, standard
from .render import iri, moment, said

SCHEMA = f"{CORE}#/$defs/RunEvent"

Kind = Literal["START", "COMPLETE", "FAIL", "ABORT"]
Document = dict[str, Any]


def events(facts: Facts) -> list[Document]:
    """The two events of a run, as they would have been sent."""
    start = _event(facts, "START", ("event.ingest", "run.start"))
    end = _event(facts, end_of(facts), ("run.metrics", "run.end"))
    start["eventTime"] = moment(facts.started_at)
    start["inputs"] = [_input(facts, None)]
    end["inputs"] = [_input(facts, facts.content)]
    if facts.version is not None:
        end["outputs"] = list(_outputs(facts, facts.version))
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


def _event(facts: Facts, kind: Kind, called: tuple[str, ...]) -> Document:
    return {
        "eventType": kind,
        "eventTime": moment(facts.at),
        "producer": names.PRODUCER,
        "schemaURL": SCHEMA,
        "run": {"runId": facts.run_uuid, "facets": _run_facets(facts, kind, called)},
        "job": {
            "namespace": names.ledger(facts),
            "name": facts.pipeline,
            "facets": {
                "jobType": standard(
                    "jobType", processingType="BATCH", integration="HEADGATE", jobType="PIPELINE"
                )
            },
        },
        "inputs": [],
        "outputs": [],
    }


def _run_facets(facts: Facts, kind: Kind, called: tuple[str, ...]) -> Document:
    ended = kind != "START"
    made: Document = {
        "headgate_run": ours(
            "headgate_run",
            events=list(called),
            run=facts.run,
            entry=facts.entry,
            fence=facts.fence,
            attempt=facts.attempt,
            idempotencyKey=facts.key,
            **said(
                effectKey=facts.effect,
                worker=facts.worker,
                pipelineVersion=facts.pipeline_version,
                codeDigest=facts.code,
                paramsDigest=facts.params,
                outcome=facts.outcome if ended else None,
                reason=facts.reason if ended else None,
                errorClass=facts.error_class if ended else None,
                journal=facts.pointer if ended else None,
                milliseconds=_milliseconds(facts) if ended else None,
            ),
        ),
        "tags": standard("tags", tags=_tags(facts)),
    }
    engine: str | None = names.environment(facts).get("headgate")
    if engine is not None:
        made["processing_engine"] = standard("processing_engine", name="Headgate", version=engine)
    if facts.envelope.detector == "cron":
        due = moment(facts.envelope.event_time)
        made["nominalTime"] = standard("nominalTime", nominalStartTime=due)
    if ended and facts.checks:
        made["headgate_checks"] = ours("headgate_checks", **results(facts))
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


def _tags(facts: Facts) -> list[Document]:
    told = said(
        detector=facts.envelope.detector,
        provider=facts.envelope.provider,
        dataset=facts.dataset.name if facts.dataset else None,
        access=facts.dataset.access if facts.dataset else None,
    )
    return [{"key": key, "value": value, "source": "HEADGATE"} for key, value in told.items()]


def _input(facts: Facts, content: str | None) -> Document:
    envelope = facts.shown
    namespace, name = place(facts.envelope.uri)
    facets: Document = {
        "dataSource": standard("dataSource", name=namespace, uri=iri(namespace)),
        "headgate_source": ours(
            "headgate_source",
            **said(**{field: envelope.get(field) for field in _SOURCE}),
            **({"sha256": content} if content else {}),
        ),
    }
    version = (content and f"sha256:{content}") or envelope.get("version_hint")
    if version:
        facets["version"] = standard("version", datasetVersion=version)
    made: Document = {"namespace": namespace, "name": name, "facets": facets}
    if content is not None:
        made["inputFacets"] = _read(facts)
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
                "dataSource": standard("dataSource", name=facts.store, uri=iri(facts.store)),
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
