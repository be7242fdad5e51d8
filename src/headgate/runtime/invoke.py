"""One invocation of a Lambda: what it was handed is durable in the ledger, or told to come again.

Nothing is worked on here. Messages are admitted together; if the ledger refuses the batch, each is
admitted alone, so that one that cannot be taken costs none of its neighbours. Whatever is unclear
comes again, and the keys make that harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headgate.errors import ConfigError, LedgerUnavailable, Unavailable, UsageError
from headgate.ledger import inbox
from headgate.ledger.inbox import Registered
from headgate.model.envelope import Envelope, Refused
from headgate.model.pipeline import Pipeline
from headgate.model.ports import Delivery, Wired
from headgate.net import queues
from headgate.pg import Database
from headgate.telemetry.log import get_logger
from headgate.transports.lambda_event import Batch, group_of

from . import intake, station
from .ledger_home import Ledger, connected

log = get_logger("headgate.lambda")


@dataclass(slots=True)
class Admission:
    """What became of one invocation: the ids that must come again, and the count of the others."""

    failed: set[str] = field(default_factory=set[str])
    new: int = 0
    duplicates: int = 0
    silent: int = 0  # messages that announce nothing, such as s3:TestEvent


class Door:
    """A pipeline's way into the ledger, kept open between invocations."""

    def __init__(self, pipeline: Pipeline, ledger: Ledger) -> None:
        self._pipeline = pipeline
        self._ledger = ledger
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._open: tuple[Database, Registered] | None = None

    async def admit(self, batch: Batch) -> Admission:
        """Take in a batch. Raises nothing that would hide what was admitted."""
        source = source_of(self._pipeline, batch.queue)
        # A function that slept may wake with connections that died meanwhile. Only the second
        # failure says that the ledger is away.
        for last in (False, True):
            try:
                db, to = await self._entered()
                return await _Admitting(db, to, source).all(batch.deliveries)
            except LedgerUnavailable as error:
                await self.close()
                if last:
                    log.warning("ledger is away", pipeline=self._pipeline.name, why=str(error))
        return Admission({delivery.id for delivery in batch.deliveries})

    async def _entered(self) -> tuple[Database, Registered]:
        async with self._opening:
            if self._open is None:
                # One connection: a thousand functions at once are a thousand of them.
                home = connected(self._ledger, connections=1, initialise=False)
                db = await self._stack.enter_async_context(home)
                self._open = db, await station.register(db, self._pipeline)
            return self._open

    async def close(self) -> None:
        self._open = None
        stack, self._stack = self._stack, AsyncExitStack()
        try:
            await stack.aclose()
        except Exception as error:
            log.debug("closing failed", why=str(error))


def source_of(pipeline: Pipeline, queue: str | None) -> Wired:
    """The source whose queue calls; the only one where it is not told which."""
    wired = [source for source in pipeline.sources if isinstance(source, Wired)]
    named = [source for source in wired if queue and queues.parse(source.queue).name == queue]
    if len(found := named or wired) == 1:
        return found[0]
    if not wired:
        raise UsageError(
            f"pipeline {pipeline.name!r} has no source that listens to a queue",
            hint='Declare one: sources=[hg.S3Events(queue="…")]',
        )
    listed = ", ".join(source.queue for source in wired)
    raise UsageError(
        f"pipeline {pipeline.name!r} listens to {listed}, and {queue or 'something else'} calls",
        hint="Connect the function to one of these queues.",
    )


def require_shared(pipeline: Pipeline, ledger: Ledger) -> None:
    """A function and its workers share a database and a store, or nothing works."""
    if ledger.url is None:
        raise ConfigError(
            "a Lambda has no database of its own: an embedded one would be gone with it",
            hint="Set HEADGATE_DATABASE_URL to the server that the workers use.",
        )
    if "://" not in pipeline.store and not pipeline.store.startswith("/"):
        raise ConfigError(
            f"the store {pipeline.store!r} is a folder here, and the workers run elsewhere",
            hint='Use a store that both can reach, as in store="s3://bucket/lake".',
        )


class _Admitting:
    """One batch on its way in."""

    def __init__(self, db: Database, to: Registered, source: Wired) -> None:
        self._db, self._to, self._source = db, to, source
        self._now = datetime.now(UTC)
        self._done = Admission()

    async def all(self, deliveries: Sequence[Delivery]) -> Admission:
        told = [(delivery, self._read(delivery)) for delivery in deliveries]
        readable = [records for _, records in told if records is not None]
        try:
            # With one that cannot be read, the order of its group must be minded: one by one.
            if len(readable) == len(told):
                await self._receive([record for records in readable for record in records])
                return self._done
        except Unavailable:
            raise
        except Exception as error:
            log.warning("batch refused", source=self._source.name, why=str(error))
        await self._one_by_one(told)
        return self._done

    async def _one_by_one(
        self, told: Sequence[tuple[Delivery, Sequence[Envelope | Refused] | None]]
    ) -> None:
        stopped: set[str] = set()  # groups of a FIFO queue: nothing overtakes a failure
        for delivery, records in told:
            group = group_of(delivery)
            if group is not None and group in stopped:
                self._done.failed.add(delivery.id)
                continue
            try:
                if records is None:
                    raise ValueError("it cannot be read")
                await self._receive(records)
            except Unavailable:
                raise
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                log.warning("message refused", source=self._source.name, id=delivery.id, why=why)
                self._done.failed.add(delivery.id)
                if group is not None:
                    stopped.add(group)

    def _read(self, delivery: Delivery) -> Sequence[Envelope | Refused] | None:
        try:
            records = intake.carry(self._source.read(delivery, self._now), delivery.attributes)
        except Exception:
            return None
        self._done.silent += not records
        return records

    async def _receive(self, records: Sequence[Envelope | Refused]) -> None:
        if not records:
            return
        name, provider = self._source.name, self._source.provider
        envelopes, aside = intake.sort(records, name, provider, self._now)
        receipt = await inbox.receive(self._db, self._to, name, envelopes, aside)
        intake.count(name, receipt)
        self._done.new += receipt.admitted
        self._done.duplicates += receipt.duplicates
