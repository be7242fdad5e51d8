"""Everything a cloud, a queue or a neighbour may say, read into envelopes. Nothing is raised.

    s3           notifications 2.x of S3, and of stores that speak like it (MinIO, Ceph)
    sns          what SNS posts or wraps for a queue; inside may be any of the others
    eventbridge  events of S3 by EventBridge
    gcs          Pub/Sub pushes of Cloud Storage, and its CloudEvents
    azure        Event Grid: its own schema and CloudEvents, and its handshake
    cloudevents  CloudEvents 1.0, structured, binary or batched
    headgate     our own JSON

One document holds one record or many. Each becomes an envelope, or is refused with a stable reason
and the way to the field that is wrong; a bad record never costs its neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from .reading import PROVIDERS, Reading
from .result import Confirmation, Handshake, Parsed, Reason

__all__ = ["LIMIT_BYTES", "PROVIDERS", "Confirmation", "Handshake", "Parsed", "Reason", "parse"]

LIMIT_BYTES = 1 << 20


def parse(
    raw: bytes,
    *,
    received_at: datetime,
    provider: str | None = None,
    headers: Mapping[str, str] | None = None,
    limit_bytes: int = LIMIT_BYTES,
) -> Parsed:
    """Read a document. Whatever its bytes are, nothing is raised.

    Without a `provider` the document's shape says what it is; with one, only that provider's shapes
    are taken. `headers` are those it was posted with.
    """
    if provider is not None and provider not in PROVIDERS:
        raise ValueError(f"no provider {provider!r}; there are {', '.join(PROVIDERS)}")
    reading = Reading(raw, received_at, provider, limit_bytes)
    if headers and any(name.lower() == "ce-specversion" for name in headers):
        reading.binary(headers)
    else:
        reading.document(raw)
    return reading.out
