"""Drain: take over what a queue hands out, and acknowledge what the ledger has.

    receive ──▶ read ──▶ one transaction for many messages ──▶ acknowledge

A message is acknowledged after the commit that admitted what it tells, never before. A process may
die anywhere: what was not acknowledged comes again, and is a duplicate if it was admitted. While
the ledger is away nothing is received and nothing acknowledged; what is in hand is held.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from headgate.errors import ConfigError, HeadgateError, LedgerUnavailable, PermissionDenied
from headgate.ledger import backlog, inbox
from headgate.ledger.inbox import Registered
from headgate.model.envelope import Envelope, Refused
from headgate.model.identity import change_key
from headgate.model.ports import Delivery, Wire, Wired
from headgate.model.signal import OUTAGE, emit
from headgate.pg import Database
from headgate.telemetry.log import get_logger
from headgate.transports import open_wire

from .hand import Hand
from .intake import Quiet, carry, count, is_the_records, noted, sort, telling, unfit
from .tuning import Tuning

Told = Sequence[Envelope | Refused]

RECEIVERS = 8
ADMITTERS = 2
BATCH = 500
GATHER = 100
GATHER_SECONDS = 0.03
IN_HAND = 400  # not yet admitted; their bytes are in memory
AWAITED = 10_000  # admitted and held until done; SQS allows 20,000 in flight from a FIFO queue
LOOK_SECONDS = 0.5
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 60.0
LONGEST_LEDGER_PAUSE_SECONDS = 5.0
STOP_SECONDS = 5.0
CLOSE_SECONDS = 15.0
log = get_logger("headgate.drain")


class Drain:
    """Drains the queue of one source of one pipeline."""

    def __init__(self, db: Database, to: Registered, source: Wired, tuning: Tuning) -> None:
        self._db = db
        self._to = to
        self._source = source
        self._tuning = tuning
        self.quiet = Quiet()
        self._wire: Wire
        self._hand: Hand
        self._told: Callable[[], None] = lambda: None
        self._arrived: deque[Delivery] = deque()
        self._some = asyncio.Event()
        self._through = asyncio.Event()  # nothing is on its way into the ledger
        self._through.set()
        self._pressing = False  # the last receive brought as many as it can
        self._admitting = 0
        self._polling = 0
        # Receivers wait for these: for a queue that has more, for room, and for the ledger.
        self._busy = asyncio.Event()
        self._room = asyncio.Event()
        self._ledger = asyncio.Event()
        self._ready = 0  # entries that waited for a worker when we last looked
        self._since_look = 0  # entries admitted since

    async def run(self, told: Callable[[], None] = lambda: None) -> None:
        """Drain for ever. Raises `ConfigError` when the queue cannot be used as it is."""
        self._told = told
        self._wire = await opened(self._source.queue, self._complain)
        self._hand = Hand(self._wire, self._source.name, self._changed)
        receiving = [asyncio.create_task(self._receive(n)) for n in range(RECEIVERS)]
        tasks = [asyncio.create_task(self._admit()) for _ in range(ADMITTERS)]
        tasks += [asyncio.create_task(self._hand.keep()), asyncio.create_task(self._look())]
        if self._source.ack == "finalized":
            tasks.append(asyncio.create_task(self._await_ends()))
        try:
            await asyncio.gather(*receiving, *tasks)
        finally:
            await self._stop(receiving, tasks)

    # Receiving

    async def _receive(self, number: int) -> None:
        """One poll after the other. An idle queue is polled by the first receiver alone."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            await self._may_receive(number)
            self._polling += 1
            try:
                found = await self._wire.receive()
            except HeadgateError as error:
                self._busy.clear()
                self._complain(error)
                found = None
            finally:
                self._polling -= 1
            if found is None:
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
                continue
            pause = FIRST_PAUSE_SECONDS
            if found:
                self._hand.take(found)
                self._arrived += found
                self._some.set()
                self._through.clear()
                self._pressing = len(found) >= self._wire.at_once
                self._busy.set()
                self._say(Quiet())
            else:
                self._busy.clear()
                await self._may_be_quiet()
            self._changed()

    async def _may_receive(self, number: int) -> None:
        gates = (self._ledger, self._room, *((self._busy,) if number else ()))
        while not all(gate.is_set() for gate in gates):
            for gate in gates:
                await gate.wait()

    async def _may_be_quiet(self) -> None:
        """Nothing came. Is there nothing left, neither with us nor with anybody else?"""
        if self._polling or self._hand.unsettled:
            return
        if not self.quiet.scanned:
            try:
                if await self._wire.left() > len(self._hand):
                    return
            except PermissionDenied:
                pass  # then an empty answer has to be enough
            except HeadgateError as error:
                self._complain(error)
                return
        if not (self._polling or self._hand.unsettled):
            self._say(Quiet(scanned=True))

    def _changed(self) -> None:
        """Is there room for more, in our hands and in front of the workers?"""
        fresh = self._hand.fresh
        backlog = self._ready + self._since_look + fresh
        if fresh < IN_HAND and self._hand.awaited < AWAITED and backlog < self._tuning.backlog_max:
            self._room.set()
        else:
            self._room.clear()

    # Admitting

    async def _admit(self) -> None:
        while True:
            await self._some.wait()
            # A lone message does not wait for company. While more are on their way, a moment makes
            # one commit of several.
            if self._pressing and len(self._arrived) < GATHER:
                await asyncio.sleep(GATHER_SECONDS)
            batch = [self._arrived.popleft() for _ in range(min(BATCH, len(self._arrived)))]
            if not self._arrived:
                self._some.clear()
            if batch:
                self._admitting += 1
                try:
                    await self._take_in(batch)
                finally:
                    self._admitting -= 1
                if not (self._admitting or self._arrived):
                    self._through.set()

    async def _take_in(self, batch: Sequence[Delivery]) -> None:
        """Everything these messages tell, in one transaction; then they are acknowledged."""
        now, began = datetime.now(UTC), noted()
        told = [read(self._source, delivery, now) for delivery in batch]
        if records := [record for one in told for record in one]:
            with telling(f"drain {self._source.name}", "consumer", records, began):
                await self._keep(records, now)
        if self._source.ack == "admitted":
            self._hand.ack(batch)
            return
        at_once: list[Delivery] = []
        for delivery, one in zip(batch, told, strict=True):
            keys = frozenset(change_key(e) for e in one if isinstance(e, Envelope))
            if keys:
                self._hand.wait_for(delivery, keys)
            else:
                at_once.append(delivery)
        if at_once:
            self._hand.ack(at_once)
        self._changed()

    async def _keep(self, records: Told, now: datetime) -> None:
        """Make it durable, however long the ledger is away."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                await self._commit(records, now)
                return
            except Exception as error:
                if not is_the_records(error):
                    self._ledger.clear()
                    emit(OUTAGE)
                    self._complain(_away(error))
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, LONGEST_LEDGER_PAUSE_SECONDS)
                    continue
                if len(records) == 1:
                    records = [unfit(records[0], error)]
                    continue
                # One that the ledger cannot take must not cost the others. Halves keep their order.
                half = len(records) // 2
                await self._keep(records[:half], now)
                await self._keep(records[half:], now)
                return

    async def _commit(self, records: Told, now: datetime) -> None:
        source = self._source
        envelopes, aside = sort(records, source.name, source.provider, now)
        receipt = await inbox.receive(self._db, self._to, source.name, envelopes, aside)
        count(source.name, receipt)
        self._since_look += receipt.admitted

    # Not more than the ledger's workers can take

    async def _look(self) -> None:
        """Ask the ledger how much there is to do; it answers again after it was away."""
        pause = LOOK_SECONDS
        while True:
            # An idle queue brings nothing: there is nothing to ask for.
            if self._since_look or not (self._ledger.is_set() and self._room.is_set()):
                try:
                    most, counted = self._tuning.backlog_max, self._since_look
                    self._ready = await backlog.ready(self._db, self._to.pipeline, most)
                    # What was admitted while we asked may be in the answer: rather twice than not.
                    self._since_look -= counted
                    self._ledger.set()
                    pause = LOOK_SECONDS
                except LedgerUnavailable as error:
                    self._complain(error)
                    pause = min(pause * 2, LONGEST_LEDGER_PAUSE_SECONDS)
                self._changed()
            await asyncio.sleep(pause)

    # Acknowledging when done

    async def _await_ends(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self._ack_ended()
            except LedgerUnavailable as error:
                self._complain(error)
            # The more there is to ask, the more rarely it is asked.
            await asyncio.sleep(max(0.1, 10 * (loop.time() - began)))

    async def _ack_ended(self) -> None:
        keys = sorted(self._hand.keys())
        if not keys:
            return
        soon = self._tuning.max_wait_seconds
        left = await backlog.unfinished(self._db, self._to.pipeline, keys, soon)
        if done := self._hand.done({one.key: one.waits for one in left}):
            self._say(Quiet())
            self._hand.ack(done)

    # Ending

    async def _stop(
        self, receiving: Sequence[asyncio.Task[None]], tasks: Sequence[asyncio.Task[None]]
    ) -> None:
        """Finish what is nearly done, and give the rest back."""
        await _end(receiving)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                if self._ledger.is_set():
                    await self._through.wait()
                if self._source.ack == "finalized":
                    await self._ack_ended()
                await self._hand.settle()
        except (TimeoutError, LedgerUnavailable):
            pass
        await _end(tasks)
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._hand.give_back()
                await self._wire.close()
        except TimeoutError:
            log.warning("stopped without hearing the last polls", source=self._source.name)

    def _complain(self, error: HeadgateError) -> None:
        if self.quiet.failing != str(error):
            source = self._source.name
            log.warning("queue cannot be drained", source=source, why=str(error), hint=error.hint)
        self._say(Quiet(failing=str(error)))

    def _say(self, quiet: Quiet) -> None:
        if quiet != self.quiet:
            self.quiet = quiet
            self._told()


async def opened(queue: str, complain: Callable[[HeadgateError], None]) -> Wire:
    """The queue, as soon as it can be reached. Raises `ConfigError` when that will not help."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return await open_wire(queue)
        except ConfigError:
            raise
        except PermissionDenied as error:
            raise ConfigError(str(error), hint=error.hint) from error
        except HeadgateError as error:
            complain(error)
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def read(source: Wired, delivery: Delivery, now: datetime) -> Told:
    """What a message tells. A source of somebody's own may break its promise not to raise."""
    try:
        return carry(source.read(delivery, now), delivery.attributes)
    except Exception as error:
        return [Refused("unreadable", "", f"{type(error).__name__}: {error}", delivery.body)]


def _away(error: Exception) -> HeadgateError:
    if isinstance(error, HeadgateError):
        return error
    return LedgerUnavailable(f"{type(error).__name__}: {error}")


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
