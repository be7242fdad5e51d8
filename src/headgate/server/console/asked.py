"""What pages ask alike: which pipelines there are, and what a form said."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import get_args

from headgate.errors import UsageError
from headgate.ledger import pipelines as declared
from headgate.ledger.redrive import Wanted
from headgate.model.verdict import QuarantineClass
from headgate.pg import Database

from .sight import Sight


async def pipelines(db: Database, by: Sight) -> list[str]:
    """The pipelines that somebody sees, by name."""
    return [p.name for p in await declared.pipelines(db) if by.by.sees(p.name)]


def wanted(said: Mapping[str, str]) -> Wanted:
    """Which entries of the quarantine the filters of a page mean."""
    classed = said.get("class") or None
    return Wanted(
        said.get("pipeline") or None,
        classed if classed in get_args(QuarantineClass) else None,
        said.get("reason") or None,
    )


def moment(text: str) -> datetime | None:
    """A time from a form: a date, or a date and a time, in UTC unless it says otherwise."""
    if not text.strip():
        return None
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(
            f"{text[:40]!r} is no time", hint="Write 2026-03-02 or 2026-03-02T06:00:00Z."
        ) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
