"""JSON Schemas of the records that have no public one: generated, like those of the model.

    python -m headgate.catalog.schema      writes them into schemas/

A version is a promise, as in `headgate.model.schema`. Facets of OpenLineage build on its own.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
from msgspec import Meta

from headgate.model.delta import Operation
from headgate.model.frozen import FrozenManifest
from headgate.model.schema import DIALECT, as_files, write

from .facets import CORE, OURS, title_of, url_of
from .run import IoManifest, Qa, RunManifest
from .wal import Wal

Digest = Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$")]
Hex = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Size = Annotated[int, Meta(ge=0)] | None


class File(TypedDict):
    """A file that readers can have."""

    name: str
    digest: Digest
    size: Size
    media_type: str


class Replaced(File):
    """A file that took the place of another one of its name."""

    was: File


class Rows(TypedDict):
    """How many rows of a table the object stood for, and stands for."""

    table: str
    before: Annotated[int, Meta(ge=0)]
    now: Annotated[int, Meta(ge=0)]


class DeltaManifest(TypedDict):
    """What one publication changed for readers. Swap adds and removes to take it back."""

    schema: Literal["delta-manifest-v1"]
    publication: int
    run: str
    pipeline: str
    uri: str
    operation: Operation
    version: Annotated[int, Meta(ge=1)]
    predecessor: int | None
    reverts: int | None
    restores: int | None
    adds: list[File]
    replaces: list[Replaced]
    removes: list[File]
    rows: list[Rows]


class RunFacet(TypedDict):
    """The run as Headgate knows it. `events` are the names that this event goes by."""

    events: list[Literal["event.ingest", "run.start", "run.metrics", "run.end"]]
    run: str
    entry: int
    fence: int
    attempt: int
    idempotencyKey: Hex
    effectKey: NotRequired[Hex]
    worker: NotRequired[str]
    pipelineVersion: NotRequired[str]
    codeDigest: NotRequired[Hex]
    paramsDigest: NotRequired[Hex]
    outcome: NotRequired[str]
    reason: NotRequired[str]
    errorClass: NotRequired[str]
    journal: NotRequired[str]
    milliseconds: NotRequired[dict[str, int]]


class Checked(TypedDict):
    """What one check said."""

    name: str
    kind: str
    passed: bool
    reason: NotRequired[str]
    text: NotRequired[str]
    examined: NotRequired[int]
    failed: NotRequired[int]


class ChecksFacet(TypedDict):
    """What was checked, under which policy, and what came of it."""

    policyDigest: Hex
    passed: int
    failed: int
    checks: list[Checked]


class EnergyFacet(TypedDict):
    """What a run took of processors, and the energy and carbon that is estimated from it.

    joules = cpuSeconds × coreWatts × overhead; gramsCO2e = joules ÷ 3,600,000 × gridGramsPerKWh
    """

    cpuSeconds: Annotated[float, Meta(ge=0)]
    joules: Annotated[float, Meta(ge=0)]
    gramsCO2e: Annotated[float, Meta(ge=0)]
    coreWatts: Annotated[float, Meta(ge=0)]
    overhead: Annotated[float, Meta(ge=1)]
    gridGramsPerKWh: Annotated[float, Meta(ge=0)]


class PublishedFile(TypedDict):
    """A file of a publication."""

    name: str
    sha256: Hex
    mediaType: str
    size: NotRequired[int]


class PublicationFacet(TypedDict):
    """What was published, and what it replaced."""

    publication: int
    version: int
    removed: bool
    retired: bool
    files: list[PublishedFile]
    item: NotRequired[str]
    predecessor: NotRequired[int]
    reverts: NotRequired[int]
    restores: NotRequired[int]
    because: NotRequired[str]
    actor: NotRequired[str]


class SourceFacet(TypedDict):
    """What the source said about the object, and what its bytes were."""

    event_id: str
    source: str
    detector: str
    kind: NotRequired[str]
    event_time: str
    received_at: str
    etag: NotRequired[str]
    md5: NotRequired[str]
    version_id: NotRequired[str]
    version_hint: NotRequired[str]
    strength: NotRequired[str]
    sequence: NotRequired[str]
    sha256: NotRequired[Hex]


DOCUMENTS: dict[str, tuple[Any, str]] = {
    "delta-manifest-v1.schema.json": (DeltaManifest, "Delta manifest, version 1"),
    "frozen-manifest-v1.schema.json": (FrozenManifest, "Frozen manifest of a replay, version 1"),
    "io-manifest-v1.schema.json": (IoManifest, "Inputs and outputs of a run, version 1"),
    "qa-v1.schema.json": (Qa, "Checks of a run, version 1"),
    "run-manifest-v1.schema.json": (RunManifest, "Run manifest, version 1"),
    "wal-v1.schema.json": (Wal, "WAL record, version 1"),
}
FACETS: dict[str, tuple[Any, str]] = {
    "headgate_checks": (ChecksFacet, "RunFacet"),
    "headgate_energy": (EnergyFacet, "RunFacet"),
    "headgate_publication": (PublicationFacet, "DatasetFacet"),
    "headgate_run": (RunFacet, "RunFacet"),
    "headgate_source": (SourceFacet, "DatasetFacet"),
}


def document_schema(name: str) -> dict[str, Any]:
    """The schema of a document of ours."""
    kind, title = DOCUMENTS[name]
    root, parts = _parts(kind)
    made = {"$schema": DIALECT, "$id": name.rpartition("/")[2], **root, "title": title}
    return {**made, "$defs": parts} if parts else made


def facet_schema(facet: str) -> dict[str, Any]:
    """The schema of a facet of ours, in the form that OpenLineage gives to its own."""
    kind, base = FACETS[facet]
    root, parts = _parts(kind)
    title = title_of(facet)
    described = {name: value for name, value in root.items() if name != "title"}
    return {
        "$schema": DIALECT,
        "$id": url_of(OURS[facet]),
        "$defs": {
            title: {"allOf": [{"$ref": f"{CORE}#/$defs/{base}"}, described]},
            **parts,
        },
        "type": "object",
        "properties": {facet: {"$ref": f"#/$defs/{title}"}},
    }


def schemas() -> dict[str, bytes]:
    """Every schema of a record as its file in `schemas/`."""
    made = {name: document_schema(name) for name in DOCUMENTS}
    return as_files(made | {OURS[facet]: facet_schema(facet) for facet in FACETS})


def _parts(kind: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    (root,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    return parts.pop(root["$ref"].rpartition("/")[2]), dict(sorted(parts.items()))


if __name__ == "__main__":
    write(schemas())
