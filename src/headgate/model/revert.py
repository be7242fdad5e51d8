"""A revert, as a change: what it says, and what is read from it.

A revert is told to the pipeline like any other change of its uri, and passes the same gates. Its
bytes are those of the version it brings back, from the store or from inside the first message. In
the order of changes it stands where the version stood that it takes back: what is newer than that
replaces it, what is older stays stale.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
import orjson

from .envelope import REVERT, Envelope
from .facts import Facts, File
from .frozen import ORIGIN_KEY, ORIGIN_NOW, origin

CONTENT = "restored_content"
ARTIFACTS = "restored_artifacts"
AGAIN = "runs_again"


def envelope(
    reverted: Facts,
    restored: Facts | None,
    *,
    number: int,
    received_at: datetime,
    data: bytes | None,
    again: bool = False,
) -> Envelope:
    """The change that takes `reverted` back to `restored`; None: to where nothing was published.

    `number` tells it from earlier reverts of the same publication. `data` are the bytes of what is
    restored, where they came inside their message. `again`: its change is to run once more, with
    all handlers, and what comes of that takes its place.
    """
    taken = reverted.envelope
    version = None if restored is None else restored.version
    gone = restored is None or version is None or version.removed
    like = taken if restored is None else restored.envelope
    metadata: dict[str, str | int | bool | None] = {"reverts": reverted.entry}
    if again:
        metadata[AGAIN] = True
    elif restored is not None:
        metadata["restores"] = restored.entry
        key, now = origin(restored.envelope)
        metadata |= {ORIGIN_KEY: key.hex(), ORIGIN_NOW: now.isoformat()}
    if version is not None and not gone:
        metadata[CONTENT] = version.content
        if version.artifacts and not again:
            metadata[ARTIFACTS] = orjson.dumps([_fields(f) for f in version.artifacts]).decode()
    return msgspec.structs.replace(
        taken,
        event_id=f"{'reset' if again else 'revert'}-{reverted.entry}-{number}",
        source=REVERT,
        detector="log",
        kind="removed" if gone else "created",
        etag=None,
        version_id=None,
        md5=None,
        version_hint=None,
        strength="none",
        size=None if gone or version is None else version.size,
        content_type=like.content_type,
        received_at=received_at,
        generation=None,
        item=like.item,
        trace=None,
        metadata=metadata,
        data=None if gone else data,
        idempotency_key=None,
    )


def restored(change: Envelope) -> int | None:
    """The publication that a revert brings back; None: nothing was there."""
    said = change.metadata.get("restores")
    return said if isinstance(said, int) else None


def runs_again(change: Envelope) -> bool:
    """Does it run a change again, instead of bringing back what was made of it then?"""
    return change.metadata.get(AGAIN) is True


def restored_content(change: Envelope) -> bytes:
    """The digest of the bytes that a revert brings back."""
    return bytes.fromhex(str(change.metadata[CONTENT]))


def restored_artifacts(change: Envelope) -> Sequence[dict[str, Any]]:
    """The artifacts that a revert points to again, as a publication names them."""
    return orjson.loads(str(change.metadata.get(ARTIFACTS) or "[]"))


def _fields(file: File) -> dict[str, Any]:
    return {
        "name": file.name,
        "digest": file.digest,
        "size": file.size,
        "media_type": file.media_type,
    }
