"""kill -9 in the middle of a replay: it goes on, nothing happens twice, and nobody can tell."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest
from tests.pg.processes import eventually
from tests.promises.processes import Place

from headgate.ledger import replay
from headgate.ledger.replay import Wanted
from headgate.model.entry import Point
from headgate.pg import Database
from headgate.runtime.load import load
from headgate.runtime.replays import pins_of

PIPELINE = """
import time
from typing import TypedDict

import headgate as hg

load = hg.Pipeline(
    "load",
    sources=[hg.Directory("incoming", settle=0, every=0.05)],
    store="lake",
    retry=hg.RetryPlan("upstream-event", 3, 3600, 0.01, 0.02, "full"),
)


class Reading(TypedDict):
    name: str
    text: str
    seed: int


@load.rows("reading", key="name", schema=Reading)
def readings(obj, run):
    yield {"name": obj.name, "text": obj.text(), "seed": run.seed}


@load.transform
def shout(obj):
    return {"shout.txt": obj.text().upper().encode()}


def minus(tx, obj):
    tx.execute("INSERT INTO applied VALUES ($1)", "-" + obj.name)


@load.apply(undo=minus)
def plus(tx, obj):
    tx.execute("INSERT INTO applied VALUES ($1)", "+" + obj.name)
"""

POINTS = [
    Point.BEFORE_RECEIVE, Point.AFTER_RECEIVE, Point.FETCHED, Point.EFFECTS,
    Point.BEFORE_FINALIZE, Point.AFTER_FINALIZE,
]  # fmt: skip
NAMES = [f"f{n}" for n in range(6)]


def _ask(place: Place) -> None:
    sys.modules.pop("load", None)
    here = os.getcwd()
    os.chdir(place.folder)
    try:
        (declared,) = load("load.py")
        pins = pins_of(declared)
    finally:
        os.chdir(here)

    async def ask() -> None:
        async with await Database.open(place.url) as db:
            await replay.ask(db, Wanted("load", "publish", pins, {}, because="again"))

    asyncio.run(ask())


@pytest.mark.timeout(240)  # seven times `up`, one of them killed each
def test_a_worker_killed_anywhere_in_a_replay_leaves_one_replay(place: Place) -> None:
    """While it admits, while it handles, while it commits: each object is replayed once."""
    (place.folder / "load.py").write_text(PIPELINE)
    place.put(*NAMES)
    place.run()
    before = sorted(place.query("SELECT name, text, seed FROM reading"))
    for n, point in enumerate(POINTS, 1):
        _ask(place)
        up = place.up(crash_at=point)
        up.ends()
        assert up.died_children() == ["work"], up.said()
        assert sorted(place.query("SELECT name, text, seed FROM reading")) == before, point
        ((sums, least, most),) = place.query(
            "SELECT sum(CASE WHEN name LIKE '+%' THEN 1 ELSE -1 END)::int,"
            " (SELECT min(version) FROM headgate.publication WHERE successor IS NULL),"
            " (SELECT max(version) FROM headgate.publication) FROM applied"
        )
        assert (sums, least, most) == (len(NAMES), n + 1, n + 1), point
    assert place.query("SELECT DISTINCT state FROM headgate.replay") == [("done",)]
    place.verifies()


def test_a_verification_that_is_killed_goes_on_where_it_was(place: Place) -> None:
    """The same command once more finishes it; it is one replay, with every input in it once."""
    (place.folder / "load.py").write_text(PIPELINE)
    place.put(*(f"f{n}" for n in range(160)))
    place.run()
    command = [sys.executable, "-m", "headgate", "replay", "load.py", "--verify", "--json"]
    settings = {"env": {**os.environ, "HEADGATE_DATABASE_URL": place.url}, "cwd": place.folder}
    with subprocess.Popen(
        command, **settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as killed:
        eventually(lambda: place.query("SELECT FROM headgate.replay WHERE done > 0") != [])
        killed.send_signal(signal.SIGKILL)
    ((done,),) = place.query("SELECT done FROM headgate.replay")
    assert 0 < done < 160
    ended = subprocess.run(command, **settings, capture_output=True, text=True, check=True)
    report = json.loads(ended.stdout)["report"]
    assert (report["ok"], report["inputs"], report["same"]) == (True, 160, 160)
    assert place.query("SELECT done, state FROM headgate.replay") == [(160, "done")]
    place.verifies()
