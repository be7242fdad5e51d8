"""Intake: what a source told, on its way into the ledger.

An envelope is admitted. A record that is no envelope is set aside under its own bytes, so that it
is kept once however often it comes, and costs none of its neighbours.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from msgspec import MsgspecError

from headgate.errors import LedgerUnavailable, SchemaError, Unavailable
from headgate.ledger import inbox
from headgate.ledger.aside import Aside
from headgate.model import mask, trace
from headgate.model.envelope import REFUSED, Envelope, Provider, Refused
from headgate.model.signal import CONFLICT, DUPLICATE, LATE, OUTAGE, RECEIVED, emit
from headgate.model.verdict import Quarantine
from headgate.pg import driver

# Values that Postgres cannot hold, rules they break, limits they exceed.
_OF_THE_DATA = ("22", "23", "54")


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


@contextmanager
def telling(
    name: str, kind: trace.Kind, told: Iterable[Envelope | Refused], began: int = 0
) -> Generator[None]:
    """A span of what a source told, around its way into the ledger.

    It belongs to the sender's trace, if all of it has one; else it begins one, and links to theirs.
    """
    if not trace.tracing():
        yield
        return
    parent, links = trace.brought(told)
    with trace.during(name, kind, {}, parent, links) as span:
        if span is not None and began:
            span.began = began
        yield


def carry(
    records: Sequence[Envelope | Refused], attributes: Mapping[str, str]
) -> Sequence[Envelope | Refused]:
    """What a message told, with the trace context that came beside it."""
    if (context := trace.told(attributes)) is None:
        return records
    return [r if isinstance(r, Refused) else trace.carried(r, context) for r in records]


def noted() -> int:
    """Now, for a span that begins before it is known to what trace it belongs; 0: nobody asks."""
    return time.time_ns() if trace.tracing() else 0


def asked_to_wait(error: Exception) -> float | None:
    """How long whoever failed asked to be left alone. An outage of the ledger is counted."""
    if isinstance(error, LedgerUnavailable):
        emit(OUTAGE)
    return error.delay_seconds if isinstance(error, Unavailable) else None


def is_the_records(error: Exception) -> bool:
    """Did a record bring this error? Any other is the ledger's, and is waited out: a record that
    is set aside for an outage would be lost to its pipeline.
    """
    if isinstance(error, driver.PostgresError):
        return driver.sqlstate(error).startswith(_OF_THE_DATA)
    return isinstance(error, (SchemaError, MsgspecError, ValueError, TypeError))


def unfit(record: Envelope | Refused, error: Exception) -> Refused:
    """A record that the ledger cannot take, as one that it can."""
    if isinstance(record, Refused):
        raise error
    return Refused("unfit", "", f"{type(error).__name__}: {error}", record.json())


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
    if receipt.late:
        emit(LATE, len(receipt.late), queue=queue)
