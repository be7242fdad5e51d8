"""PROV-O and OpenLineage of one logical operation: pure renderings of its row and its journal.

input (checksum_in) ──used── attempt ──generated── result, dataset
                                │
                                └─ associated with the task and with the process that held the key
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headgate.model.energy import Used
from headgate.model.operation_facts import OperationFacts

from . import names
from .facets import CORE, energy, standard
from .prov import CONTEXT
from .render import moment, quoted, said

Document = dict[str, Any]


def provenance(facts: OperationFacts) -> Document:
    """PROV-O as JSON-LD: what the operation used, made, and on whose behalf."""
    return {"@context": CONTEXT, "@graph": list(_nodes(facts))}


def _nodes(facts: OperationFacts) -> Iterator[Document]:
    run, task, process = (
        _run(facts),
        _urn(facts, "task", facts.task),
        _urn(facts, "process", facts.holder),
    )
    ended = facts.ended
    yield {
        "@id": run,
        "@type": ["prov:Activity", "hg:Operation"],
        "dct:identifier": facts.run,
        "prov:startedAtTime": _time(moment(facts.begun_at)),
        "prov:wasAssociatedWith": [{"@id": task}, {"@id": process}],
        "prov:qualifiedAssociation": {
            "@type": "prov:Association",
            "prov:agent": {"@id": task},
            "prov:hadPlan": {"@id": _plan(facts)},
        },
        **({"prov:endedAtTime": _time(moment(ended.at))} if ended else {}),
        **({"prov:used": [{"@id": _input(facts)}]} if facts.checksum_in else {}),
        **said(
            **{
                "hg:pipeline": facts.pipeline,
                "hg:operationType": facts.operation,
                "hg:version": facts.version,
                "hg:period": facts.period,
                "hg:idempotencyKey": facts.key,
                "hg:paramsDigest": f"sha256:{facts.params_hash}",
                "hg:outcome": facts.status,
                "hg:reason": facts.reason,
                "hg:attempt": facts.attempts,
                "hg:fence": facts.fence,
                "hg:journal": facts.pointer,
                "hg:sovereigntyEvent": facts.sovereign or None,
            }
        ),
    }
    yield {
        "@id": _plan(facts),
        "@type": ["prov:Plan", "prov:Entity"],
        "dct:title": f"Version {facts.version} of {facts.task}",
        "hg:version": facts.version,
        "hg:paramsDigest": f"sha256:{facts.params_hash}",
    }
    yield {"@id": task, "@type": ["prov:SoftwareAgent", "prov:Agent"], "dct:title": facts.task}
    yield {
        "@id": process,
        "@type": ["prov:SoftwareAgent", "prov:Agent"],
        "dct:title": facts.holder,
        "prov:actedOnBehalfOf": {"@id": task},
    }
    if facts.checksum_in:
        yield {
            "@id": _input(facts),
            "@type": ["prov:Entity", "hg:Source"],
            "hg:checksum": facts.checksum_in,
        }
    if facts.status == "success":
        yield {
            "@id": names.series(facts.dataset) + f":operation:{facts.id}",
            "@type": ["prov:Entity", "hg:Effect"],
            "dct:title": facts.dataset,
            "prov:specializationOf": {"@id": names.series(facts.dataset)},
            **_generated(facts, run),
        }
        yield {
            "@id": _urn(facts, "result", facts.key),
            "@type": ["prov:Entity", "hg:Result"],
            "hg:sha256": facts.result_hash,
            **_generated(facts, run),
        }


def _generated(facts: OperationFacts, run: str) -> Document:
    at = moment(facts.ended.at if facts.ended else facts.updated_at)
    return {"prov:wasGeneratedBy": {"@id": run}, "prov:generatedAtTime": _time(at)}


def events(facts: OperationFacts) -> list[Document]:
    """OpenLineage: a START for the last attempt, and its end if it has one."""
    told = [_event(facts, "START", moment(facts.begun_at))]
    if (ended := facts.ended) is not None:
        kind = {"done": "COMPLETE", "failed": "FAIL"}.get(ended.event, "ABORT")
        last = _event(facts, kind, moment(ended.at))
        if used := ended.doc.get("energy"):
            last["run"]["facets"]["headgate_energy"] = energy(Used.restore(used))
        if kind == "FAIL":
            text = str(ended.doc.get("error") or ended.reason or "failed")
            last["run"]["facets"]["errorMessage"] = standard(
                "errorMessage", message=text, programmingLanguage="PYTHON"
            )
        if kind == "COMPLETE":
            version = standard("version", datasetVersion=facts.key)
            last["outputs"] = [
                {
                    "namespace": f"urn:headgate:{facts.ledger}",
                    "name": facts.dataset,
                    "facets": {"version": version},
                }
            ]
        told.append(last)
    return told


def _event(facts: OperationFacts, kind: str, at: str) -> Document:
    tags = said(
        idempotency_key=facts.key,
        version=facts.version,
        operation_type=facts.operation,
        period=facts.period,
        journal=facts.pointer,
        sovereignty_event="true" if facts.sovereign else None,
    )
    return {
        "eventType": kind,
        "eventTime": at,
        "producer": names.PRODUCER,
        "schemaURL": f"{CORE}#/$defs/RunEvent",
        "run": {
            "runId": str(facts.run_uuid),
            "facets": {
                "tags": standard(
                    "tags",
                    tags=[{"key": k, "value": v, "source": "HEADGATE"} for k, v in tags.items()],
                )
            },
        },
        "job": {
            "namespace": f"urn:headgate:{facts.ledger}",
            "name": f"{facts.pipeline}.{facts.task}",
            "facets": {
                "jobType": standard(
                    "jobType", processingType="BATCH", integration="HEADGATE", jobType="OPERATION"
                )
            },
        },
        "inputs": [_read(facts)] if facts.checksum_in else [],
        "outputs": [],
    }


def _read(facts: OperationFacts) -> Document:
    version = standard("version", datasetVersion=facts.checksum_in)
    return {"namespace": "urn:sha256", "name": facts.checksum_in, "facets": {"version": version}}


def _run(facts: OperationFacts) -> str:
    return f"urn:uuid:{facts.run_uuid}"


def _input(facts: OperationFacts) -> str:
    return f"urn:sha256:{quoted(facts.checksum_in or '', '')}"


def _plan(facts: OperationFacts) -> str:
    return _urn(facts, "plan", facts.task, facts.version, facts.params_hash)


def _urn(facts: OperationFacts, *parts: str) -> str:
    return ":".join([f"urn:headgate:{facts.ledger}", *(quoted(part, "") for part in parts)])


def _time(at: str) -> Document:
    return {"@type": "xsd:dateTime", "@value": at}
