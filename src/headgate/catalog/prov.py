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
from functools import lru_cache, partial
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


class _Told:
    """The facts of a run, and the names of what it is about: each is said many times."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.run = names.run(facts)
        named = partial(names.named, facts.ledger)
        self.pipeline = named("pipeline", facts.pipeline)
        self.worker = None if facts.worker is None else named("worker", facts.worker)
        self.person = None if facts.actor is None else named("person", facts.actor)
        self.plan = names.plan(facts)
        self.source = names.of(facts, "change", facts.key)
        self.message = names.of(facts, "message", facts.entry)
        self.publication = names.publication(facts, facts.entry)
        self.data = f"{self.publication}:file:data"
        self.ended = _time(facts.at)
        self.generated = {
            "prov:wasGeneratedBy": _id(self.run),
            "prov:generatedAtTime": self.ended,
        }


def bundle(facts: Facts) -> dict[str, Any]:
    """Everything that is known about how one run came to its end."""
    return {"@context": CONTEXT, "@graph": list(_nodes(_Told(facts)))}


def _nodes(told: _Told) -> Iterator[Node]:
    facts = told.facts
    yield _activity(told)
    yield from _agents(told.pipeline, facts.pipeline, told.worker, facts.worker)
    if told.person is not None:
        yield {
            "@id": told.person,
            "@type": ["prov:Person", "prov:Agent"],
            "dct:title": facts.actor,
        }
    yield _plan(
        told.plan,
        facts.pipeline,
        facts.declared.policy_text,
        facts.declared.policy_digest,
        facts.pipeline_version,
        facts.code,
        facts.params,
    )
    yield from _inputs(told)
    if facts.version is not None:
        yield from _outputs(told, facts.version)
    yield from _earlier(told)


def _activity(told: _Told) -> Node:
    facts = told.facts
    agents = [told.pipeline]
    if told.worker is not None:
        agents.append(told.worker)
    if told.person is not None:
        agents.append(told.person)
    return {
        "@id": told.run,
        "@type": ["prov:Activity", "hg:Run"],
        "dct:identifier": facts.run,
        "prov:startedAtTime": _time(facts.started_at),
        "prov:endedAtTime": told.ended,
        "prov:used": [_id(used) for used in _used(told)],
        "prov:wasAssociatedWith": [_id(agent) for agent in agents],
        "prov:qualifiedAssociation": {
            "@type": "prov:Association",
            "prov:agent": _id(told.pipeline),
            "prov:hadPlan": _id(told.plan),
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


def _used(told: _Told) -> Iterator[str]:
    facts = told.facts
    yield told.source
    yield told.message
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


# Most runs of a pipeline have these nodes in common, and nobody changes what was made once.
@lru_cache(256)
def _agents(
    pipeline: str, title: str, worker: str | None, worker_title: str | None
) -> tuple[Node, ...]:
    agent: Node = {
        "@id": pipeline,
        "@type": ["prov:SoftwareAgent", "prov:Agent"],
        "dct:title": title,
    }
    if worker is None:
        return (agent,)
    behalf: Node = {
        "@id": worker,
        "@type": ["prov:SoftwareAgent", "prov:Agent"],
        "dct:title": worker_title,
        "prov:actedOnBehalfOf": _id(pipeline),
    }
    return agent, behalf


@lru_cache(256)
def _plan(
    plan: str, pipeline: str, policy: str, digest: str, version: str, code: str, params: str
) -> Node:
    return {
        "@id": plan,
        "@type": ["prov:Plan", "prov:Entity"],
        "dct:title": f"What pipeline {pipeline} declares",
        "hg:policy": policy,
        "hg:policyDigest": _sha256(digest),
        **said(
            **{
                "hg:pipelineVersion": version,
                "hg:codeDigest": _sha256(code),
                "hg:paramsDigest": _sha256(params),
            }
        ),
    }


def _inputs(told: _Told) -> Iterator[Node]:
    facts = told.facts
    envelope = facts.shown
    uri = iri(facts.envelope.uri)
    yield {"@id": uri, "@type": "prov:Entity", "dct:identifier": envelope["uri"]}
    yield {
        "@id": told.source,
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
        "@id": told.message,
        "@type": ["prov:Entity", "hg:Message"],
        "dct:identifier": envelope["event_id"],
        "dct:subject": _id(told.source),
        "hg:detector": envelope["detector"],
        "hg:source": envelope["source"],
        "hg:kind": facts.envelope.kind,
        "hg:receivedAt": _time(facts.envelope.received_at),
        "hg:idempotencyKey": facts.key,
    }


def _outputs(told: _Told, version: Version) -> Iterator[Node]:
    facts = told.facts
    me = told.publication
    members = [_file(told, file) for file in version.files]
    rows = [] if version.removed else [_rows(told, *t) for t in sorted(version.rows.items())]
    made: Node = {
        "@id": me,
        "@type": ["prov:Entity", "prov:Collection", "hg:Publication"],
        **told.generated,
        "prov:wasAttributedTo": _id(told.pipeline),
        "prov:wasDerivedFrom": [_id(used) for used in _origins(told)],
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


def _origins(told: _Told) -> Iterator[str]:
    facts = told.facts
    if facts.restores is not None:
        yield names.publication(facts, facts.restores)
    else:
        yield told.source


def _file(told: _Told, file: File) -> Node:
    facts = told.facts
    inline = file.name == "data" and facts.version is not None and facts.version.inline
    made: Node = {
        "@id": names.part(told.publication, "file", file.name),
        "@type": ["prov:Entity", "hg:File"],
        **told.generated,
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
        made["prov:hadPrimarySource"] = _id(told.source)
    else:
        made["prov:wasDerivedFrom"] = _id(told.data)
    return made


def _rows(told: _Told, table: str, count: int) -> Node:
    return {
        "@id": names.part(told.publication, "rows", table),
        "@type": ["prov:Entity", "hg:Rows"],
        **told.generated,
        "prov:wasDerivedFrom": _id(told.data),
        "dct:title": table,
        "hg:count": count,
    }


def _earlier(told: _Told) -> Iterator[Node]:
    facts = told.facts
    """The publications that this one replaces or takes back, and what readers cannot have now."""
    before = None if facts.before is None else facts.before.entry
    gone = set[int | None]()
    if facts.version is not None:
        gone.add(facts.reverts)
        if facts.version.removed and not facts.version.retired:
            gone.add(before)
    named = (before, facts.reverts, facts.restores)
    for entry in sorted({entry for entry in named if entry is not None}):
        made: Node = {
            "@id": names.publication(facts, entry),
            "@type": ["prov:Entity", "hg:Publication"],
        }
        if entry in gone:
            made["prov:wasInvalidatedBy"] = _id(told.run)
            made["prov:invalidatedAtTime"] = told.ended
        yield made


def _id(iri: str) -> Node:
    return {"@id": iri}


def _time(at: datetime) -> Node:
    return {"@type": "xsd:dateTime", "@value": moment(at)}


def _sha256(digest: str) -> str | None:
    return f"sha256:{digest}" if digest else None
