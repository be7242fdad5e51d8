"""Names of things in RDF: what a record calls the run, the publication and the rest.

They are made of the ledger's id and numbers of its own, so that records of two ledgers can be put
together without a clash, and records of one ledger speak of the same things by the same names.
"""

from __future__ import annotations

import hashlib
from typing import Any

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
    return ":".join([ledger(facts), *(quoted(str(part), "") for part in parts)])


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


def policy(facts: Facts) -> dict[str, Any]:
    """What the pipeline declared, which is the plan of its runs; not what it happened to run on."""
    return {name: value for name, value in facts.declared.items() if name != "environment"}


def policy_digest(facts: Facts) -> str:
    """SHA-256 of what the pipeline declared."""
    return hashlib.sha256(compact(policy(facts)).encode()).hexdigest()


def plan(facts: Facts) -> str:
    """The plan of a run: a policy, and the code and the parameters that carry it out."""
    whole = [facts.pipeline_version, facts.code, facts.params, policy(facts)]
    digest = hashlib.sha256(compact(whole).encode()).hexdigest()
    return of(facts, "plan", facts.pipeline, digest)


def environment(facts: Facts) -> dict[str, str]:
    """What it ran on, as far as that was recorded."""
    return facts.declared.get("environment") or {}
