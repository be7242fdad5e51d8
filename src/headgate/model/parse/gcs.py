"""Google Cloud Storage: its notifications by Pub/Sub push, and its CloudEvents (Eventarc).

A generation is an immutable version and orders the changes of a name. When an object is overwritten
Google also tells that the old generation is gone; that is no removal of the object and is ignored.
"""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ..envelope import Clock, Envelope, ordinal
from ..uri import object_uri
from .etag import etag
from .result import Bad, Ignored, Path
from .shape import Text, Time, fitting, instant, shaped, timely

# What happened → is the object there, is it gone, or is it about something else?
KINDS = {
    "OBJECT_FINALIZE": "created",
    "OBJECT_DELETE": "removed",
    "OBJECT_ARCHIVE": "removed",
    "OBJECT_METADATA_UPDATE": None,
}
TYPES = {
    "google.cloud.storage.object.v1.finalized": "OBJECT_FINALIZE",
    "google.cloud.storage.object.v1.deleted": "OBJECT_DELETE",
    "google.cloud.storage.object.v1.archived": "OBJECT_ARCHIVE",
    "google.cloud.storage.object.v1.metadataUpdated": "OBJECT_METADATA_UPDATE",
}

# Google writes 64-bit numbers as text.
Number = Annotated[str, Meta(pattern=r"^[0-9]{1,19}$")] | Annotated[int, Meta(ge=0)]


class Message(msgspec.Struct):
    """A message of Pub/Sub: what happened in its attributes, the object in its data."""

    attributes: dict[str, str]
    data: str | None = None
    messageId: str | None = None
    message_id: str | None = None
    publishTime: Time | None = None


class _Push(msgspec.Struct):
    message: Message
    subscription: str | None = None


class _Resource(msgspec.Struct):
    name: Text | None = None
    bucket: Text | None = None
    generation: Number | None = None
    metageneration: Number | None = None
    size: Number | None = None
    contentType: str | None = None
    md5Hash: str | None = None
    etag: str | None = None
    updated: Time | None = None
    timeCreated: Time | None = None


def push(document: Any, path: Path) -> Message:
    """The message of a push. Raises `Bad`."""
    return shaped(document, _Push, path).message


def from_message(message: Message, resource: Any, received_at: datetime, path: Path) -> Envelope:
    """A change, from a message and the object in its data, if there was one."""
    told, here = message.attributes, (*path, "attributes")
    event = told.get("eventType")
    if event is None:
        raise Bad("missing_field", (*here, "eventType"), "it is no notification of Cloud Storage")
    if event not in KINDS:
        text = f"{event[:80]!r} is no event that is known"
        raise Bad("unknown_event", (*here, "eventType"), text)
    if KINDS[event] is None or "overwrittenByGeneration" in told:
        raise Ignored(f"gcs:{event}")
    for name in ("bucketId", "objectId", "objectGeneration"):
        if not told.get(name):
            raise Bad("missing_field", (*here, name), "it is not there")
    about = _resource(resource, (*path, "data"))
    facts = (about.bucket, about.name, about.generation and str(about.generation))
    for name, fact in zip(("bucketId", "objectId", "objectGeneration"), facts, strict=True):
        if fact is not None and fact != told[name]:
            text = "the attributes and the data name different objects"
            raise Bad("contradiction", (*here, name), text)
    at: datetime | None = None
    clock: Clock = "producer"
    if "eventTime" in told:
        at = instant(told["eventTime"], (*here, "eventTime"))
    elif about.updated or about.timeCreated:
        at, clock = about.updated or about.timeCreated, "object"
    elif message.publishTime:
        at, clock = message.publishTime, "notification"
    generation = told["objectGeneration"]
    return _change(
        event=event,
        event_id=message.messageId or message.message_id or f"{event}:{generation}",
        bucket=told["bucketId"],
        name=told["objectId"],
        generation=_number(generation, (*here, "objectGeneration")),
        about=about,
        event_time=at or received_at,
        clock=clock if at else "received",
        received_at=received_at,
        path=here,
    )


def from_cloudevent(
    event_type: str,
    event_id: str,
    data: Any,
    time: datetime | None,
    received_at: datetime,
    path: Path,
) -> Envelope:
    """A change, from a CloudEvent of one of `TYPES`."""
    event = TYPES[event_type]
    if KINDS[event] is None or (isinstance(data, dict) and "overwrittenByGeneration" in data):
        raise Ignored(f"gcs:{event}")
    about = _resource(data, path)
    if about.bucket is None or about.name is None or about.generation is None:
        missing = next(n for n in ("bucket", "name", "generation") if getattr(about, n) is None)
        raise Bad("missing_field", (*path, missing), "it is not there")
    seen = about.updated or about.timeCreated
    return _change(
        event=event,
        event_id=event_id,
        bucket=about.bucket,
        name=about.name,
        generation=_number(about.generation, (*path, "generation")),
        about=about,
        event_time=time or seen or received_at,
        clock="producer" if time else "object" if seen else "received",
        received_at=received_at,
        path=path,
    )


def _resource(resource: Any, path: Path) -> _Resource:
    return _Resource() if resource is None else shaped(resource, _Resource, path)


def _number(value: str | int, path: Path) -> int:
    """A generation. It must fit into a sequence of 19 digits."""
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise Bad("out_of_range", path, f"{text[:40]!r} is no generation")
    return int(text)


def _change(
    *,
    event: str,
    event_id: str,
    bucket: str,
    name: str,
    generation: int,
    about: _Resource,
    event_time: datetime,
    clock: Clock,
    received_at: datetime,
    path: Path,
) -> Envelope:
    removed = KINDS[event] == "removed"
    if "\0" in bucket or "\0" in name:
        raise Bad("nul", path, "there is a NUL in it")
    tag = etag(about.etag) if about.etag else None
    metadata: dict[str, str | int | bool | None] = {}
    if tag and tag.value != about.etag:
        metadata["raw_etag"] = about.etag
    if about.metageneration is not None:
        metadata["metageneration"] = str(about.metageneration)
    return Envelope(
        event_id=event_id,
        source=f"gcs:{event}",
        provider="gcs",
        detector="event",
        kind="removed" if removed else "created",
        uri=fitting(object_uri("gs", bucket, name), path),
        etag=tag.value if tag else None,
        version_id=str(generation),
        md5=_hex(about.md5Hash),
        version_hint=str(generation),
        # That a generation went is another change than that it came.
        strength="none" if removed else "immutable",
        size=None if about.size is None else int(about.size),
        content_type=about.contentType,
        event_time=timely(event_time, path),
        clock=clock,
        received_at=received_at,
        # It goes after it came, and before the next one comes.
        sequence=ordinal(generation) + ("-" if removed else ""),
        metadata=metadata,
    )


def _hex(md5: str | None) -> str | None:
    """An MD5 as Google writes it, in hex; None when it is none."""
    try:
        digest = base64.b64decode(md5 or "", validate=True)
    except (binascii.Error, ValueError):
        return None
    return digest.hex() if len(digest) == 16 else None
