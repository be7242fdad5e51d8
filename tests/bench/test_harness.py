"""The benchmark measures what it says, and a run that loses or repeats something does not count."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import asyncpg
import pytest
from bench.floors import CEILINGS, FLOORS, GUARDS
from bench.job import Count, count, events, ids
from bench.pipelines import Kind
from bench.result import Row
from bench.server import Place
from bench.words import FIGURES
from bench.workloads import APART, BESIDE

from bench import beside, gate, latency, quick
from headgate.runtime.loop import run

N = 300
AGAIN_ROW = "UPDATE effects SET etype = etype WHERE key = 'a-0000000'"
AGAIN_SQL = "UPDATE effects SET count = count + 1 WHERE key = 'a-0000000'"


@pytest.fixture
def place(worlds_server: str, tmp_path: Path) -> Place:
    return Place(worlds_server, tmp_path)


async def _execute(url: str, sql: str) -> None:
    link = await asyncpg.connect(url)
    await link.execute(sql)
    await link.close()


def row(workload: str, ratio: float, lost: int = 0, double: int = 0) -> Row:
    return Row("headgate", workload, 1000.0, ratio, lost, double, N, 3, ratio, ratio, "")


def test_the_job_stays_the_same() -> None:
    """Figures of two releases can be compared: both did exactly this."""
    told = json.dumps([event.body() for event in events(1000)])
    assert hashlib.sha256(told.encode()).hexdigest().startswith("1df5e0fa64cc6436f93feb74")
    assert len(ids(events(1000))) == 769


def test_what_is_missing_is_lost_and_what_is_there_twice_or_unasked_is_double() -> None:
    assert count({"a", "b"}, [("a", 1), ("b", 1)]) == Count(0, 0)
    assert count({"a", "b"}, [("a", 1)]) == Count(1, 0)
    assert count({"a", "b"}, [("a", 2), ("b", 1)]) == Count(0, 1)
    assert count({"a"}, [("a", 1), ("b", 1)]) == Count(0, 1)


def test_the_bare_loop_does_the_job(place: Place) -> None:
    """The yardstick is held to the same count as everybody."""
    assert beside.yardstick(place, N).count == Count(0, 0)


@pytest.mark.parametrize("kind", ["rows", "later", "apply", "poison", "independent"])
def test_headgate_does_the_job_and_a_second_application_would_show(
    place: Place, kind: Kind
) -> None:
    """Each way of saying the effect gives every event one, and poison keeps nobody else from it.

    An effect that were there twice would not hide behind its key.
    """
    url = run(place.fresh)
    out = gate.end_to_end(url, kind, place.folder, N)
    assert out.count == Count(0, 0)
    assert out.seconds >= out.receive_seconds > 0
    run(lambda: _execute(url, AGAIN_ROW if kind == "rows" else AGAIN_SQL))
    assert run(lambda: gate.effects(url, kind, events(N))) == Count(0, 1)


def test_receiving_alone_is_counted_in_the_ledger(place: Place) -> None:
    out = gate.receive_alone(run(place.fresh), place.folder, N)
    assert out.count == Count(0, 0)


@pytest.mark.parametrize("one_process", [False, True])
def test_latency_has_a_time_for_every_new_event(place: Place, one_process: bool) -> None:
    """None is left out because it was slow."""
    n = 60
    taken, counted = latency.measure(run(place.fresh), place.folder, n, one_process=one_process)
    told = events(n, "l")
    assert counted == Count(0, 0)
    assert len(taken) == len(ids(told) - ids(told[: latency.WARM_UP]))
    assert min(taken) > 0


def test_a_ratio_below_its_guard_is_named_with_its_margin() -> None:
    """Who reads CI's last lines knows what became slower, and by how much."""
    guard = GUARDS["rows"]
    assert quick.judge([row("rows", guard)]) == {}
    said = quick.judge([row("rows", guard / 2), row("apply", 1.0)])
    assert said.keys() == {"rows"}
    assert f"{guard / 2:.3f}" in said["rows"]
    assert f"{guard:.3f}" in said["rows"]
    assert "-50%" in said["rows"]


def test_a_quick_run_that_lost_something_is_not_valid() -> None:
    assert "3 events lost" in quick.judge([row("rows", 1.0, lost=3)])["rows"]


def test_every_floor_and_guard_belongs_to_something_that_is_measured() -> None:
    assert FLOORS.keys() <= BESIDE.keys() | APART.keys()
    assert CEILINGS.keys() <= FIGURES.keys()
    assert all(GUARDS[name] <= FLOORS[name] for name in GUARDS)
