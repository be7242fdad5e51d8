"""CloudEvents 1.0: one as JSON, one in headers and body, or several in an array.

Those of Cloud Storage, Blob Storage and Headgate itself tell of an object. Any other is an event
that carries its own bytes: its uri is made of its source and its subject (without one, its id).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from urllib.parse import quote, unquote_to_bytes

import msgspec
import orjson
from msgspec import UNSET, UnsetType

from ..envelope import Envelope, ordinal
from ..trace import Context, read
from ..uri import quoted
from .result import Bad, Path
from .shape import Text, Time, fitting, shaped, timely, unbase64

OWN = "headgate.object."  # the beginning of the types we write
_JSON = re.compile(r"(?i)\s*[^/]+/(?:json|[^;]+\+json)\s*(?:;.*)?").fullmatch


class _Event(msgspec.Struct):
    id: Text
    source: Text
    specversion: Text
    type: Text
    subject: str | None = None
    time: Time | None = None
    datacontenttype: str | None = None
    dataschema: str | None = None
    data: Any | UnsetType = UNSET
    data_base64: str | None = None
    sequence: str | int | None = None
    sequencetype: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    partitionkey: str | None = None


@dataclass(frozen=True, slots=True)
class CloudEvent:
    """An event's context. Its data is a JSON value, or bytes, or there is none."""

    told: _Event
    value: Any
    content: bytes | None

    @property
    def type(self) -> str:
        return self.told.type


def is_json(content_type: str | None) -> bool:
    """Is data of this type JSON? It is when nothing is said."""
    return content_type is None or _JSON(content_type) is not None


def structured(event: Any, path: Path) -> CloudEvent:
    """An event that is a JSON object. Raises `Bad`."""
    told = _checked(event, path)
    if told.data_base64 is not None:
        if told.data is not UNSET:
            raise Bad("contradiction", (*path, "data_base64"), "there is `data` as well")
        return CloudEvent(told, None, unbase64(told.data_base64, (*path, "data_base64")))
    if told.data is UNSET:
        return CloudEvent(told, None, None)
    if is_json(told.datacontenttype) or not isinstance(told.data, str):
        return CloudEvent(told, told.data, orjson.dumps(told.data))
    return CloudEvent(told, None, told.data.encode())


def binary(headers: Mapping[str, str], content: bytes) -> CloudEvent:
    """An event whose context is in headers (`ce-…`) and whose data is the body. Raises `Bad`."""
    context: dict[str, object] = {}
    for header, value in headers.items():
        name = header.lower()
        if name == "content-type":
            context["datacontenttype"] = _plain(value.encode(errors="surrogatepass"), (name,))
        elif name.startswith("ce-"):
            quoted_bytes = value.encode(errors="surrogatepass")
            context[name.removeprefix("ce-")] = _plain(unquote_to_bytes(quoted_bytes), (name,))
    context.pop("data", None)
    context.pop("data_base64", None)
    return CloudEvent(_checked(context, ()), None, content)


def _plain(value: bytes, path: Path) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise Bad("invalid_utf8", path, "unquoted, it is no UTF-8") from None
    if "\0" in text:
        raise Bad("nul", path, "unquoted, there is a NUL in it")
    return text


def _checked(event: Any, path: Path) -> _Event:
    if isinstance(event, dict):
        version = cast("dict[str, object]", event).get("specversion")
        if isinstance(version, str) and version != "1.0":
            text = f"version {version[:40]!r}; 1.0 is understood"
            raise Bad("unknown_version", (*path, "specversion"), text)
    return shaped(event, _Event, path)


def envelope(event: CloudEvent, received_at: datetime, path: Path) -> Envelope:
    """An event that is about no object: it carries its own bytes."""
    told = event.told
    about = quote(told.subject or told.id, safe="-._~!$&'()*+,;=:@")
    metadata: dict[str, str | int | bool | None] = {}
    for name in ("subject", "dataschema", "source"):
        if value := getattr(told, name):
            metadata[name] = value
    if told.traceparent and trace(told) is None:
        metadata["traceparent"] = told.traceparent
    return Envelope(
        event_id=told.id,
        source=told.type,
        provider="webhook",
        detector="event",
        uri=fitting(f"cloudevent:{quoted(told.source)}/{about}", (*path, "subject")),
        size=None if event.content is None else len(event.content),
        content_type=told.datacontenttype or (None if event.value is None else "application/json"),
        event_time=timely(told.time, (*path, "time")) if told.time else received_at,
        clock="producer" if told.time else "received",
        received_at=received_at,
        sequence=_sequence(told, path),
        partition=told.partitionkey,
        metadata=metadata,
        data=event.content,
    )


def trace(told: _Event) -> Context | None:
    """The trace context of the distributed tracing extension."""
    return read(told.traceparent, told.tracestate)


def _sequence(told: _Event, path: Path) -> str | None:
    """The sequence extension: text that is compared as text, or, of type Integer, a number."""
    if told.sequence is None or told.sequence == "":
        return None
    if told.sequencetype == "Integer" or isinstance(told.sequence, int):
        try:
            return ordinal(int(told.sequence))
        except ValueError:
            raise Bad("out_of_range", (*path, "sequence"), "it is no sequence number") from None
    if len(told.sequence) > 256:
        raise Bad("too_long", (*path, "sequence"), f"it has {len(told.sequence)} characters")
    return told.sequence
