"""kill -9, anywhere: the next process finishes, and nobody can tell."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter

import pytest
from tests.promises.processes import Place, Up

from headgate.ledger import object as objects
from headgate.model.entry import Point
from headgate.pg import Database
from headgate.stores import FileStore

GOOD = [*(f"plain-{n}" for n in range(8)), "call-1", "fail_once-1"]
TUNING = {"grace_seconds": 0.3, "anchor_seconds": 0.2}

# Who is at each point; everything else is reached by a worker.
WATCHER = {Point.BEFORE_RECEIVE, Point.AFTER_RECEIVE}
SUPERVISOR = {
    Point.BEFORE_BURY, Point.AFTER_BURY, Point.BEFORE_CONDEMN, Point.AFTER_CONDEMN,
    Point.COLLECTED, Point.ANCHORED,
}  # fmt: skip
OPERATOR = {Point.BEFORE_RELEASE, Point.AFTER_RELEASE}
FAILING = {Point.BEFORE_FAIL, Point.AFTER_FAIL}  # a commit in which nothing is finalized
# Of these tells catalog.py: what a projector writes is not an effect, but a picture of them.
PROJECTOR = {Point.PROJECTED, Point.BEFORE_PROJECT, Point.AFTER_PROJECT}
# With a dataset, what a catalog says is part of these: it agrees with what is published, always.
COMMIT = {
    Point.STAGED, Point.EFFECTS, Point.PROMOTED, Point.BEFORE_FINALIZE, Point.AFTER_FINALIZE,
}  # fmt: skip
CHILDREN = [p for p in Point if p not in SUPERVISOR | OPERATOR | PROJECTOR]


@pytest.mark.parametrize("point", CHILDREN)
def test_a_child_killed_at_any_point_leaves_one_effect(place: Place, point: Point) -> None:
    """A worker or watcher dies right there. The next one finishes, and nobody can tell."""
    good = ["fail_once-1"] if point in FAILING else GOOD
    if point in COMMIT:
        place.declare(dataset="load")
    place.put(*good)
    place.put("poison-1", text="poison")
    up = place.up(crash_at=point, tuning=TUNING)
    up.ends()
    assert up.died_children() == ["watch" if point in WATCHER else "work"], up.said()
    _is_whole(place, good)


@pytest.mark.parametrize("point", ["handled#3", "before:finalize#2"])
def test_a_worker_killed_among_many_leaves_one_effect(place: Place, point: str) -> None:
    """Some entries are settled, some are at work, some are untouched: each has one effect."""
    place.put(*GOOD)
    place.put("poison-1", text="poison")
    up = place.up(crash_at=point, tuning=TUNING)
    up.ends()
    assert up.died_children() == ["work"], up.said()
    _is_whole(place, GOOD)


@pytest.mark.parametrize("point", sorted(SUPERVISOR))
def test_a_supervisor_killed_at_any_point_leaves_one_effect(place: Place, point: Point) -> None:
    """The process without user code dies while it tidies up; the next `up` goes on from there."""
    place.put(*GOOD, "kill_once-1")
    place.put("poison-1", text="poison")
    forgotten = _stage_and_forget(place)
    _die(place.up(die_at=point, tuning=TUNING))
    place.run(tuning=TUNING)
    _is_whole(place, [*GOOD, "kill_once-1"])
    assert not FileStore(place.lake).has(forgotten)


@pytest.mark.parametrize("point", sorted(OPERATOR))
def test_a_release_killed_on_either_side_of_its_commit_is_whole(place: Place, point: Point) -> None:
    """An operator's command dies: asked again, the entry runs once, with its reason on record."""
    place.put(*GOOD)
    place.put("poison-1", text="poison")
    place.run(tuning=TUNING)
    place.put("poison-1", text="cured")
    _die(place.up(release=True, die_at=point))
    released = point is Point.AFTER_RELEASE
    assert place.query("SELECT count(*) FROM headgate.action") == [(int(released),)]
    place.run(release=True)
    place.run(tuning=TUNING)
    assert place.query("SELECT verb, because FROM headgate.action") == [("release", "republished")]
    assert place.query("SELECT * FROM headgate.quarantine") == []
    place.is_exact([*GOOD, "poison-1"])


def test_every_point_has_its_test() -> None:
    """A step of the path that nobody kills would be a step nobody knows about."""
    assert {*CHILDREN, *SUPERVISOR, *OPERATOR, *PROJECTOR} == set(Point)


def _die(up: Up) -> None:
    up.wait()
    assert up.process.returncode == -9, up.said()


def _is_whole(place: Place, good: list[str]) -> None:
    """Every file has its one effect, the poison its reason; what the dead left behind goes."""
    place.is_exact(good)
    ((aside, attempts),) = place.query("SELECT class, attempts FROM headgate.quarantine")
    assert aside == "schema"
    assert attempts <= 2, "it may have been at work when the worker died"
    rung = Counter(place.noted("rung"))
    assert len(rung) == ("call-1" in good), "a repeated call has the key of the first"
    place.sweep()
    assert place.spools() == []
    assert place.query("SELECT * FROM headgate.object WHERE state <> 'kept'") == []
    place.verifies()


def _stage_and_forget(place: Place) -> bytes:
    """Bytes that were staged long ago by someone who never came back."""
    store = FileStore(place.lake)
    spool = store.spool()
    spool.write(b"forgotten")
    store.keep(spool)
    digest = hashlib.sha256(b"forgotten").digest()

    async def touch() -> None:
        async with await Database.open(place.url) as db:
            number = await db.fetchval(
                "INSERT INTO headgate.store (uri) VALUES ($1) RETURNING id", store.uri
            )
            await objects.touch(db, number, {digest: 9})
            await db.execute("UPDATE headgate.object SET touched_at = now() - interval '1 day'")

    asyncio.run(touch())
    return digest
