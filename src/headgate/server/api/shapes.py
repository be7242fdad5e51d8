"""What answers look like, for the description of the API."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from headgate.ledger import activity, entries, flow, pipelines, redrive, replays
from headgate.ledger import life as lives
from headgate.ledger.explain import Statement
from headgate.model.dataset import Dataset
from headgate.model.facts import Check, Version
from headgate.model.slo import SloStanding
from headgate.model.verdict import RetryPlan
from headgate.server.redact import HIDDEN, RESTRICTED

EntryStatus = Literal[
    "received", "claimed", "waiting", "quarantined", "finalized", "skipped", "rolled_back"
]
_AT = "2026-01-05T09:30:00.000000+00:00"


class ObjectIdentity(BaseModel):
    """What an object is, whatever it is called."""

    sha256: str | None = Field(description="Of its bytes, in hex.")
    version_id: str | None = Field(description="Its source's immutable name for them.")


class QaSummary(BaseModel):
    """What was checked."""

    checks: int
    passed: int
    failed: list[str] = Field(description="The checks that did not pass, by name.")


class Change(BaseModel):
    """How one change ended. It stays as it is, so it can be kept for ever.

    The references lead to documents of this API. For whom the dataset is restricted, `source_uri`,
    `key`, `error` and the identity say `restricted`.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "change_event_id": "41-2",
                    "detected_at": _AT,
                    "received_at": _AT,
                    "source_uri": "s3://rain/2026-01-05.csv",
                    "object_identity": {"sha256": "9f86d081…", "version_id": "3HL4kqtJvjVBH40N"},
                    "delta_manifest_ref": "/v1/runs/12-1/delta_manifest.json",
                    "qa_summary": {"checks": 2, "passed": 2, "failed": []},
                    "prov_ref": "/v1/runs/12-1/provenance.prov.jsonld",
                    "openlineage_ref": "/v1/runs/12-1/openlineage.ndjson",
                    "entry": 12,
                    "run": "12-1",
                    "pipeline": "rain",
                    "dataset": "rain",
                    "access": "public",
                    "outcome": "finalized",
                    "reason": None,
                    "error": None,
                    "key": "5feceb66…",
                    "source": "s3-events",
                    "removed": False,
                    "event_time": _AT,
                    "at": "2026-01-05T09:30:01.204000+00:00",
                    "published_at": "2026-01-05T09:30:01.204000+00:00",
                    "version": 3,
                    "predecessor": 7,
                    "reverts": None,
                    "replays": None,
                    "journal": "40/2",
                    "cursor": "41-2",
                }
            ]
        }
    )

    change_event_id: str = Field(description="Its place in the feed, which is its cursor too.")
    detected_at: datetime = Field(
        description="When it was noticed: by its source, if that told us, else when we looked."
    )
    received_at: datetime = Field(description="When we heard of it.")
    source_uri: str
    object_identity: ObjectIdentity
    delta_manifest_ref: str | None = Field(description="What it changed for readers.")
    qa_summary: QaSummary
    prov_ref: str | None = Field(description="Where it came from, as PROV-O.")
    openlineage_ref: str | None
    entry: int
    run: str
    pipeline: str
    dataset: str | None
    access: Literal["public", "restricted", "non-public"] | None
    outcome: Literal["finalized", "skipped", "quarantined", "rolled_back"]
    reason: str | None
    error: str | None
    key: str
    source: str
    removed: bool
    event_time: datetime = Field(description="When it changed, by the source's account.")
    at: datetime = Field(description="When it ended so.")
    published_at: datetime | None = Field(description="The same, of what was published.")
    version: int | None
    predecessor: int | None
    reverts: int | None = Field(description="The publication that it takes back.")
    replays: int | None = Field(description="The publication that was run again.")
    journal: str = Field(description="The row that proves it.")
    cursor: str


class Changes(BaseModel):
    """A page of the feed."""

    changes: list[Change]
    cursor: str = Field(description="Where to go on: `?after=`.", examples=["41-2"])
    more: bool = Field(
        description="There is, or may be, more behind it now. A page can be short and have more"
        " behind it: so much was looked at for one answer."
    )


class Page(BaseModel):
    """A page of a list."""

    cursor: str = Field(description="Where to go on: `?after=`.", examples=["12"])
    more: bool = Field(description="There is, or may be, more behind it.")


class Entries(Page):
    """Entries, the newest first."""

    entries: list[entries.EntryState]


# What there is of one entry: the ledger's own words.
Life = lives.Life


class Explained(BaseModel):
    """Sentences, and the rows that prove each."""

    entry: int
    pipeline: str
    status: str
    statements: list[Statement]


class PublicationLine(BaseModel):
    """One publication in a list. `content` is the SHA-256 of its object."""

    entry: int
    pipeline: str
    uri: str
    version: int
    removed: bool
    content: str
    reverts: int | None
    replays: int | None
    received_at: datetime
    predecessor: int | None
    successor: int | None
    what: str


class Publications(Page):
    """Publications, the latest first."""

    publications: list[PublicationLine]


class Publication(BaseModel):
    """What one entry published."""

    entry: int
    run: str
    pipeline: str
    pipeline_version: str
    code: str
    uri: str
    at: datetime
    event_time: datetime
    key: str
    effect: str | None
    version: Version | None
    predecessor: int | None
    successor: int | None
    reverts: int | None
    restores: int | None
    replays: int | None
    because: str | None
    actor: str | None
    checks: list[Check]
    item: dict[str, Any] | None = Field(description="As a catalog shows it.")


class PublicationAndVersions(BaseModel):
    """A publication, and all versions of its uri, the newest first."""

    publication: Publication
    versions: list[Publication]


class Diff(BaseModel):
    """What changed for readers. Without `from` it is a delta manifest, with more fields."""

    model_config = ConfigDict(extra="allow")

    adds: list[dict[str, Any]]
    replaces: list[dict[str, Any]]
    removes: list[dict[str, Any]]


class QuarantineLine(BaseModel):
    """An entry that waits for a decision, or was discarded."""

    model_config = ConfigDict(extra="allow")

    entry: int
    pipeline: str
    classed: str = Field(alias="class")
    reason: str
    error: str
    uri: str


class Quarantined(Page):
    """What waits for a decision, the newest entry first."""

    entries: list[QuarantineLine]


class Alike(BaseModel):
    """Entries of one pipeline that were set aside for one reason."""

    pipeline: str
    classed: str = Field(alias="class")
    reason: str
    entries: int
    first_at: datetime
    last_at: datetime
    other_code: int
    example: int
    code: str = Field(description="Did the code that runs now set them aside?")


class QuarantineSummary(BaseModel):
    """What waits for a decision, counted."""

    entries: int
    reasons: list[Alike]


class Case(QuarantineLine):
    """Everything that is known of one entry in quarantine."""

    attempts: int
    first_at: datetime
    last_at: datetime
    preview: str | None = Field(description="How its data begins, masked.")
    failures: list[dict[str, Any]]


class Redrive(BaseModel):
    """A plan as it stands now."""

    model_config = ConfigDict(extra="allow")

    id: int
    made_at: datetime
    actor: str
    because: str
    state: str
    held: str | None
    waits: str | None = Field(description="Why nothing is released right now.")
    terms: redrive.Terms
    progress: redrive.Progress
    pipelines: list[str]
    left_seconds: float | None


class Redrives(BaseModel):
    """Plans, the latest first."""

    redrives: list[Redrive]
    more: bool


class RedriveInFull(BaseModel):
    """A plan, what failed again by it, and who decided what about it."""

    redrive: Redrive
    back: list[dict[str, Any]]
    actions: list[dict[str, Any]]


class Replay(BaseModel):
    """A replay now."""

    model_config = ConfigDict(extra="allow")

    id: int
    pipeline: str
    mode: str
    state: str
    asked_at: datetime
    ended_at: datetime | None
    inputs: int
    done: int
    actor: str
    because: str | None
    report: dict[str, Any] | None = Field(description="What a verification found so far.")
    waits: str | None
    entries: list[replays.Fate] | None = Field(description="What became of what was admitted.")
    per_second_so_far: float | None
    eta_seconds: float | None


class Replays(Page):
    """Replays, the latest first."""

    replays: list[Replay]


class Pipeline(BaseModel):
    """A pipeline as it was declared last."""

    name: str
    version: str
    code: str
    created_at: datetime
    registered_at: datetime
    dataset: Dataset | None
    sources: list[str]
    retry: RetryPlan | None
    budget_spent_at: datetime | None
    budget_overridden_until: datetime | None


class Pipelines(BaseModel):
    """All pipelines, by name."""

    pipelines: list[Pipeline]


class PipelineInFull(Pipeline):
    """One pipeline."""

    declared: dict[str, Any]
    sources_now: list[pipelines.SourceState]
    deployments: list[pipelines.Deployment]


class Stream(BaseModel):
    """How far one stream is, by event time."""

    stream: str
    pipeline: str
    source: str
    watermark: datetime | None
    lag_seconds: float | None
    seen: datetime | None
    heard_at: datetime | None
    idle: bool
    late: int


class Watermarks(BaseModel):
    """Streams, and the watermark that those of a pipeline have in common."""

    streams: list[Stream]
    watermarks: dict[str, datetime | None]


class Flow(BaseModel):
    """Pipelines as they stand, and their last minutes."""

    pipelines: list[flow.StreamNow]
    series: flow.Series


class Slos(BaseModel):
    """Each pipeline against each promise."""

    slos: list[SloStanding]


class Activity(Page):
    """Decisions, the newest first."""

    actions: list[activity.Action]


def with_restricted(schemas: dict[str, Any]) -> None:
    """Say of every field that may be hidden that it can be the word `restricted`."""
    for schema in schemas.values():
        for name, said in schema.get("properties", {}).items():
            if name in HIDDEN and said.get("type") != "string":
                title = {"title": said.pop("title")} if "title" in said else {}
                schema["properties"][name] = {"anyOf": [said, _HIDDEN], **title}


_HIDDEN = {"const": RESTRICTED, "description": "For who may not read what is restricted."}
