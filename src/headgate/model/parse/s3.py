"""Notifications of S3 and of stores that speak like it (`eventSource` ends in `:s3`), version 2.x.

Keys are form-encoded (`+` is a space). A version id may be missing or the word `null`: then there
are no versions. A sequencer orders the changes of one key.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, Protocol, cast
from urllib.parse import unquote_to_bytes

import msgspec

from ..envelope import Envelope, Kind, Strength
from ..uri import object_uri
from .etag import etag
from .result import Bad, Ignored, Path
from .shape import Count, Text, Time, fingerprinted, fitting, shaped, timely

# About an object, but not about its content. The part behind the group is left out: any of them.
OTHER = (
    "ObjectRestore",
    "ObjectTagging",
    "ObjectAcl",
    "ObjectAnnotation",
    "ObjectAccessed",
    "ObjectTransition",
    "ReducedRedundancyLostObject",
    "Replication",
    "LifecycleTransition",
    "IntelligentTiering",
    "BucketCreated",
    "BucketRemoved",
    "Scanner",
)
# MinIO files these under created and removed; the bytes stay as they were.
OTHER_NAMES = (
    "ObjectCreated:PutRetention",
    "ObjectCreated:PutLegalHold",
    "ObjectCreated:PutTagging",
    "ObjectCreated:DeleteTagging",
    "ObjectRemoved:NoOP",
)
GROUPS: dict[str, Kind] = {
    "ObjectCreated": "created",
    "ObjectRemoved": "removed",
    "LifecycleExpiration": "removed",
}
Fate = Literal["created", "marked", "removed"]

_HEX = "0123456789ABCDEF"
_MD5 = "0123456789abcdef"
_LONGEST_SEQUENCER = 128
REQUEST = "x-amz-request-id"
_KEY = ("s3", "object", "key")
_SEQUENCER = ("s3", "object", "sequencer")


class Bucket(msgspec.Struct):
    """A bucket by its name."""

    name: Text


class Object(msgspec.Struct):
    """What is told about an object. The key is as the store has it once it has been unquoted."""

    key: Text
    size: Count | None = None
    eTag: str | None = None
    versionId: str | None = None
    sequencer: str | None = None


class _About(msgspec.Struct):
    bucket: Bucket
    object: Object


class About(Protocol):
    @property
    def bucket(self) -> Bucket: ...
    @property
    def object(self) -> Object: ...


class Record(Protocol):
    """What is read of a record, however it was typed."""

    eventVersion: str
    eventSource: str
    eventName: str
    awsRegion: str | None

    @property
    def s3(self) -> About: ...


class _Record(msgspec.Struct):
    eventVersion: str
    eventSource: str
    eventTime: Time
    eventName: str
    s3: _About
    awsRegion: str | None = None
    responseElements: dict[str, Any] | None = None


def envelopes(records: list[Any], received_at: datetime) -> list[Envelope] | None:
    """All records at once; None when one of them is anything but an ordinary change."""
    try:
        typed = msgspec.convert(records, list[_Record])
        ids = [_request(r) or r.s3.object.sequencer for r in typed]
        if None in ids or "" in ids:
            return None
        told = zip(typed, cast("list[str]", ids), strict=True)
        return [made(r, event_id, r.eventTime, received_at) for r, event_id in told]
    except (msgspec.ValidationError, Bad, Ignored):
        return None


def envelope(record: Any, received_at: datetime, path: Path) -> Envelope:
    """One record. Raises `Bad` and `Ignored`."""
    typed = shaped(record, _Record, path)
    try:
        event_id = _request(typed) or typed.s3.object.sequencer or fingerprinted(record)
        return made(typed, event_id, typed.eventTime, received_at)
    except Bad as error:
        raise Bad(error.reason, (*path, *error.path), error.text) from None


def _request(r: _Record) -> str | None:
    found = r.responseElements.get(REQUEST) if r.responseElements else None
    return found if isinstance(found, str) else None


def made(r: Record, event_id: str, event_time: datetime, received_at: datetime) -> Envelope:
    """The envelope of a record. Every delivery pays for this: no path is made up in advance."""
    if r.eventVersion[:2] != "2.":
        text = f"version {r.eventVersion[:40]!r}; 2.x is understood"
        raise Bad("unknown_version", ("eventVersion",), text)
    if r.eventSource[-3:] != ":s3":
        raise Bad("unknown_source", ("eventSource",), f"{r.eventSource[:80]!r} is not S3")
    source, fate = named(r.eventName)
    if fate is None:
        raise _without_content(r.eventName, source)
    if not 1 < event_time.year < 9999:
        timely(event_time, ("eventTime",))
    told = r.s3.object
    if "%" in told.key or "+" in told.key:
        told.key = unquoted(told.key, _KEY)
    return change(
        event_id, source, fate, r.s3.bucket.name, told, event_time, received_at, r.awsRegion
    )


def change(
    event_id: str,
    source: str,
    fate: Fate,
    bucket: str,
    told: Object,
    event_time: datetime,
    received_at: datetime,
    region: str | None,
) -> Envelope:
    """A change of an object, from a notification or an event of EventBridge."""
    metadata: dict[str, str | int | bool | None] = {"region": region} if region else {}
    version = told.versionId
    if version is not None and (not version or version == "null"):
        version = None
    tag = raw = told.eTag
    md5 = None
    strength: Strength = "none"
    if raw:
        if len(raw) == 32 and not raw.strip(_MD5):
            md5 = raw
            strength = "strong"
        elif found := etag(raw):
            tag, weak = found
            md5 = found.md5
            strength = "weak" if weak else "strong"
            if tag != raw:
                metadata["raw_etag"] = raw
    if version is not None:
        strength = "immutable"
        if fate == "removed":
            # Removing a version is another change than making it: the version is no occurrence.
            strength = "none"
            metadata["removed"] = "version"
    return Envelope(
        event_id=event_id,
        source=source,
        provider="s3",
        detector="event",
        kind="created" if fate == "created" else "removed",
        uri=fitting(object_uri("s3", bucket, told.key), _KEY),
        etag=tag or None,
        version_id=version,
        md5=md5,
        version_hint=version or tag or None,
        strength=strength,
        size=told.size,
        event_time=event_time,
        received_at=received_at,
        sequence=sequence(told.sequencer) if told.sequencer else None,
        metadata=metadata,
    )


@lru_cache(maxsize=256)
def named(event_name: str) -> tuple[str, Fate | None]:
    """An event's name with its `s3:`, and what it means for the object; None is nothing."""
    name = event_name.removeprefix("s3:")
    group, _, way = name.partition(":")
    if group not in GROUPS or name in OTHER_NAMES:
        return f"s3:{name}", None
    if GROUPS[group] == "created":
        return f"s3:{name}", "created"
    return f"s3:{name}", "marked" if way == "DeleteMarkerCreated" else "removed"


def _without_content(name: str, source: str) -> Exception:
    plain = name.removeprefix("s3:")
    if plain.partition(":")[0] in OTHER or plain in OTHER_NAMES:
        return Ignored(source)
    return Bad("unknown_event", ("eventName",), f"{name[:80]!r} is no event that is known")


def unquoted(key: str, path: Path) -> str:
    """A key as it is in the bucket."""
    try:
        plain = unquote_to_bytes(key.replace("+", " ")).decode()
    except UnicodeDecodeError:
        raise Bad("bad_key", path, "unquoted, it is no UTF-8") from None
    if "\0" in plain:
        raise Bad("nul", path, "unquoted, there is a NUL in it")
    return plain


def sequence(sequencer: str) -> str:
    """A sequencer as text that sorts as sequencers do: padded with zeros on the right.

    Without the zeros at its end a shorter one is the beginning of a longer one, or differs from it
    where both have a digit. Either way plain text compares as the padded numbers would.
    """
    if sequencer.strip(_HEX):
        sequencer = sequencer.upper()
        if sequencer.strip(_HEX):
            raise Bad("bad_sequencer", _SEQUENCER, f"{sequencer[:80]!r} is no hexadecimal number")
    if len(sequencer) > _LONGEST_SEQUENCER:
        raise Bad("too_long", _SEQUENCER, f"it has {len(sequencer)} digits")
    return sequencer.rstrip("0") or "0"
