"""Labels: which pipeline a thing belongs to, and whether what it publishes is public."""

from __future__ import annotations

from collections.abc import Collection

from headgate.pg import Database, Link, queries

Q = queries.load(__file__)


async def restricted(db: Database | Link) -> frozenset[str]:
    """The pipelines whose data is not public, as they declared it last."""
    return frozenset(row["name"] for row in await db.fetch(Q.restricted))


async def names(db: Database | Link) -> list[str]:
    """Every pipeline that the ledger knows."""
    return [row["name"] for row in await db.fetch(Q.names)]


async def of_entries(db: Database | Link, entries: Collection[int]) -> dict[int, str]:
    """The pipeline of each of these entries; one that nobody knows is left out."""
    rows = await db.fetch(Q.of_entries, sorted(set(entries)))
    return {row["entry"]: row["pipeline"] for row in rows}


async def of_replay(db: Database | Link, id: int) -> str | None:
    """The pipeline of a replay; None when there is no such replay."""
    return await db.fetchval(Q.of_replay, id)


async def of_redrive(db: Database | Link, id: int) -> list[str]:
    """The pipelines of a redrive; none when there is no such redrive."""
    return [row["name"] for row in await db.fetch(Q.of_redrive, id)]


async def is_pipeline(db: Database | Link, name: str) -> bool:
    """Does the ledger know a pipeline of this name?"""
    return await db.fetchval(Q.is_pipeline, name)
