"""Dead letters: what a queue gave up on goes into quarantine, where somebody decides about it.

Slowly: after an incident there may be many, and nobody waits for them. Each is kept under the key
of the change it tells. One that was admitted after all is a duplicate, and leaves its entry alone;
the others run like any change once an operator releases them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from headgate.errors import LedgerUnavailable
from headgate.ledger import inbox
from headgate.ledger.aside import Aside
from headgate.ledger.inbox import Registered
from headgate.model import mask
from headgate.model.envelope import Envelope
from headgate.model.ports import Delivery, Wire, Wired
from headgate.model.signal import OUTAGE, UNACKNOWLEDGED, emit
from headgate.model.verdict import Quarantine
from headgate.pg import Database
from headgate.telemetry.log import get_logger

from .drain import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, opened, read
from .intake import Quiet, count, is_the_records, sort, unfit

PACE_SECONDS = 1.0  # between one receive and the next: ten messages a second at most
CLOSE_SECONDS = 15.0
# What those who gave up wrote beside the message: SQS, SNS, Lambda, EventBridge.
_GIVEN_UP = (
    "ErrorCode",
    "ErrorMessage",
    "ERROR_CODE",
    "ERROR_MESSAGE",
    "EXHAUSTED_RETRY_CONDITION",
)
log = get_logger("headgate.drain")


class DeadLetters:
    """Drains the dead letter queue of one source of one pipeline into quarantine."""

    def __init__(self, db: Database, to: Registered, source: Wired, queue: str) -> None:
        self._db = db
        self._to = to
        self._source = source
        self._queue = queue
        self.quiet = Quiet()

    async def run(self, told: Callable[[], None] = lambda: None) -> None:
        """For ever. Raises `ConfigError` when the queue cannot be used as it is."""
        wire = await opened(self._queue, self._complain)
        pause = FIRST_PAUSE_SECONDS
        try:
            while True:
                try:
                    found = await wire.receive()
                    if found:
                        await self._set_aside(wire, found)
                    self.quiet = Quiet(scanned=not found)
                    told()
                    pause = FIRST_PAUSE_SECONDS
                    await asyncio.sleep(PACE_SECONDS if found else 0)
                except Exception as error:
                    if isinstance(error, LedgerUnavailable):
                        emit(OUTAGE)
                    self._complain(error)
                    told()
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
        finally:
            async with asyncio.timeout(CLOSE_SECONDS):
                await wire.close()

    async def _set_aside(self, wire: Wire, deliveries: Sequence[Delivery]) -> None:
        """Keep them in quarantine, then take them off the queue."""
        try:
            await self._keep(deliveries)
            left = await wire.ack(deliveries)
        except BaseException:
            await wire.later(deliveries, 0)
            raise
        if left:
            emit(UNACKNOWLEDGED, len(left), queue=self._source.name)

    async def _keep(self, deliveries: Sequence[Delivery], refusal: Exception | None = None) -> None:
        """One that the ledger cannot take costs none of the others."""
        source, now = self._source, datetime.now(UTC)
        aside: list[Aside] = []
        for delivery in deliveries:
            told = read(source, delivery, now)
            if refusal is not None:
                told = [unfit(record, refusal) for record in told]
            envelopes, unreadable = sort(told, source.name, source.provider, now)
            aside += unreadable
            aside += [_dead(envelope, delivery) for envelope in envelopes]
        if not aside:
            return
        try:
            count(source.name, await inbox.receive(self._db, self._to, source.name, (), aside))
        except Exception as error:
            if refusal is not None or not is_the_records(error):
                raise
            if len(deliveries) == 1:
                await self._keep(deliveries, error)
            else:
                for delivery in deliveries:
                    await self._keep([delivery])

    def _complain(self, error: Exception) -> None:
        if self.quiet.failing != str(error):
            name, hint = self._source.name, getattr(error, "hint", "")
            log.warning("dead letters wait", source=name, why=str(error), hint=hint)
        self.quiet = Quiet(failing=str(error))


def _dead(envelope: Envelope, delivery: Delivery) -> Aside:
    return Aside(
        envelope,
        Quarantine("exhausted", "dead_letter", _why(delivery)),
        mask.preview(delivery.body),
    )


def _why(delivery: Delivery) -> str:
    """Who gave up and why, as far as the message tells."""
    said = [delivery.attributes[name] for name in _GIVEN_UP if delivery.attributes.get(name)]
    origin = delivery.attributes.get("DeadLetterQueueSourceArn", "").rpartition(":")[2]
    text = f"given up by {origin or 'its queue'}"
    if not said:
        text += f" after {max(delivery.times - 1, 0)} deliveries that nobody acknowledged"
    text = ": ".join([text, *said])
    return " ".join(text.encode("utf-8", "backslashreplace").decode().replace("\0", "").split())
