"""Replays as they stand: how far, how fast, what they wait for, and what came of them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import orjson

from headgate.errors import UsageError
from headgate.model.frozen import FrozenInput, FrozenManifest
from headgate.pg import Database, Record, queries

from .replay import Mode, pins_of

Q = queries.load(__file__)

NEWEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Fate:
    """So many entries of a replay are in this status now."""

    status: str
    reason: str | None
    entries: int


@dataclass(frozen=True, slots=True)
class Standing:
    """A replay now. `report` is what a verification found so far, as `runtime/again/report.py` has
    it. `entries` is what became of those that were admitted, where it was asked for.
    """

    id: int
    pipeline: str
    mode: Mode
    state: str
    asked_at: datetime
    ended_at: datetime | None
    inputs: int
    done: int
    moved_at: datetime
    actor: str
    because: str | None
    per_second: float | None
    manifest: FrozenManifest
    report: dict[str, Any] | None
    waits: str | None = None
    entries: tuple[Fate, ...] | None = None

    @property
    def per_second_so_far(self) -> float | None:
        """How fast it went."""
        passed = (self.moved_at - self.asked_at).total_seconds()
        return self.done / passed if self.done and passed > 0 else None

    @property
    def eta_seconds(self) -> float | None:
        """How long the rest takes at that pace; None when it does not go on, or nobody knows."""
        rate = self.per_second_so_far
        return (self.inputs - self.done) / rate if rate and self.state == "running" else None

    @property
    def found(self) -> bool:
        """Did a verification find something?"""
        return self.report is not None and bool(self.report["diverged"] or self.report["impure"])

    def document(self) -> dict[str, Any]:
        """For programs."""
        told = {f.name: getattr(self, f.name) for f in fields(self)}
        pace = {"per_second_so_far": self.per_second_so_far, "eta_seconds": self.eta_seconds}
        return {**told, **pace}


async def replays(db: Database, *, limit: int, before: int | None = None) -> list[Standing]:
    """Replays, the latest first."""
    return [_standing(row) for row in await db.fetch(Q.list, before or NEWEST, limit)]


async def replay(db: Database, id: int, *, fates_upto: int | None = None) -> Standing:
    """One replay. Raises `UsageError` for a number nobody knows.

    To count what became of its entries costs as much as there are: with `fates_upto` that is left
    out where there are more.
    """
    row = await db.fetchrow(Q.one, id)
    if row is None:
        raise UsageError(f"there is no replay {id}", hint="headgate replay list")
    fates: tuple[Fate, ...] | None = None
    if fates_upto is None or row["done"] <= fates_upto:
        fates = tuple(Fate(*r) for r in await db.fetch(Q.fates, id))
    return _standing(row, await _waits(db, row), fates)


async def inputs(db: Database, id: int) -> list[FrozenInput]:
    """All that a replay is about, as its frozen manifest lists it."""
    return [
        {
            "uri": r["uri"],
            "publication": r["publication"],
            "digest": None if r["content"] is None else f"sha256:{r['content']}",
        }
        for r in await db.fetch(Q.listed, id)
    ]


async def _waits(db: Database, row: Record) -> str | None:
    """Why a replay that publishes does not go on, if that is so."""
    if row["state"] != "running" or row["mode"] != "publish" or row["done"] >= row["inputs"]:
        return None
    deployed = await db.fetchrow(Q.deployed, row["pipeline"])
    if deployed is None or pins_of(deployed).digest == row["pins"]:
        return None
    return "for the code that it pins: another is deployed now"


def _standing(
    row: Record, waits: str | None = None, fates: tuple[Fate, ...] | None = None
) -> Standing:
    manifest, report = orjson.loads(row["manifest"]), row["report"]
    found = None if report is None else orjson.loads(report)
    return Standing(*row[:12], manifest=manifest, report=found, waits=waits, entries=fates)
