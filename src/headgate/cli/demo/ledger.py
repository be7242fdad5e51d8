"""What the demo reads from the ledger, and the commands it runs as a user would."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass, fields
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.errors import HeadgateError

if TYPE_CHECKING:
    from headgate.pg import Database

# Attempts that ended without an end: a kill cut them off, and the file was begun again.
RETRIED = """
SELECT count(DISTINCT entry) FROM headgate.journal WHERE outcome IN ('received', 'waiting')"""
DOUBLE = """
SELECT count(*) FROM (SELECT entry FROM headgate.journal WHERE outcome = 'finalized'
                      GROUP BY entry HAVING count(*) > 1) AS twice"""


@dataclass(frozen=True, slots=True)
class Counts:
    """What the ledger has seen, as far as the demo tells about it."""

    received: int
    entries: int
    duplicates: int
    unchanged: int
    published: int
    retried: int
    quarantined: int
    double_applied: int

    def since(self, before: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) - getattr(before, f.name) for f in fields(self)))


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of the demo ended."""

    seen: Counts
    truth: Decimal
    naive_error: Decimal
    headgate_error: Decimal
    verified: bool

    @property
    def well(self) -> bool:
        return self.verified and not self.headgate_error and not self.seen.double_applied

    def line(self, seconds: float) -> str:
        """The one line for programs."""
        seen = self.seen
        return json.dumps(
            {
                "deliveries": seen.received,
                "new": seen.entries - seen.unchanged,
                "duplicates": seen.duplicates,
                "unchanged": seen.unchanged,
                "published": seen.published,
                "retried": seen.retried,
                "quarantined": seen.quarantined,
                "double_applied": seen.double_applied,
                "truth": float(self.truth),
                "naive_error": float(self.naive_error),
                "headgate_error": float(self.headgate_error),
                "seconds": round(seconds, 1),
            }
        )


async def counts(db: Database) -> Counts:
    """Ask the ledger."""
    from headgate.ledger import history

    seen = (await history.overview(db)).pipelines
    return Counts(
        received=sum(p.received for p in seen),
        entries=sum(p.entries for p in seen),
        duplicates=sum(p.duplicates for p in seen),
        unchanged=sum(p.skipped.get("unchanged", 0) for p in seen),
        published=sum(p.finalized for p in seen),
        retried=await db.fetchval(RETRIED),
        quarantined=sum(p.quarantined for p in seen),
        double_applied=await db.fetchval(DOUBLE),
    )


async def total(db: Database) -> Decimal:
    """The sum in Headgate's table."""
    return await db.fetchval("SELECT coalesce(sum(mm), 0) FROM reading")


def environment() -> dict[str, str]:
    """Ours, without what would lead a command to another ledger or colour its answer."""
    others = ("HEADGATE_", "PG", "COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE")
    return {name: value for name, value in os.environ.items() if not name.startswith(others)}


async def headgate(folder: Path, *args: str, accept: tuple[int, ...] = (0,)) -> tuple[int, str]:
    """Run a command in the folder; its exit code and what it printed."""
    # Nothing of it is left behind when we are interrupted: a short command ends by itself.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "headgate", *args, cwd=folder, env=environment(),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    if process.returncode not in accept:
        raise HeadgateError(f"headgate {' '.join(args)}: {err.decode().strip()}")
    return process.returncode or 0, out.decode()
