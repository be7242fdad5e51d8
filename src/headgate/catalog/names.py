"""Names of things in RDF: what a record calls the run, the publication and the rest.

They are made of the ledger's id and numbers of its own, so that records of two ledgers can be put
together without a clash, and records of one ledger speak of the same things by the same names.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import orjson

from headgate.model.facts import Facts

from .render import compact, quoted

NS = "https://headgate.example/ns#"
PRODUCER = "https://headgate.example/"


def run(facts: Facts) -> str:
    """The run, by its UUID: the same one that OpenLineage is told."""
    return f"urn:uuid:{facts.run_uuid}"


def ledger(facts: Facts) -> str:
    return f"urn:headgate:{facts.ledger}"


def of(facts: Facts, *parts: object) -> str:
    """A thing of this ledger, as in `urn:headgate:<ledger>:publication:12`."""
    return part(ledger(facts), *parts)


@lru_cache(1024)
def named(ledger: str, kind: str, name: str) -> str:
    """Something that many runs of this ledger have in common: a pipeline, a worker, a plan."""
    return part(f"urn:headgate:{ledger}", kind, name)


def part(whole: str, *parts: object) -> str:
    """A part of something that has a name."""
    for one in parts:
        whole += f":{one}" if isinstance(one, int) else f":{quoted(str(one), '')}"
    return whole


def publication(facts: Facts, entry: int, *parts: object) -> str:
    return of(facts, "publication", entry, *parts)


def digest(sha256: str) -> str:
    """Bytes, by what they are."""
    return f"urn:sha256:{sha256}"


def series(collection: str) -> str:
    return f"urn:headgate:dataset:{quoted(collection, '')}"


def item(collection: str, id: str) -> str:
    return f"{series(collection)}:item:{quoted(id, '')}"


def agent(name: str) -> str:
    """Somebody whom a dataset names as its publisher."""
    return f"urn:headgate:agent:{quoted(name, '')}"


def plan(facts: Facts) -> str:
    """The plan of a run: a policy, and the code and the parameters that carry it out."""
    digest = _plan_digest(
        facts.pipeline_version, facts.code, facts.params, facts.declared.policy_text
    )
    return f"{named(facts.ledger, 'plan', facts.pipeline)}:{digest}"


@lru_cache(256)
def _plan_digest(version: str, code: str, params: str, policy: str) -> str:
    whole = compact([version, code, params, orjson.Fragment(policy)])
    return hashlib.sha256(whole.encode()).hexdigest()


def environment(facts: Facts) -> dict[str, str]:
    """What it ran on, as far as that was recorded."""
    return facts.declared.get("environment") or {}
