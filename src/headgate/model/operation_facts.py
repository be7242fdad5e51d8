"""The facts of one operation: its row and its journal. Records are pure renderings of them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class OperationLine:
    """One line of an operation's journal: an attempt that ended or was lost, or a decision."""

    n: int
    at: datetime
    fence: int
    event: str
    holder: str
    reason: str | None
    doc: Mapping[str, Any]
    hash: str


@dataclass(frozen=True, slots=True)
class OperationFacts:
    """Everything that is known about one operation. Digests and keys are hex."""

    ledger: str
    id: int
    key: str
    pipeline: str
    task: str
    dataset: str
    operation: str
    version: str
    checksum_in: str | None
    params_hash: str
    period: str | None
    own: Any
    derived: Sequence[str]
    status: str
    reason: str | None
    attempts: int
    fence: int
    holder: str
    lock_key: int
    exclusive: bool
    created_at: datetime
    begun_at: datetime
    updated_at: datetime
    lease_until: datetime | None
    codec: str | None
    result_hash: str | None
    result_store: str | None
    lines: Sequence[OperationLine]
    calls: Sequence[Mapping[str, Any]]

    @property
    def run(self) -> str:
        """The attempt that the row speaks of."""
        return f"operation-{self.id}-{self.fence}"

    @property
    def run_uuid(self) -> uuid.UUID:
        """The same for those who want a UUID; it is the same each time it is asked for."""
        return uuid.uuid5(uuid.UUID(self.ledger), self.run)

    @property
    def pointer(self) -> str | None:
        """Its last journal line (`wal_pointer`)."""
        return f"operation/{self.id}/{self.lines[-1].n}" if self.lines else None

    @property
    def ended(self) -> OperationLine | None:
        """How the last attempt ended, if it has."""
        mine = [
            x
            for x in self.lines
            if x.fence == self.fence and x.event in ("done", "failed", "reset")
        ]
        return mine[-1] if mine else None

    @property
    def sovereign(self) -> bool:
        """Was a sovereign dataset updated?"""
        return any(line.doc.get("sovereignty_event") for line in self.lines)
