"""A caller's turn: somebody else is at it, or was there before with other work.

By the operation's policy it waits for a while, is told to come again, or has a person look at it.
Each of these is journalled and shown.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import orjson

from headgate import errors
from headgate.ledger import operation as ledger
from headgate.ledger.operation import Held, OtherPayload
from headgate.model import signal
from headgate.model.operation import Manner, Named
from headgate.model.signal import emit
from headgate.pg import Database
from headgate.telemetry.log import get_logger

from .holder import holder

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger

FIRST_PAUSE_SECONDS = 0.005
STARVED_BY = 10  # so many others were served while one caller waited


class Escalating(Protocol):
    """Where a person is told."""

    async def escalate(self, named: Named, key: str, held: Held) -> None: ...


@dataclass(slots=True, eq=False)
class Turn:
    """One caller's wait for its turn."""

    name: str
    named: Named
    key: bytes
    manner: Manner
    home: Escalating
    db: Database
    until: float = field(init=False)
    retries: int = 0
    others: set[bytes] = field(default_factory=set[bytes])

    def __post_init__(self) -> None:
        self.until = time.monotonic() + self.manner.budget_seconds

    async def conflict(self, got: OtherPayload, payload: bytes | None) -> None:
        """The key was used before, for other work: raise, or go on with a warning."""
        said = orjson.dumps({"payload": (payload or b"").hex(), "key": self.key.hex()}).decode()
        await ledger.note(self.db, got.id, "conflict", holder(), "payload", said)
        emit(signal.CONFLICT, queue=self.name)
        if self.manner.conflict == "error":
            raise errors.Conflict(
                f"operation {self.name!r}: this key was used before, with another payload",
                hint="Give the other work a key of its own. What is known of this one: "
                f"headgate operation show {self.key.hex()[:12]}",
            )
        _log().warning("operation_conflict", operation=self.name, key=self.key.hex())

    async def wait(self, held: Held) -> None:
        """Somebody else is at it: wait for a while, or raise, by the policy."""
        self.others.add(held.token)
        if self.retries == 0:
            await self._denied(held)
        if self.manner.in_progress != "backoff" or time.monotonic() >= self.until:
            await self._refuse(held)
        if len(self.others) == STARVED_BY:
            self.others.add(b"")
            emit(signal.STARVED, dataset_id=self.named.dataset)
            _log().warning(
                "operation_starved",
                operation=self.name,
                dataset=self.named.dataset,
                hint="Others of this dataset were served first: give it shards=, or fewer callers.",
            )
        bound = min(FIRST_PAUSE_SECONDS * 2**self.retries, self.manner.plan.base_seconds)
        # Not beyond the lease: its holder may have died on another machine.
        pause = min(random.uniform(0.3, 1) * bound, held.left_seconds + 0.05)
        self.retries += 1
        await asyncio.sleep(max(0.0, min(pause, self.until - time.monotonic())))

    async def _denied(self, held: Held) -> None:
        tell(signal.LOCK_FAILURES, self.named, self.manner)
        policy = self.manner.in_progress
        event = "escalated" if policy == "escalate" else "denied"
        said = {"key": self.key.hex(), "held_by": held.holder, "policy": policy}
        if held.id:
            text = orjson.dumps(said).decode()
            await ledger.note(self.db, held.id, event, holder(), policy, text)

    async def _refuse(self, held: Held) -> None:
        escalates = self.manner.in_progress == "escalate"
        if escalates:
            _log().error("operation_escalated", operation=self.name, key=self.key.hex())
            await self.home.escalate(self.named, self.key.hex(), held)
        raised = errors.Escalated if escalates else errors.InProgress
        raise raised(
            f"operation {self.name!r} is in progress elsewhere ({held.holder})",
            retry_after_seconds=max(1.0, min(held.left_seconds, self.manner.lease_seconds)),
            holder=held.holder,
        )


def tell(told: signal.Signal, named: Named, manner: Manner) -> None:
    """Say it with the labels that every operation has."""
    if not signal.heard():
        return
    emit(
        told,
        pipeline=named.pipeline,
        task=named.task,
        dataset_id=named.dataset,
        operation_type=named.operation,
        sovereignty_event=str(manner.sovereign).lower(),
    )


def _log() -> BoundLogger:
    return get_logger("headgate.operation")  # rarely needed, and not quick to import
