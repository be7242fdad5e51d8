"""A clock that stands still until it is told otherwise."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta


class Clock:
    """`now` for a schedule, and a `sleep` that is over at once and moves the clock."""

    def __init__(self, at: str = "2026-01-05T00:00:00", *, runs: bool = False) -> None:
        self.at = datetime.fromisoformat(at).replace(tzinfo=UTC)
        self.runs = runs
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self.at

    def pass_by(self, **passed: float) -> None:
        self.at += timedelta(**passed)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self.runs:
            self.pass_by(seconds=seconds)
        await asyncio.sleep(0)
