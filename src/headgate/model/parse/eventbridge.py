"""Events of S3 as EventBridge writes them. Keys are as they are in the bucket, not encoded."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ..envelope import Envelope
from .result import Bad, Ignored, Path
from .s3 import Fate, Object, change
from .shape import Count, Text, Time, shaped, timely

OTHER = (
    "Object Restore Initiated",
    "Object Restore Completed",
    "Object Restore Expired",
    "Object Tags Added",
    "Object Tags Deleted",
    "Object ACL Updated",
    "Object Storage Class Changed",
    "Object Access Tier Changed",
)
# Why it changed, in the words of notifications, so that both ways tell the same `source`.
_REASONS = {
    "PutObject": "Put",
    "POST Object": "Post",
    "CopyObject": "Copy",
    "CompleteMultipartUpload": "CompleteMultipartUpload",
}


class _Bucket(msgspec.Struct):
    name: Text


class _Object(msgspec.Struct, rename="kebab"):
    key: Text
    size: Count | None = None
    etag: str | None = None
    version_id: str | None = None
    sequencer: str | None = None


class _Detail(msgspec.Struct, rename="kebab"):
    bucket: _Bucket
    object: _Object
    version: str | None = None
    request_id: str | None = None
    reason: str | None = None
    deletion_type: str | None = None


class _Event(msgspec.Struct, rename="kebab"):
    id: Text
    detail_type: str
    source: str
    time: Time
    detail: _Detail
    region: str | None = None


class _Head(msgspec.Struct, rename="kebab"):
    detail_type: str
    source: str
    version: str | None = None


def envelope(event: Any, received_at: datetime, path: Path) -> Envelope:
    """One event. Raises `Bad` and `Ignored`."""
    head = shaped(event, _Head, path)
    if head.source != "aws.s3":
        raise Bad("unknown_source", (*path, "source"), f"{head.source[:80]!r} is not S3")
    if head.detail_type in OTHER:
        raise Ignored(f"s3:{head.detail_type}")
    if head.detail_type not in ("Object Created", "Object Deleted"):
        text = f"{head.detail_type[:80]!r} is no event that is known"
        raise Bad("unknown_event", (*path, "detail-type"), text)
    if head.version not in (None, "0"):
        text = f"version {head.version[:40]!r}; 0 is understood"
        raise Bad("unknown_version", (*path, "version"), text)
    told = shaped(event, _Event, path)
    detail, thing = told.detail, told.detail.object
    at = timely(told.time, (*path, "time"))
    source, fate = _happened(detail, told.detail_type == "Object Created")
    about = Object(thing.key, thing.size, thing.etag, thing.version_id, thing.sequencer)
    try:
        return change(
            told.id, source, fate, detail.bucket.name, about, at, received_at, told.region
        )
    except Bad as error:
        # It speaks of a notification's `s3`.
        raise Bad(error.reason, (*path, "detail", *error.path[1:]), error.text) from None


def _happened(detail: _Detail, created: bool) -> tuple[str, Fate]:
    if created:
        way = _REASONS.get(detail.reason or "", "")
        return f"s3:ObjectCreated:{way}" if way else "s3:ObjectCreated", "created"
    group = "LifecycleExpiration" if detail.reason == "Lifecycle Expiration" else "ObjectRemoved"
    if detail.deletion_type == "Delete Marker Created":
        return f"s3:{group}:DeleteMarkerCreated", "marked"
    return f"s3:{group}:Delete", "removed"
