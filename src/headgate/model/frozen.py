"""Frozen: what a result depends on, by digest, so that the same can be made again, and shown to be.

A deployment is evidence of what ran; its pins are that evidence, aspect by aspect. What cannot
change a result (retries, pace, the names of sources) is not pinned.

Handlers get chance and time from the change itself: a replay, and a revert that derives rows again,
start from the origin of what they are about, so `run.seed` and `run.now` are what they were.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

from .envelope import REVERT, Envelope
from .identity import canonical, change_key

SCHEMA = "frozen-manifest-v1"
Aspect = Literal["version", "code", "params", "config", "schemas", "lookups"]
ASPECTS: tuple[Aspect, ...] = ("version", "code", "params", "config", "schemas", "lookups")
# Of a declaration: what else decides what comes out.
CONFIG = ("removed", "dataset", "transforms", "applies", "validators", "collection", "item")

ORIGIN_KEY = "restored_key"
ORIGIN_NOW = "restored_now"

Digest = Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$")]


@dataclass(frozen=True, slots=True)
class Pins:
    """What a result depends on beside its input. Digests are hex."""

    version: str
    code: str
    params: str
    config: str
    schemas: Mapping[str, str] = field(default_factory=dict[str, str])
    lookups: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def digest(self) -> bytes:
        """All of it as one digest."""
        whole = (self.version, self.code, self.params, self.config)
        return _digest([*whole, dict(self.schemas), dict(self.lookups)])

    def differing(self, other: Pins) -> Iterator[tuple[Aspect, str]]:
        """The aspects in which they differ, each with the name of the part, if it has parts."""
        for aspect in ASPECTS:
            mine, theirs = getattr(self, aspect), getattr(other, aspect)
            if aspect in ("schemas", "lookups"):
                for name in sorted({*mine, *theirs}):
                    if mine.get(name) != theirs.get(name):
                        yield aspect, name
            elif mine != theirs:
                yield aspect, ""


def pins(version: str, code: bytes, params: bytes, declared: Mapping[str, Any]) -> Pins:
    """The pins of a deployment, from what the ledger keeps of it."""
    schemas = {
        row["table"]: _digest({"key": row["key"], "columns": row["columns"]}).hex()
        for row in declared.get("rows", ())
    }
    for contract in declared.get("contracts", ()):
        schemas[str(contract.get("name"))] = _digest(contract).hex()
    return Pins(
        version,
        code.hex(),
        params.hex(),
        _digest({name: declared.get(name) for name in CONFIG}).hex(),
        schemas,
        {name: one["digest"] for name, one in declared.get("lookups", {}).items()},
    )


def seed_of(key: bytes) -> int:
    """The seed of all that is made of one change: below 2^53, as every JSON reader has it."""
    return int.from_bytes(hashlib.sha256(b"headgate:seed:1\0" + key).digest()[:8], "big") >> 11


def origin(envelope: Envelope) -> tuple[bytes, datetime]:
    """The key and the time that seed and clock of a run come from.

    A replay has its original's envelope. A revert has those of what it brings back.
    """
    if envelope.source == REVERT and ORIGIN_KEY in envelope.metadata:
        key, now = envelope.metadata[ORIGIN_KEY], envelope.metadata[ORIGIN_NOW]
        return bytes.fromhex(str(key)), datetime.fromisoformat(str(now))
    return change_key(envelope), envelope.received_at


def replay_key(replay: int, original: bytes) -> bytes:
    """The gate's key of an entry that replays another one; `replay.sql` makes the same."""
    return hashlib.sha256(b"headgate:replay:1\0" + replay.to_bytes(8, "big") + original).digest()


class Window(TypedDict):
    """By event time: from `start` on, before `end`. None is without limit."""

    start: str | None
    end: str | None


class FrozenInput(TypedDict):
    """One input. `publication` is what is run again; None for an object that was never seen."""

    uri: str
    publication: int | None
    digest: Digest | None


class Inputs(TypedDict):
    """How many there are, the digest of their list, and the list where it was asked for."""

    count: Annotated[int, Meta(ge=0)]
    digest: Digest
    list: list[FrozenInput] | None


class Changed(TypedDict):
    """Something that was another when `publications` of the inputs were made."""

    aspect: str
    name: str
    was: list[str]
    now: str
    publications: int


class FrozenManifest(TypedDict):
    """What a replay runs, on what, and what of it was another when it ran first."""

    schema: Literal["frozen-manifest-v1"]
    pipeline: str
    mode: Literal["verify", "publish"]
    window: Window
    pipeline_version: str
    code: Digest
    params: Digest
    config: Digest
    schemas: dict[str, Digest]
    lookups: dict[str, Digest]
    seeds: str
    environment: dict[str, str]
    inputs: Inputs
    watermark: str | None
    changed: list[Changed]
    accepted: list[str]


SEEDS = "headgate:seed:1, of each change's key"


def _digest(value: Any) -> bytes:
    return hashlib.sha256(b"headgate:pin:1\0" + canonical(value)).digest()
