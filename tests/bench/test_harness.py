"""The benchmark measures what it says, and a run that loses or repeats something does not count."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
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

from bench import beside, clock, gate, latency, lists, quick, readers, stac_search, telemetry
from headgate.runtime.loop import run

N = 300
AGAIN_ROW = "UPDATE effects SET etype = etype WHERE key = 'a-0000000'"
AGAIN_SQL = "UPDATE effects SET count = count + 1 WHERE key = 'a-0000000'"


@pytest.fixture
def place(worlds_server: str, tmp_path: Path) -> Iterator[Place]:
    place = Place(worlds_server, tmp_path)
    yield place
    run(place.drop)


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
    assert run(lambda: gate.effects(url, kind, gate.everything(N))) == Count(0, 1)


def test_everything_that_can_be_shown_is_shown_while_it_is_measured(place: Place) -> None:
    """The collector was told, nothing was dropped, and every event has its effect once."""
    (told,) = telemetry.cost(place, 1, N)
    assert (told.workload, told.is_valid, told.events) == ("telemetry", True, N)
    assert told.ratio > 0


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
    assert min(taken) > 0 or clock.is_coarse()


def rounds(*ratios: Mapping[str, float]) -> quick.Measure:
    """A measure that gives these ratios, round after round."""
    left = iter(ratios)

    def measure(names: Sequence[str]) -> list[Row]:
        now = next(left)
        return [row(name, now[name]) for name in names]

    return measure


def test_a_ratio_below_its_guard_twice_fails_with_its_margin(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Who reads CI's last lines knows what became slower, and by how much."""
    half = {name: guard if name != "rows" else guard / 2 for name, guard in GUARDS.items()}
    assert quick.hold(rounds(half, half), lambda: None) == 1
    said = capsys.readouterr().out
    assert f"rows: {GUARDS['rows'] / 2:.3f} of the bare loop, -50%" in said
    assert f"{GUARDS['rows']:.3f}" in said
    assert "apply" not in said


def test_a_ratio_that_recovers_passes() -> None:
    """One busy moment of the machine fails nobody."""
    low = {name: guard / 2 for name, guard in GUARDS.items()}
    assert quick.hold(rounds(low, GUARDS), lambda: None) == 0


def test_a_machine_that_is_too_busy_is_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    low = {name: guard / 2 for name, guard in GUARDS.items()}
    assert quick.hold(rounds(low), lambda: "it is busy") == 0
    assert "not judged" in capsys.readouterr().out


def test_a_clock_that_stands_still_between_ticks_is_noticed() -> None:
    """Its steps are as long as what would be measured, forwards or backwards."""
    ticks = iter([0.0] * 3 + [0.02] * 2 + [0.016] * 2 + [n * 0.02 for n in range(3, 40)])
    assert clock.step(lambda: next(ticks)) == pytest.approx(0.004)
    assert clock.step(lambda: next(ticks)) > clock.COARSE_SECONDS
    fine = iter(n * 1e-6 for n in range(100))
    assert clock.step(lambda: next(fine)) < clock.COARSE_SECONDS


def test_a_quick_run_that_lost_something_fails_however_busy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert quick.hold(lambda names: [row("rows", 1.0, lost=3)], lambda: "it is busy") == 1
    assert "3 events lost" in capsys.readouterr().out


def test_every_floor_and_guard_belongs_to_something_that_is_measured() -> None:
    assert FLOORS.keys() <= BESIDE.keys() | APART.keys()
    assert CEILINGS.keys() <= FIGURES.keys()
    assert all(GUARDS[name] <= FLOORS[name] for name in GUARDS)


def test_searches_are_measured_over_items_that_are_found(place: Place) -> None:
    """Rows written by SQL are items like any other: the server shows them."""
    told = {f.name: f.value for f in stac_search.figures(place, items=300, questions=20)}
    assert 0 < told["stac_search_p50"] <= told["stac_search_p95"]


def test_lists_are_measured_over_entries_that_are_shown(place: Place) -> None:
    """A ledger that was written by SQL is one that the API can show, whatever is asked for."""
    told = {f.name: f.value for f in lists.figures(place, entries=3000, questions=60)}
    assert 0 < told["api_lists_p50"] <= told["api_lists_p95"]


def test_readers_see_everything_while_they_are_measured(place: Place) -> None:
    """Each reader sees each change once and in order; the bench would say so if not."""
    told = {f.name: f.value for f in readers.delay(place, 60, many=5)}
    assert 0 < told["readers_delay_p50"] <= told["readers_delay_p95"]
