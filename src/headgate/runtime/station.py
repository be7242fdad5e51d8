"""Setting up: pipelines made known to the ledger, their stores opened, their sources checked."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from headgate._version import __version__
from headgate.ledger import inbox
from headgate.ledger.inbox import Registered
from headgate.ledger.pace import Pace
from headgate.model.pipeline import Pipeline
from headgate.pg import Database
from headgate.pipeline import Path
from headgate.stores import open_store

from .tuning import Tuning


def check_sources(pipelines: Sequence[Pipeline]) -> None:
    """Raise `UsageError` when a source cannot work as declared."""
    for pipeline in pipelines:
        for source in pipeline.sources:
            source.check()


def environment() -> dict[str, str]:
    """What pipelines run on, as their runs will tell."""
    return {"headgate": __version__, "python": platform.python_version()}


async def register(db: Database, pipeline: Pipeline) -> Registered:
    """Make a pipeline known as it is declared now."""
    return await inbox.register(
        db,
        name=pipeline.name,
        store=open_store(pipeline.store).uri,
        version=pipeline.version,
        code=pipeline.code_digest(),
        params=pipeline.params_digest,
        declared={**pipeline.declared(), "environment": environment()},
        pace=Pace(pipeline.per_partition, pipeline.coalesce_seconds, pipeline.retries_per_second),
        partition=pipeline.partition_of,
        event_time=pipeline.event_time,
        streams=pipeline.streams,
    )


async def paths(db: Database, pipelines: Sequence[Pipeline], tuning: Tuning) -> list[Path]:
    """The path of each pipeline, ready to work."""
    opened: list[Path] = []
    for pipeline in pipelines:
        at = await register(db, pipeline)
        store = open_store(pipeline.store, tuning.local)
        path = Path(pipeline, db, at, store, apply_seconds=tuning.apply_seconds)
        await path.open()
        opened.append(path)
    return opened
