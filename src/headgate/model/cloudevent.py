"""An envelope as a CloudEvent 1.0: as JSON, in headers and body, or several in an array.

Its id is the change key: told twice, it is the same event. Its data is the envelope's own JSON, so
that another Headgate reads back what was written.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

import orjson

from .envelope import Envelope
from .output import output
from .trace import STATE, is_trace

TYPES = {"created": "headgate.object.created.v1", "removed": "headgate.object.removed.v1"}
CONTENT_TYPE = "application/cloudevents+json"
BATCH_CONTENT_TYPE = "application/cloudevents-batch+json"
# Printable ASCII without the space, the quotation mark and the percent sign.
_HEADER_SAFE = "".join(chr(c) for c in range(0x21, 0x7F) if chr(c) not in '"%')


def to_cloudevent(envelope: Envelope) -> dict[str, object]:
    """The event in JSON's own types."""
    data = output(envelope)
    event: dict[str, object] = {
        "specversion": "1.0",
        "id": data["idempotency_key"],
        "source": f"urn:headgate:{envelope.provider}",
        "type": TYPES[envelope.kind],
        "subject": envelope.uri,
        "time": data["event_time"],
        "datacontenttype": "application/json",
        "data": data,
    }
    if envelope.sequence:
        event["sequence"] = envelope.sequence
    if envelope.trace and is_trace(envelope.trace):
        event["traceparent"] = envelope.trace
        if state := envelope.metadata.get(STATE):
            event[STATE] = state
    return event


def structured(envelope: Envelope) -> bytes:
    """The event as a JSON object; to be sent as `CONTENT_TYPE`."""
    return orjson.dumps(to_cloudevent(envelope))


def batch(envelopes: Iterable[Envelope]) -> bytes:
    """Several events as an array; to be sent as `BATCH_CONTENT_TYPE`."""
    return orjson.dumps([to_cloudevent(e) for e in envelopes])


def binary(envelope: Envelope) -> tuple[dict[str, str], bytes]:
    """The event as headers and a body."""
    event = to_cloudevent(envelope)
    body = orjson.dumps(event.pop("data"))
    headers = {"content-type": str(event.pop("datacontenttype"))}
    for name, value in event.items():
        headers[f"ce-{name}"] = quote(str(value), safe=_HEADER_SAFE)
    return headers, body
