"""PROV-O as JSON-LD: of what, by what, by whom and by which plan a publication was made.

    source, message ──used── run ──generated── publication ── files, rows
                              │                    └─ revision of the version before
                              ├─ associated with the pipeline (plan: its policy) and the worker
                              └─ the checks it applied

A failure has the same activity with what it used, and no output. What a revert or a removal takes
away is invalidated by its run.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from headgate.model.facts import Check, Facts, File, Version

from . import names
from .hrefs import object_name, within
from .render import iri, moment, said

CONTEXT: dict[str, Any] = {
    "dct": "http://purl.org/dc/terms/",
    "hg": names.NS,
    "prov": "http://www.w3.org/ns/prov#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}

Node = dict[str, Any]


def bundle(facts: Facts) -> dict[str, Any]:
    """Everything that is known about how one run came to its end."""
    return {"@context": CONTEXT, "@graph": list(_nodes(facts))}


def _nodes(facts: Facts) -> Iterator[Node]:
    yield _activity(facts)
    yield from _agents(facts)
    yield _plan(facts)
    yield from _inputs(facts)
    if facts.version is not None:
        yield from _outputs(facts, facts.version)
    yield from _earlier(facts)


def _activity(facts: Facts) -> Node:
    agents = [_pipeline(facts)]
    if facts.worker is not None:
        agents.append(_worker(facts))
    if facts.actor is not None:
        agents.append(names.of(facts, "person", facts.actor))
    return {
        "@id": _run(facts),
        "@type": ["prov:Activity", "hg:Run"],
        "dct:identifier": facts.run,
        "prov:startedAtTime": _time(facts.started_at),
        "prov:endedAtTime": _time(facts.at),
        "prov:used": [_id(used) for used in _used(facts)],
        "prov:wasAssociatedWith": [_id(agent) for agent in agents],
        "prov:qualifiedAssociation": {
            "@type": "prov:Association",
            "prov:agent": _id(_pipeline(facts)),
            "prov:hadPlan": _id(names.plan(facts)),
        },
        **said(
            **{
                "hg:entry": facts.entry,
                "hg:fence": facts.fence,
                "hg:attempt": facts.attempt,
                "hg:outcome": facts.outcome,
                "hg:reason": facts.reason,
                "hg:error": facts.error,
                "hg:errorClass": facts.error_class,
                "hg:idempotencyKey": facts.key,
                "hg:effectKey": facts.effect,
                "hg:pipelineVersion": facts.pipeline_version,
                "hg:codeDigest": _sha256(facts.code),
                "hg:paramsDigest": _sha256(facts.params),
                "hg:journal": facts.pointer,
                "hg:because": facts.because,
                "hg:check": [_check(check) for check in facts.checks],
            }
        ),
    }


def _used(facts: Facts) -> Iterator[str]:
    yield _source(facts)
    yield _message(facts)
    for entry in (facts.reverts, facts.restores):
        if entry is not None:
            yield names.publication(facts, entry)


def _check(check: Check) -> Node:
    return {
        "@type": "hg:Check",
        "dct:title": check.name,
        "hg:passed": check.passed,
        **said(
            **{
                "hg:kind": check.kind,
                "hg:reason": check.reason,
                "hg:text": check.text,
                "hg:examined": check.examined,
                "hg:failed": check.failed,
            }
        ),
    }


def _agents(facts: Facts) -> Iterator[Node]:
    yield {
        "@id": _pipeline(facts),
        "@type": ["prov:SoftwareAgent", "prov:Agent"],
        "dct:title": facts.pipeline,
    }
    if facts.worker is not None:
        yield {
            "@id": _worker(facts),
            "@type": ["prov:SoftwareAgent", "prov:Agent"],
            "dct:title": facts.worker,
            "prov:actedOnBehalfOf": _id(_pipeline(facts)),
        }
    if facts.actor is not None:
        yield {
            "@id": names.of(facts, "person", facts.actor),
            "@type": ["prov:Person", "prov:Agent"],
            "dct:title": facts.actor,
        }


def _plan(facts: Facts) -> Node:
    return {
        "@id": names.plan(facts),
        "@type": ["prov:Plan", "prov:Entity"],
        "dct:title": f"What pipeline {facts.pipeline} declares",
        "hg:policy": facts.declared.policy_text,
        "hg:policyDigest": _sha256(facts.declared.policy_digest),
        **said(
            **{
                "hg:pipelineVersion": facts.pipeline_version,
                "hg:codeDigest": _sha256(facts.code),
                "hg:paramsDigest": _sha256(facts.params),
            }
        ),
    }


def _inputs(facts: Facts) -> Iterator[Node]:
    envelope = facts.shown
    uri = iri(facts.envelope.uri)
    yield {"@id": uri, "@type": "prov:Entity", "dct:identifier": envelope["uri"]}
    yield {
        "@id": _source(facts),
        "@type": ["prov:Entity", "hg:Source"],
        "prov:specializationOf": _id(uri),
        "prov:atLocation": _id(uri),
        "dct:modified": _time(facts.envelope.event_time),
        **said(
            **{
                "hg:versionHint": envelope.get("version_hint"),
                "hg:strength": envelope.get("strength"),
                "hg:etag": envelope.get("etag"),
                "hg:versionId": envelope.get("version_id"),
                "hg:md5": envelope.get("md5"),
                "hg:sequence": envelope.get("sequence"),
                "hg:sha256": facts.content if facts.envelope.kind != "removed" else None,
            }
        ),
    }
    yield {
        "@id": _message(facts),
        "@type": ["prov:Entity", "hg:Message"],
        "dct:identifier": envelope["event_id"],
        "dct:subject": _id(_source(facts)),
        "hg:detector": envelope["detector"],
        "hg:source": envelope["source"],
        "hg:kind": facts.envelope.kind,
        "hg:receivedAt": _time(facts.envelope.received_at),
        "hg:idempotencyKey": facts.key,
    }


def _outputs(facts: Facts, version: Version) -> Iterator[Node]:
    me = names.publication(facts, facts.entry)
    members = [_file(facts, file) for file in version.files]
    rows = [] if version.removed else [_rows(facts, *t) for t in sorted(version.rows.items())]
    made: Node = {
        "@id": me,
        "@type": ["prov:Entity", "prov:Collection", "hg:Publication"],
        **_generated(facts),
        "prov:wasAttributedTo": _id(_pipeline(facts)),
        "prov:wasDerivedFrom": [_id(used) for used in _origins(facts)],
        "prov:hadMember": [_id(member["@id"]) for member in (*members, *rows)],
        "hg:version": version.number,
        "hg:removed": version.removed,
        "hg:retired": version.retired,
    }
    if facts.before is not None:
        made["prov:wasRevisionOf"] = _id(names.publication(facts, facts.before.entry))
    if facts.item is not None:
        item = names.item(facts.item.collection, facts.item.id)
        made["prov:specializationOf"] = _id(item)
    yield made
    yield from members
    yield from rows


def _origins(facts: Facts) -> Iterator[str]:
    if facts.restores is not None:
        yield names.publication(facts, facts.restores)
    else:
        yield _source(facts)


def _file(facts: Facts, file: File) -> Node:
    inline = file.name == "data" and facts.version is not None and facts.version.inline
    made: Node = {
        "@id": names.publication(facts, facts.entry, "file", file.name),
        "@type": ["prov:Entity", "hg:File"],
        **_generated(facts),
        "prov:specializationOf": _id(names.digest(file.digest)),
        "dct:title": file.name,
        "dct:format": file.media_type,
        "hg:sha256": file.digest,
    }
    if not inline:
        made["prov:atLocation"] = _id(iri(within(facts.store, object_name(file.digest))))
    if file.size is not None:
        made["hg:size"] = file.size
    if file.name == "data":
        made["prov:hadPrimarySource"] = _id(_source(facts))
    else:
        made["prov:wasDerivedFrom"] = _id(names.publication(facts, facts.entry, "file", "data"))
    return made


def _rows(facts: Facts, table: str, count: int) -> Node:
    return {
        "@id": names.publication(facts, facts.entry, "rows", table),
        "@type": ["prov:Entity", "hg:Rows"],
        **_generated(facts),
        "prov:wasDerivedFrom": _id(names.publication(facts, facts.entry, "file", "data")),
        "dct:title": table,
        "hg:count": count,
    }


def _earlier(facts: Facts) -> Iterator[Node]:
    """The publications that this one replaces or takes back, and what readers cannot have now."""
    before = None if facts.before is None else facts.before.entry
    gone = set[int | None]()
    if facts.version is not None:
        gone.add(facts.reverts)
        if facts.version.removed and not facts.version.retired:
            gone.add(before)
    told = (before, facts.reverts, facts.restores)
    for entry in sorted({entry for entry in told if entry is not None}):
        made: Node = {
            "@id": names.publication(facts, entry),
            "@type": ["prov:Entity", "hg:Publication"],
        }
        if entry in gone:
            made["prov:wasInvalidatedBy"] = _id(_run(facts))
            made["prov:invalidatedAtTime"] = _time(facts.at)
        yield made


def _generated(facts: Facts) -> Node:
    return {"prov:wasGeneratedBy": _id(_run(facts)), "prov:generatedAtTime": _time(facts.at)}


def _run(facts: Facts) -> str:
    return names.run(facts)


def _source(facts: Facts) -> str:
    return names.of(facts, "change", facts.key)


def _message(facts: Facts) -> str:
    return names.of(facts, "message", facts.entry)


def _pipeline(facts: Facts) -> str:
    return names.of(facts, "pipeline", facts.pipeline)


def _worker(facts: Facts) -> str:
    return names.of(facts, "worker", facts.worker)


def _id(iri: str) -> Node:
    return {"@id": iri}


def _time(at: datetime) -> Node:
    return {"@type": "xsd:dateTime", "@value": moment(at)}


def _sha256(digest: str) -> str | None:
    return f"sha256:{digest}" if digest else None
