"""A schedule tells each of its periods once, whatever clocks do."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.sources.clock import Clock

import headgate as hg
from headgate.errors import PipelineError
from headgate.model.cron import Cron
from headgate.model.ports import Advance, Followed
from headgate.model.verdict import CRON, plan_of
from headgate.testing.followed import known_by
from headgate.testing.sources import FollowedConformance, FollowedWorld


class Hours:
    """An hourly schedule and its clock."""

    def __init__(self) -> None:
        self._clock = Clock("2026-01-05T00:10:00")
        self.source = hg.Schedule("0 * * * *", now=self._clock.now, sleep=self._clock.sleep)

    def happen(self, times: int) -> None:
        self._clock.pass_by(hours=times)

    def outage(self) -> None:
        return None


class TestSchedule(FollowedConformance):
    @pytest.fixture
    def world(self) -> FollowedWorld:
        return Hours()


def schedule(clock: Clock, cron: str = "0 * * * *", **declared: Any) -> hg.Schedule:
    return hg.Schedule(cron, now=clock.now, sleep=clock.sleep, **declared)


def follow(source: Followed, checkpoint: str | None, *, naps: int = 0) -> list[Advance]:
    """What is told until the source has nothing to tell, after so many naps."""

    async def go() -> list[Advance]:
        told: list[Advance] = []
        left = naps
        async with asyncio.timeout(20), aclosing(source.follow(checkpoint)) as telling:
            async for advance in telling:
                if advance is not None:
                    told.append(advance)
                elif left == 0:
                    break
                else:
                    left -= 1
        return told

    return asyncio.run(go())


def periods(advances: list[Advance]) -> list[str]:
    """The periods that run, by their uris."""
    return [
        one.uri.rpartition("/")[2]
        for advance in advances
        for one in advance.told
        if isinstance(one, hg.Envelope)
    ]


def dues(cron: str, zone: str, after: str, until: str) -> list[str]:
    """When it is due between two instants, in the words of its zone."""
    begin, end = (datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (after, until))
    found, all_of_them = Cron(cron, zone).between(begin, end, 1000)
    assert all_of_them
    return [due.isoformat() for due in found]


# What is due


def test_a_time_that_does_not_exist_is_due_when_the_clock_has_jumped() -> None:
    """Daily at 02:30: on the day without 02:30 it is 03:00, and no day is left out."""
    assert dues("30 2 * * *", "Europe/Vienna", "2026-03-28T00:00", "2026-03-30T12:00") == [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]


def test_a_time_that_comes_twice_is_due_once() -> None:
    """Daily at 02:30: on the day with two of them it is the first, whenever one asks."""
    days = ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]
    assert dues("30 2 * * *", "Europe/Vienna", "2026-10-24T12:00", "2026-10-26T12:00") == days
    # Asked in the second round, when the wall clock shows 02:10 again.
    assert dues("30 2 * * *", "Europe/Vienna", "2026-10-25T01:10", "2026-10-26T12:00") == days[1:]


def test_an_hourly_schedule_goes_by_real_time() -> None:
    """The missing hour has no period; the repeated one has two, with names of their own."""
    spring = dues("0 * * * *", "Europe/Vienna", "2026-03-28T23:59", "2026-03-29T02:00")
    assert [due[11:] for due in spring] == ["01:00:00+01:00", "03:00:00+02:00", "04:00:00+02:00"]
    autumn = dues("0 * * * *", "Europe/Vienna", "2026-10-24T23:59", "2026-10-25T02:00")
    assert [due[11:] for due in autumn] == ["02:00:00+02:00", "02:00:00+01:00", "03:00:00+01:00"]


def test_a_midnight_that_does_not_exist_is_due_all_the_same() -> None:
    """In Cairo the clock jumps at midnight, so that day begins at one."""
    assert dues("0 0 * * *", "Africa/Cairo", "2026-04-22T22:30", "2026-04-24T12:00") == [
        "2026-04-24T01:00:00+03:00"
    ]
    assert dues("0 */12 24 4 *", "Africa/Cairo", "2026-04-22T22:30", "2026-04-24T12:00") == [
        "2026-04-24T01:00:00+03:00",
        "2026-04-24T12:00:00+03:00",
    ]


@pytest.mark.parametrize(
    ("zone", "changes"),
    [
        ("Europe/Vienna", ("2026-03-29", "2026-10-25")),
        ("America/New_York", ("2026-03-08", "2026-11-01")),
        ("Australia/Lord_Howe", ("2026-04-05", "2026-10-04")),  # by half an hour
    ],
)
@pytest.mark.parametrize("cron", ["30 2 * * *", "*/20 * * * *", "15 1-3 * * *", "45 0,1 * * SUN"])
def test_asked_in_pieces_the_periods_are_the_same(
    zone: str, changes: tuple[str, str], cron: str
) -> None:
    """Whenever processes start and stop, together they find every period once, in order."""
    for day in changes:
        begin = datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(hours=30)
        whole, _ = Cron(cron, zone).between(begin, begin + timedelta(hours=72), 1000)
        instants = [due.astimezone(UTC) for due in whole]
        assert instants == sorted(set(instants))
        found: list[datetime] = []
        for n in range(120):
            at = begin + timedelta(minutes=36 * n)
            found += Cron(cron, zone).between(at, at + timedelta(minutes=36), 1000)[0]
        assert [due.isoformat() for due in found] == [due.isoformat() for due in whole]


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: hg.Schedule("* * * * * *"), "6 fields"),
        (lambda: hg.Schedule("@daily"), "1 fields"),
        (lambda: hg.Schedule("61 * * * *"), "Bad minute"),
        (lambda: hg.Schedule("0 0 30 2 *"), "Bad day"),
        (lambda: hg.Schedule("0 6 * * *", zone="Europe/Wien"), "no time zone 'Europe/Wien'"),
        (lambda: hg.Schedule("0 6 * * *", zone="../etc/passwd"), "no time zone"),
        (lambda: hg.Schedule("0 6 * * *", missed="some"), "missed='some'"),  # type: ignore[arg-type]
        (lambda: hg.Schedule("0 6 * * *", catch_up_limit=0), "catch_up_limit=0"),
        (lambda: hg.Schedule("0 6 * * *", name=""), "no name"),
    ],
)
def test_a_schedule_that_cannot_work_is_refused_at_once(declare: Any, said: str) -> None:
    """With what is wrong, and how to write it."""
    with pytest.raises(PipelineError) as refused:
        declare()
    assert said in str(refused.value)
    assert refused.value.hint


# What is told


def test_a_period_says_what_it_is_for() -> None:
    """Its run gets the time between the last two times it was due; the second follows the first."""
    clock = Clock("2026-03-28T12:00:00")
    source = schedule(clock, "30 2 * * *", zone="Europe/Vienna", name="nightly run")
    (start,) = follow(source, None)
    clock.pass_by(days=2)
    (advance,) = follow(source, start.checkpoint)
    one, two = advance.told
    assert isinstance(one, hg.Envelope)
    assert isinstance(two, hg.Envelope)
    assert json.loads(one.data or b"") == {
        "schedule": "nightly run",
        "start": "2026-03-28T02:30:00+01:00",
        "end": "2026-03-29T03:00:00+02:00",
        "zone": "Europe/Vienna",
    }
    assert one.uri == "schedule://nightly%20run/2026-03-29T03:00:00+02:00"
    assert one.event_time == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert json.loads(two.data or b"")["start"] == "2026-03-29T03:00:00+02:00"
    assert one.subject == two.subject == "schedule://nightly%20run"
    assert plan_of(one.detector) is CRON


def test_a_period_has_the_same_key_whenever_it_is_told() -> None:
    """One process tells it at once, another minutes later: the ledger knows it by its name."""
    clock = Clock("2026-01-05T05:30:00")
    source = schedule(clock)
    (start,) = follow(source, None)
    clock.pass_by(minutes=31)
    prompt = follow(source, start.checkpoint)
    clock.pass_by(minutes=7)
    assert known_by(follow(source, start.checkpoint)) == known_by(prompt)


def test_a_first_start_runs_nothing() -> None:
    """There is no past to catch up with; the mark is where the clock stands."""
    (start,) = follow(schedule(Clock("2026-01-05T08:30:00")), None)
    assert (start.told, start.checkpoint) == ([], "2026-01-05T08:30:00+00:00")


@pytest.mark.parametrize(
    ("missed", "run"),
    [
        ("all", ["06", "07", "08", "09"]),
        ("last", ["09"]),
        ("skip", []),
    ],
)
def test_missed_periods_run_by_policy(missed: str, run: list[str]) -> None:
    """Away from 05:30 to 09:20: all of them, only the last, or none; then it goes on as ever."""
    clock = Clock("2026-01-05T05:30:00")
    source = schedule(clock, missed=missed)
    (start,) = follow(source, None)
    clock.pass_by(hours=3, minutes=50)
    (back,) = follow(source, start.checkpoint)
    assert [period[11:13] for period in periods([back])] == run
    assert back.checkpoint == "2026-01-05T09:00:00+00:00"
    clock.pass_by(minutes=40, seconds=1)
    assert [period[11:13] for period in periods(follow(source, back.checkpoint))] == ["10"]


def test_a_short_absence_is_not_a_missed_period() -> None:
    """A restart over the full hour costs nothing, even where missed periods are skipped."""
    clock = Clock("2026-01-05T05:59:40")
    source = schedule(clock, missed="skip", grace="1m")
    (start,) = follow(source, None)
    clock.pass_by(seconds=60)
    assert len(periods(follow(source, start.checkpoint))) == 1


def test_catching_up_has_a_limit(caplog: pytest.LogCaptureFixture) -> None:
    """After ten years of minutes the newest few run, at once, and it is said that others do not."""
    clock = Clock("2016-01-01T00:00:30")
    source = schedule(clock, "* * * * *", catch_up_limit=3)
    (start,) = follow(source, None)
    clock.at = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)
    (back,) = follow(source, start.checkpoint)
    assert [period[:16] for period in periods([back])] == [
        "2025-12-31T23:58",
        "2025-12-31T23:59",
        "2026-01-01T00:00",
    ]
    assert "more than" in caplog.text
    assert "catch_up_limit=3" in caplog.text


def test_a_long_wait_looks_at_the_clock_now_and_then() -> None:
    """A yearly schedule sleeps a minute at most, so a clock that is set is noticed."""
    clock = Clock("2026-01-05T00:00:00", runs=True)
    assert periods(follow(schedule(clock, "0 0 1 1 *"), None, naps=500)) == []
    assert clock.slept == [60.0] * 500


def test_a_period_is_told_when_it_has_ended_and_not_before() -> None:
    """The last nap is as long as is left, and one that ends early is followed by another."""
    clock = Clock("2026-01-05T05:59:30", runs=True)
    source = schedule(clock)
    told = follow(source, None, naps=1)
    assert clock.slept == [30.0]
    assert periods(told) == ["2026-01-05T06:00:00+00:00"]


def test_a_clock_that_goes_back_a_little_tells_nothing_twice() -> None:
    """The hour that was told is not told again."""
    clock = Clock("2026-01-05T05:59:30")
    source = schedule(clock)
    (start,) = follow(source, None)
    clock.pass_by(minutes=1)
    (told,) = follow(source, start.checkpoint)
    clock.pass_by(minutes=-20)
    assert follow(source, told.checkpoint) == []
    clock.pass_by(minutes=80)
    assert periods(follow(source, told.checkpoint)) == ["2026-01-05T07:00:00+00:00"]


def test_a_clock_that_was_years_ahead_does_not_silence_the_schedule(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its mark is far ahead of the clock once that is right again: it goes on from now."""
    clock = Clock("2026-01-05T05:30:00")
    source = schedule(clock)
    (reset,) = follow(source, "2036-01-01T00:00:00+00:00")
    assert (reset.told, reset.checkpoint) == ([], "2026-01-05T05:30:00+00:00")
    assert "ahead of the clock" in caplog.text
    clock.pass_by(hours=1)
    assert periods(follow(source, reset.checkpoint)) == ["2026-01-05T06:00:00+00:00"]


def test_a_mark_of_another_source_is_named() -> None:
    """A stream had this name before: its mark is no time."""
    with pytest.raises(PipelineError, match="'17', which is no time"):
        follow(schedule(Clock()), "17")


def test_a_schedule_says_when_it_is_due_next() -> None:
    """For whoever asks what will happen."""
    source = schedule(Clock("2026-03-28T12:00:00"), "0 6 * * *", zone="Europe/Vienna")
    assert source.describe() == {
        "cron": "0 6 * * *",
        "zone": "Europe/Vienna",
        "missed": "all",
        "next": "2026-03-29T06:00:00+02:00",
    }
    assert str(source.cron) == "0 6 * * * Europe/Vienna"
