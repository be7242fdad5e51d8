"""kill -9 in the middle of a revert: it happens once, and nobody can tell."""

from __future__ import annotations

import asyncio

import pytest
from tests.promises.processes import Place

from headgate.ledger import revert
from headgate.model.entry import Point
from headgate.pg import Database
from headgate.runtime import inline
from headgate.runtime.load import load
from headgate.runtime.tuning import Tuning

PIPELINE = """
from typing import TypedDict

import headgate as hg

load = hg.Pipeline(
    "load",
    sources=[hg.Directory("incoming", settle=0, every=0.05)],
    store="lake",
    retry=hg.RetryPlan("upstream-event", 3, 3600, 0.01, 0.02, "full"),
)


class Reading(TypedDict):
    text: str


@load.rows("reading", key="text", schema=Reading)
def readings(obj):
    yield {"text": obj.text()}


@load.transform
def shout(obj):
    return {"shout.txt": obj.text().upper().encode()}


def minus(tx, obj):
    tx.execute("INSERT INTO applied VALUES ($1)", "-" + obj.text())


@load.apply(undo=minus)
def plus(tx, obj):
    tx.execute("INSERT INTO applied VALUES ($1)", "+" + obj.text())
"""

POINTS = [
    Point.FETCHED, Point.TOUCHED, Point.EFFECTS, Point.BEFORE_FINALIZE, Point.AFTER_FINALIZE,
]  # fmt: skip


def test_a_worker_killed_anywhere_in_a_revert_leaves_one_revert(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back and forth, a kill at another point each time: every revert has happened once."""
    (place.folder / "load.py").write_text(PIPELINE)
    monkeypatch.chdir(place.folder)
    for text in ("one", "two"):
        place.put("a", text=text)
        _publish(place)
    applied = ["+one of a", "-one of a", "+two of a"]
    for n, point in enumerate(POINTS):
        _revert(place)
        up = place.up(crash_at=point)
        up.ends()
        assert up.died_children() == ["work"], up.said()
        now, before = ("one", "two") if n % 2 == 0 else ("two", "one")
        applied += [f"-{before} of a", f"+{now} of a"]
        assert place.query("SELECT text FROM reading") == [(f"{now} of a",)], point
        assert [a for (a,) in place.query("SELECT name FROM applied")] == applied, point
    ((versions, heads),) = place.query(
        "SELECT max(version), count(*) FILTER (WHERE successor IS NULL) FROM headgate.publication"
    )
    assert (versions, heads) == (2 + len(POINTS), 1)
    place.verifies()


def _publish(place: Place) -> None:
    async def run() -> None:
        async with await Database.open(place.url) as db:
            await inline.run(db, load("load.py"), Tuning(), until_idle=True)

    asyncio.run(run())


def _revert(place: Place) -> None:
    async def ask() -> None:
        async with await Database.open(place.url) as db:
            head = await db.fetchval(
                "SELECT entry FROM headgate.publication WHERE successor IS NULL"
            )
            await revert.ask(db, head, because="it was wrong")

    asyncio.run(ask())
