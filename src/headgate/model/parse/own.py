"""Our own JSON, and the small envelopes of those who write them by hand.

The full form has a `provider` and every other field as `Envelope.json` writes it. The small form
leaves out what can be told from the rest: the provider from `source` or the uri, the uri from
`bucket` and `key`, the strength from what the version is. `received_at` is always ours, and so is
the key: a sender's own is kept among the metadata.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, cast, get_args

import msgspec

from ..envelope import Detector, Envelope, Provider
from ..identity import change_key
from ..trace import is_trace
from ..uri import PROVIDERS, SCHEMES, blob_uri, normal_uri, object_uri, split_uri
from .etag import etag
from .result import Bad, Path
from .shape import bad, fitting, instant, shaped, timely

_REMOVED = re.compile(r"(?i)remove|delet|expir").search


class _Derived(msgspec.Struct):
    """What is derived on output and may come back."""

    bucket: str | None = None
    key: str | None = None
    trace_id: str | None = None
    idempotency_key: str | None = None


def envelope(document: dict[str, Any], received_at: datetime, path: Path) -> Envelope:
    """One envelope of ours, in the full form or the small one. Raises `Bad`."""
    fields = {name: value for name, value in document.items() if value is not None}
    derived = shaped(fields, _Derived, path)
    told_at = fields.pop("received_at", None)
    if told_at is not None:
        told_at = instant(told_at, (*path, "received_at"))
    for name in ("bucket", "key", "trace_id", "idempotency_key"):
        fields.pop(name, None)
    metadata = shaped(fields.get("metadata", {}), dict[str, Any], (*path, "metadata"))
    fields["metadata"] = metadata = dict(metadata)
    if "provider" not in fields:
        _fill(fields, metadata, derived, path)
    fields["uri"] = _uri(fields, derived, path)
    if "event_time" not in fields:
        fields["event_time"] = told_at or received_at
        fields["clock"] = "notification" if told_at else "received"
    fields["received_at"] = received_at
    trace = fields.get("trace")
    if derived.trace_id and not (isinstance(trace, str) and is_trace(trace)):
        metadata.setdefault("trace_id", derived.trace_id)
    try:
        made = msgspec.convert(fields, Envelope)
        timely(made.event_time, (*path, "event_time"))
        if derived.idempotency_key and derived.idempotency_key != change_key(made).hex():
            metadata.setdefault("sender_key", derived.idempotency_key)
            made = msgspec.structs.replace(made, metadata=metadata)
    except msgspec.ValidationError as error:
        raise bad(error, path) from None
    return made


def _fill(fields: dict[str, Any], metadata: dict[str, Any], derived: _Derived, path: Path) -> None:
    """What the small form leaves out."""
    source = fields.get("source")
    if not isinstance(source, str):
        raise Bad("missing_field", (*path, "source"), "it is not there")
    fields["provider"] = _provider(source, fields.get("uri"), derived)
    fields.setdefault("kind", "removed" if _REMOVED(source) else "created")
    detector = fields.setdefault("detector", "event")
    if detector not in get_args(Detector) and isinstance(detector, str):
        fields["detector"] = "event"
        metadata.setdefault("detector", detector)
    if "size" not in fields and isinstance(metadata.get("content_length"), int):
        fields["size"] = metadata.pop("content_length")
    if "content_type" not in fields and isinstance(metadata.get("content_type"), str):
        fields["content_type"] = metadata.pop("content_type")
    if fields.get("version_id") in ("", "null"):
        del fields["version_id"]
    raw = fields.get("etag")
    tag = etag(raw) if isinstance(raw, str) else None
    if tag is not None:
        fields["etag"] = tag.value
        if tag.value != raw:
            metadata.setdefault("raw_etag", raw)
        fields.setdefault("strength", "weak" if tag.weak else "strong")
        fields.setdefault("version_hint", tag.value)
        if fields["provider"] == "s3" and tag.md5:
            fields.setdefault("md5", tag.md5)
    if "version_id" in fields and fields["kind"] == "created":
        fields["strength"] = "immutable"
        fields["version_hint"] = fields["version_id"]


def _provider(source: str, uri: Any, derived: _Derived) -> Provider:
    """Who is meant: the first word of the source, else whoever has such uris."""
    word = source.partition(":")[0]
    if word in get_args(Provider):
        return cast("Provider", word)
    scheme = uri.partition(":")[0] if isinstance(uri, str) else ""
    if scheme in PROVIDERS:
        return cast("Provider", PROVIDERS[scheme])
    if scheme in ("http", "https"):
        return "http"
    if scheme == "file":
        return "file"
    return "s3" if derived.bucket and derived.key and not scheme else "webhook"


def _uri(fields: dict[str, Any], derived: _Derived, path: Path) -> str:
    uri = fields.get("uri")
    named = (derived.bucket, derived.key)
    if uri is None:
        scheme = SCHEMES.get(cast("str", fields["provider"]))
        if scheme not in ("s3", "gs") or not derived.bucket or not derived.key:
            raise Bad("missing_field", (*path, "uri"), "there is neither a uri nor bucket and key")
        return fitting(object_uri(scheme, derived.bucket, derived.key), (*path, "key"))
    if not isinstance(uri, str):
        raise Bad("wrong_type", (*path, "uri"), "it is no text")
    try:
        blob = blob_uri(uri) if fields["provider"] == "azure" else None
        uri = blob or normal_uri(uri)
    except UnicodeDecodeError:
        raise Bad("bad_key", (*path, "uri"), "unquoted, it is no UTF-8") from None
    found = split_uri(uri)
    if found and any("\0" in part for part in found):
        raise Bad("nul", (*path, "uri"), "unquoted, there is a NUL in it")
    for name, told, is_so in zip(("bucket", "key"), named, found or (None, None), strict=True):
        if told is not None and told != is_so:
            raise Bad("contradiction", (*path, name), "the uri names another object")
    return fitting(uri, (*path, "uri"))
