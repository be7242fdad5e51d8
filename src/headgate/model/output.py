"""An envelope as others see it: its own JSON, and what follows from it.

`bucket` and `key` are in the uri, `trace_id` in the trace, and the change key is made of the uri
and the occurrence. They are written for readers who should not have to know how.
"""

from __future__ import annotations

import msgspec
import orjson

from .envelope import Envelope
from .identity import change_key
from .trace import read
from .uri import split_uri


def trace_id(envelope: Envelope) -> str | None:
    """The trace an envelope belongs to, also when its sender told nothing but the id."""
    if found := read(envelope.trace):
        return found.trace_id
    told = envelope.metadata.get("trace_id")
    return told if isinstance(told, str) else None


def output(envelope: Envelope) -> dict[str, object]:
    """The envelope in JSON's own types, with `bucket`, `key`, `trace_id` and the key."""
    said: dict[str, object] = msgspec.to_builtins(envelope)
    if found := split_uri(envelope.uri):
        said["bucket"], said["key"] = found
    if trace := trace_id(envelope):
        said["trace_id"] = trace
    if envelope.idempotency_key is None:
        said["idempotency_key"] = change_key(envelope).hex()
    return said


def output_json(envelope: Envelope) -> bytes:
    """The same as one line of JSON."""
    return orjson.dumps(output(envelope))
