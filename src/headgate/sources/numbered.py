"""What a polled source noticed, as an envelope, once the ledger has numbered it."""

from __future__ import annotations

import hashlib
from datetime import datetime

from headgate.model.envelope import NUMBERED, Detector, Envelope, Provider, ordinal
from headgate.model.ports import Noticed
from headgate.model.trace import read


def numbered(
    change: Noticed,
    generation: int,
    received_at: datetime,
    *,
    source: str,
    provider: Provider,
    detector: Detector = "manifest",
    etag: str | None = None,
    version_id: str | None = None,
    md5: str | None = None,
    manifest: str | None = None,
) -> Envelope:
    """The change as an envelope. What is gone has no version, and nobody saw when it went, unless
    its source says so.
    """
    removed = change.kind == "removed"
    unseen = removed and change.clock != "producer"
    return Envelope(
        event_id=_event_id(change.uri, generation),
        source=f"{source}:{change.kind}",
        provider=provider,
        detector=detector,
        kind=change.kind,
        uri=change.uri,
        etag=None if removed else etag,
        version_id=None if removed else version_id,
        md5=None if removed else md5,
        version_hint=change.hint or None,
        strength=change.strength,
        size=change.size,
        content_type=change.content_type,
        event_time=received_at if unseen else change.event_time,
        clock="received" if unseen else change.clock,
        received_at=received_at,
        sequence=NUMBERED + ordinal(generation),
        generation=generation,
        item=change.item,
        metadata={} if manifest is None else {"manifest": manifest},
        trace=change.trace if read(change.trace) is not None else None,
        data=change.data,
    )


def _event_id(uri: str, generation: int) -> str:
    plain = f"{generation}@{uri}"
    if len(plain) <= 1024:
        return plain
    return f"{generation}@sha256:{hashlib.sha256(uri.encode()).hexdigest()}"
