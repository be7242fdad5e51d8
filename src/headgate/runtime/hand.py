"""In hand: deliveries that are with us and not yet acknowledged. Nobody else gets them meanwhile.

A queue hides what it handed over for a while only. Whoever holds on to a delivery for longer, since
the ledger is away or its work is not done, has the time extended; whoever stops gives it back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headgate.errors import HeadgateError
from headgate.model.ports import Delivery, Wire
from headgate.model.signal import UNACKNOWLEDGED, emit
from headgate.telemetry.log import get_logger

log = get_logger("headgate.drain")


@dataclass(slots=True)
class _Held:
    delivery: Delivery
    until: float  # by the loop's clock; then the queue shows it again
    keys: frozenset[bytes] = frozenset()  # the changes it told, while their end is awaited
    waits: bool = False  # that end is far away


class Hand:
    """What one queue has handed over to this process."""

    def __init__(self, wire: Wire, name: str, changed: Callable[[], None]) -> None:
        self._wire = wire
        self._name = name
        self._changed = changed
        self._held: dict[str, _Held] = {}
        self.awaited = 0  # deliveries that are acknowledged when their work is done
        self._acks: set[asyncio.Task[None]] = set()

    @property
    def fresh(self) -> int:
        """Deliveries that are not acknowledged and do not wait for the end of anything."""
        return len(self._held) - self.awaited

    @property
    def unsettled(self) -> int:
        """Deliveries about which something is going to happen soon."""
        return sum(not held.waits for held in self._held.values())

    def __len__(self) -> int:
        return len(self._held)

    def take(self, deliveries: Sequence[Delivery]) -> None:
        until = asyncio.get_running_loop().time() + self._wire.hidden_seconds
        for delivery in deliveries:
            self._held.setdefault(delivery.handle, _Held(delivery, until))

    def wait_for(self, delivery: Delivery, keys: frozenset[bytes]) -> None:
        """Hold it until these changes are done. Its bytes are in the ledger and may go."""
        if (held := self._held.get(delivery.handle)) is not None:
            self.awaited += not held.keys
            held.delivery, held.keys = replace(delivery, body=b""), keys

    def keys(self) -> set[bytes]:
        """Every change whose end is awaited."""
        return {key for held in self._held.values() for key in held.keys}

    def done(self, unfinished: dict[bytes, bool]) -> list[Delivery]:
        """Those whose changes are all done, given what is not done and whether that waits.

        They are nobody's to wait for any more, and have to be acknowledged.
        """
        done: list[Delivery] = []
        for held in self._held.values():
            if not held.keys:
                continue
            left = [unfinished[key] for key in held.keys if key in unfinished]
            held.waits = bool(left) and all(left)
            if not left:
                done.append(held.delivery)
                held.keys = frozenset()
                self.awaited -= 1
        return done

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge, beside everything else."""
        task = asyncio.create_task(self._ack(deliveries))
        self._acks.add(task)
        task.add_done_callback(self._acks.discard)

    async def _ack(self, deliveries: Sequence[Delivery]) -> None:
        left = deliveries
        try:
            left = await self._wire.ack(deliveries)
        except HeadgateError as error:
            log.warning("cannot acknowledge", source=self._name, why=str(error), hint=error.hint)
        finally:
            # What could not be acknowledged comes again, and is then known.
            for delivery in deliveries:
                held = self._held.pop(delivery.handle, None)
                self.awaited -= held is not None and bool(held.keys)
            if left:
                emit(UNACKNOWLEDGED, len(left), queue=self._name)
            self._changed()

    async def keep(self) -> None:
        """Have the time of what is held extended, for ever, well before it ends."""
        hidden = self._wire.hidden_seconds
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(hidden / 6)
            ending = [h for h in self._held.values() if h.until < loop.time() + hidden / 2]
            if not ending:
                continue
            try:
                await self._wire.later([h.delivery for h in ending], hidden)
            except HeadgateError as error:
                log.warning("cannot hold", source=self._name, why=str(error), hint=error.hint)
                continue
            for held in ending:
                held.until = loop.time() + hidden

    async def settle(self) -> None:
        """Until what is being acknowledged is."""
        await asyncio.gather(*self._acks, return_exceptions=True)

    async def give_back(self) -> None:
        """Let others have what we hold, at once."""
        held = [h.delivery for h in self._held.values()]
        self._held.clear()
        self.awaited = 0
        if held:
            try:
                await self._wire.later(held, 0)
            except HeadgateError as error:
                log.warning("cannot give back", source=self._name, why=str(error))
