"""Setting up: pipelines made known to the ledger, their stores opened, their sources checked."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headgate._version import __version__
from headgate.ledger import inbox
from headgate.ledger.inbox import Registered
from headgate.ledger.pace import Pace
from headgate.model.lookup import Lookup
from headgate.model.pipeline import Pipeline
from headgate.pg import Database
from headgate.pipeline import Path
from headgate.stores import open_store

from . import lookups
from .tuning import Tuning


def check_sources(pipelines: Sequence[Pipeline]) -> None:
    """Raise `UsageError` when a source cannot work as declared."""
    for pipeline in pipelines:
        for source in pipeline.sources:
            source.check()


def environment() -> dict[str, str]:
    """What pipelines run on, as their runs will tell."""
    return {"headgate": __version__, "python": platform.python_version()}


def declaration(pipeline: Pipeline, found: Mapping[str, Lookup]) -> dict[str, Any]:
    """What the ledger keeps of a pipeline, with the lookups that were found."""
    kept = {n: {"digest": one.digest, "size": one.size} for n, one in found.items()}
    named = {"lookups": kept} if kept else {}
    return {**pipeline.declared(), **named, "environment": environment()}


async def register(db: Database, pipeline: Pipeline) -> Registered:
    """Make a pipeline known as it is declared now, with its lookups as they are now."""
    store = open_store(pipeline.store)
    found: Mapping[str, Lookup] = {}
    if pipeline.lookups:
        found = await asyncio.to_thread(lookups.keep, pipeline.lookups, store)
    at = await inbox.register(
        db,
        name=pipeline.name,
        store=store.uri,
        version=pipeline.version,
        code=pipeline.code_digest(),
        params=pipeline.params_digest,
        declared=declaration(pipeline, found),
        pace=Pace(pipeline.per_partition, pipeline.coalesce_seconds, pipeline.retries_per_second),
        partition=pipeline.partition_of,
        event_time=pipeline.event_time,
        streams=pipeline.streams,
        several=len(pipeline.sources) > 1,
    )
    return replace(at, lookups=found) if found else at


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
