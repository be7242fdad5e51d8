"""Pipelines as they declared themselves: what they read, how they retry, what they keep.

The ledger has all of it, so whoever asks needs none of the user's code.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import orjson

from headgate.model.dataset import Dataset
from headgate.model.verdict import RetryPlan
from headgate.pg import Database, Record, queries

Q = queries.load(__file__)


@dataclass(frozen=True, slots=True)
class Declared:
    """A pipeline and its latest deployment."""

    id: int
    name: str
    store: str
    created_at: datetime
    spent_at: datetime | None
    overridden_until: datetime | None
    deployment: int
    version: str
    code: str
    params: str
    declared: dict[str, Any]
    first_seen: datetime
    registered_at: datetime

    @property
    def dataset(self) -> Dataset | None:
        """What it publishes, if it named that."""
        given = self.declared.get("dataset")
        return None if given is None else Dataset.restore(given)

    @property
    def retry(self) -> RetryPlan | None:
        """How it wants to be retried. None: as suits the way in which a change was heard of."""
        given = self.declared.get("retry")
        return None if given is None else RetryPlan(**given | {"delays": tuple(given["delays"])})

    @property
    def source_names(self) -> list[str]:
        """The sources it declares."""
        return cast("list[str]", self.declared.get("sources", []))


@dataclass(frozen=True, slots=True)
class SourceState:
    """What a source told so far, and how far it was read. Only a followed one has a checkpoint."""

    source: str
    received: int
    new: int
    duplicate: int
    conflict: int
    checkpoint: str | None
    moved_at: datetime | None


@dataclass(frozen=True, slots=True)
class Deployment:
    """Code and parameters that a pipeline ran with."""

    id: int
    version: str
    code: str
    params: str
    first_seen: datetime
    registered_at: datetime


async def pipelines(db: Database, name: str | None = None) -> list[Declared]:
    """Every pipeline, by name; or the one that is named, if there is one."""
    return [_declared(row) for row in await db.fetch(Q.pipelines, name)]


async def sources(db: Database, pipeline: int) -> list[SourceState]:
    """The sources of a pipeline that told something."""
    return [SourceState(*row) for row in await db.fetch(Q.sources, pipeline)]


async def deployments(db: Database, pipeline: int, limit: int = 10) -> list[Deployment]:
    """What a pipeline ran with, the latest first."""
    return [Deployment(*row) for row in await db.fetch(Q.deployments, pipeline, limit)]


def _declared(row: Record) -> Declared:
    return Declared(**dict(row) | {"declared": orjson.loads(row["declared"])})
