"""Intake: what a source told, on its way into the ledger.

An envelope is admitted. A record that is no envelope is set aside under its own bytes, so that it
is kept once however often it comes, and costs none of its neighbours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from headgate.ledger import inbox
from headgate.ledger.aside import Aside
from headgate.model.envelope import REFUSED, Envelope, Provider, Refused
from headgate.model.signal import CONFLICT, DUPLICATE, RECEIVED, emit
from headgate.model.verdict import Quarantine
from headgate.telemetry import mask


@dataclass(slots=True)
class Quiet:
    """Did the last look at every source find nothing new and nothing half-written?"""

    scanned: bool = False
    unsettled: int = 0
    failing: str | None = None


def sort(
    told: Iterable[Envelope | Refused], source: str, provider: Provider, received_at: datetime
) -> tuple[list[Envelope], list[Aside]]:
    """What can be admitted, and what has to be set aside."""
    envelopes: list[Envelope] = []
    aside: list[Aside] = []
    for one in told:
        if isinstance(one, Envelope):
            envelopes.append(one)
        else:
            aside.append(_stand_in(one, source, provider, received_at))
    return envelopes, aside


def _stand_in(refused: Refused, source: str, provider: Provider, received_at: datetime) -> Aside:
    """An entry for a record that is no envelope."""
    digest = hashlib.sha256(refused.raw).hexdigest()
    text = f"{refused.field}: {refused.text}" if refused.field else refused.text
    # Whatever it is, its description has to fit a column of text.
    text = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    envelope = Envelope(
        event_id=digest,
        source=source,
        provider=provider,
        detector="event",
        uri=f"{REFUSED}{digest}",
        event_time=received_at,
        clock="received",
        received_at=received_at,
        size=len(refused.raw),
        metadata={"refused": refused.reason},
        data=refused.raw,
    )
    return Aside(envelope, Quarantine("schema", refused.reason, text), mask.preview(refused.raw))


def count(queue: str, receipt: inbox.Receipt) -> None:
    """Show what became of a batch of deliveries."""
    emit(RECEIVED, receipt.received, queue=queue)
    if receipt.duplicates:
        emit(DUPLICATE, receipt.duplicates, queue=queue)
    if receipt.conflicts:
        emit(CONFLICT, receipt.conflicts, queue=queue)
