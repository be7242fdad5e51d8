"""Azure Blob Storage by Event Grid, in its own schema and as CloudEvents, and its handshake.

A blob is named by its web address. A rename is two changes: one is gone, one is there.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ..envelope import Envelope, Kind, Strength
from ..uri import normal_uri, split_uri
from .etag import etag
from .result import Bad, Handshake, Ignored, Path
from .shape import Count, Text, Time, fitting, shaped, timely

VALIDATION = "Microsoft.EventGrid.SubscriptionValidationEvent"
CREATED = "Microsoft.Storage.BlobCreated"
DELETED = "Microsoft.Storage.BlobDeleted"
RENAMED = "Microsoft.Storage.BlobRenamed"
OTHER = (
    "Microsoft.EventGrid.SubscriptionDeletedEvent",
    "Microsoft.Storage.AsyncOperationInitiated",
    "Microsoft.Storage.BlobInventoryPolicyCompleted",
    "Microsoft.Storage.BlobTierChanged",
    "Microsoft.Storage.DirectoryCreated",
    "Microsoft.Storage.DirectoryDeleted",
    "Microsoft.Storage.DirectoryRenamed",
    "Microsoft.Storage.LifecyclePolicyCompleted",
    "Microsoft.Storage.StorageTaskAssignmentCompleted",
    "Microsoft.Storage.StorageTaskCompleted",
    "Microsoft.Storage.StorageTaskQueued",
)
_LONGEST_SEQUENCER = 128


class _Event(msgspec.Struct):
    id: Text
    eventType: Text
    eventTime: Time
    data: dict[str, Any]
    subject: str | None = None
    topic: str | None = None
    dataVersion: str | None = None
    metadataVersion: str | None = None


class _Asked(msgspec.Struct):
    validationCode: Text
    validationUrl: str | None = None


class _Blob(msgspec.Struct):
    api: str | None = None
    url: Text | None = None
    sourceUrl: Text | None = None
    destinationUrl: Text | None = None
    eTag: str | None = None
    contentType: str | None = None
    contentLength: Count | None = None
    blobType: str | None = None
    versionId: str | None = None
    sequencer: str | None = None


def handshake(data: Any, path: Path) -> Handshake:
    """What Event Grid wants to hear. Raises `Bad`."""
    asked = shaped(data, _Asked, path)
    return Handshake(asked.validationCode, asked.validationUrl)


def envelopes(event: Any, received_at: datetime, path: Path) -> list[Envelope]:
    """The changes that an event in Event Grid's own schema tells. Raises `Bad` and `Ignored`."""
    told = shaped(event, _Event, path)
    if told.metadataVersion not in (None, "", "1"):
        text = f"version {told.metadataVersion[:40]!r}; 1 is understood"
        raise Bad("unknown_version", (*path, "metadataVersion"), text)
    return changes(
        told.eventType,
        told.id,
        told.data,
        told.eventTime,
        received_at,
        (*path, "eventType"),
        (*path, "data"),
    )


def changes(
    event_type: str,
    event_id: str,
    data: Any,
    time: datetime | None,
    received_at: datetime,
    type_path: Path,
    path: Path,
) -> list[Envelope]:
    """The changes that an event of this type tells. Raises `Bad` and `Ignored`."""
    if event_type in OTHER:
        raise Ignored(f"azure:{event_type}")
    if event_type not in (CREATED, DELETED, RENAMED):
        text = f"{event_type[:80]!r} is no event that is known"
        raise Bad("unknown_event", type_path, text)
    blob = shaped(data, _Blob, path)
    if event_type == RENAMED:
        ends: list[tuple[Kind, str, str | None]] = [
            ("removed", "sourceUrl", blob.sourceUrl),
            ("created", "destinationUrl", blob.destinationUrl),
        ]
    else:
        ends = [("created" if event_type == CREATED else "removed", "url", blob.url)]
    source = f"azure:{event_type.rpartition('.')[2]}"
    return [
        _change(kind, event_id, source, blob, _uri(url, (*path, name)), time, received_at, path)
        for kind, name, url in ends
    ]


def _uri(url: str | None, path: Path) -> str:
    """The blob's address, without a query: that may hold a signature."""
    if url is None:
        raise Bad("missing_field", path, "it is not there")
    try:
        plain = normal_uri(url)
    except UnicodeDecodeError:
        raise Bad("bad_key", path, "unquoted, it is no UTF-8") from None
    found = split_uri(plain)
    if found is None or not plain.startswith(("https:", "http:")):
        raise Bad("bad_key", path, "it is not the address of a blob")
    if "\0" in found[0] or "\0" in found[1]:
        raise Bad("nul", path, "unquoted, there is a NUL in it")
    return fitting(plain, path)


def _change(
    kind: Kind,
    event_id: str,
    source: str,
    blob: _Blob,
    uri: str,
    time: datetime | None,
    received_at: datetime,
    path: Path,
) -> Envelope:
    tag = etag(blob.eTag) if blob.eTag else None
    metadata: dict[str, str | int | bool | None] = {}
    if tag and tag.value != blob.eTag:
        metadata["raw_etag"] = blob.eTag
    for name, value in (("api", blob.api), ("blob_type", blob.blobType)):
        if value:
            metadata[name] = value
    if blob.sequencer and len(blob.sequencer) > _LONGEST_SEQUENCER:
        text = f"it has {len(blob.sequencer)} characters"
        raise Bad("too_long", (*path, "sequencer"), text)
    strength: Strength = "none"
    if blob.versionId and kind == "created":
        strength = "immutable"
    elif tag:
        strength = "weak" if tag.weak else "strong"
    return Envelope(
        event_id=event_id,
        source=source,
        provider="azure",
        detector="event",
        kind=kind,
        uri=uri,
        etag=tag.value if tag else None,
        version_id=blob.versionId or None,
        version_hint=blob.versionId or (tag.value if tag else None),
        strength=strength,
        size=blob.contentLength if kind == "created" else None,
        content_type=blob.contentType or None,
        event_time=timely(time, path) if time else received_at,
        clock="producer" if time else "received",
        received_at=received_at,
        sequence=blob.sequencer or None,
        metadata=metadata,
    )
