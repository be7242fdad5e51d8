"""What answers look like, for the description of the API."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

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
