"""Times as Postgres sends them are the times that were meant, before 2000 as well."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from tests.world import World

from headgate.pg.instant import as_sent, instant

TIMES = [
    datetime(2026, 11, 19, 12, 34, 56, 789012, UTC),
    datetime(2000, 1, 1, tzinfo=UTC),
    datetime(1999, 12, 31, 23, 59, 59, 999999, UTC),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
    datetime(2024, 2, 29, 1, 2, 3, 4, timezone(timedelta(hours=5, minutes=45))),
]


@pytest.mark.parametrize("at", TIMES, ids=str)
async def test_a_time_is_read_and_said_as_postgres_does(world: World, at: datetime) -> None:
    sent = await world.db.fetchval("SELECT timestamptz_send($1)", at)
    assert as_sent(at) == sent
    assert instant(sent) == at
