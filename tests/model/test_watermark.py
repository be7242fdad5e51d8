"""Watermarks only rise, and what is late follows from what was admitted before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate as hg
from headgate.errors import PipelineError, UsageError
from headgate.model.watermark import (
    FIRST,
    Stream,
    admit,
    advance,
    by_how_much,
    combine,
    is_idle,
    is_late,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RULE = hg.EventTime(lateness="1h", skew="5m")
TIMES = st.integers(-300, 300).map(lambda minutes: NOON + timedelta(minutes=minutes))
STREAMS = st.lists(st.tuples(st.none() | TIMES, st.booleans()), max_size=5)


@given(st.lists(TIMES))
def test_a_watermark_never_goes_back(times: list[datetime]) -> None:
    """Whatever comes, in whatever order."""
    stream = Stream()
    for time in times:
        after = advance(stream, time, NOON, RULE)
        assert after.seen is not None
        assert after.watermark is not None
        assert stream.watermark is None or after.watermark >= stream.watermark
        assert after.watermark == after.seen - timedelta(hours=1)
        stream = after


@given(st.lists(TIMES), st.integers(0, 10))
def test_how_a_history_is_cut_into_batches_changes_nothing(times: list[datetime], cut: int) -> None:
    """All at once, or in two: the same are late, and the stream ends where it ends."""
    whole, passed = admit(Stream(), times, NOON, RULE)
    half, first = admit(Stream(), times[:cut], NOON, RULE)
    end, second = admit(half, times[cut:], NOON, RULE)
    assert (end, first + second) == (whole, passed)


@given(st.lists(TIMES, min_size=1))
def test_late_is_what_is_older_than_the_watermark_that_stood(times: list[datetime]) -> None:
    """The mark is that watermark: an hour before the latest event that had come by then."""
    _, passed = admit(Stream(), times, NOON, RULE)
    for n, (time, mark) in enumerate(zip(times, passed, strict=True)):
        ceiling = NOON + timedelta(minutes=5)
        before = [min(t, ceiling) - timedelta(hours=1) for t in times[:n]]
        assert mark == (max(before) if before and time < max(before) else None)


@given(st.permutations([NOON + timedelta(minutes=m) for m in range(0, 60, 7)]))
def test_where_nothing_is_late_no_order_matters(times: list[datetime]) -> None:
    """Events that are closer together than the allowed lateness."""
    stream, passed = admit(Stream(), times, NOON + timedelta(hours=1), RULE)
    assert set(passed) == {None}
    assert stream.seen == NOON + timedelta(minutes=56)


@given(TIMES)
def test_a_clock_that_runs_ahead_poisons_nothing(time: datetime) -> None:
    """However far ahead it is, what comes at its time is on time within lateness less skew."""
    stream = advance(Stream(), NOON + timedelta(days=4000), NOON, RULE)
    assert stream.seen == NOON + timedelta(minutes=5)
    assert is_late(time, stream.watermark) == (time < NOON - timedelta(minutes=55))


def test_the_first_event_of_all_times_can_be_told() -> None:
    """There is no time before the first year, and no need for one."""
    stream = advance(Stream(), FIRST, NOON, hg.EventTime(lateness="3650d"))
    assert stream == Stream(FIRST, FIRST)


@given(STREAMS)
def test_streams_have_the_lowest_watermark_in_common(
    streams: list[tuple[datetime | None, bool]],
) -> None:
    """Of those that are not idle; and where all are, the highest."""
    at = combine(streams)
    awake = [w for w, idle in streams if not idle]
    if None in awake or not any(w for w, _ in streams):
        assert at is None
    elif awake:
        assert at == min(w for w in awake if w)
    else:
        assert at == max(w for w, _ in streams if w)


@given(STREAMS, TIMES)
def test_a_stream_that_falls_asleep_stalls_nobody(
    streams: list[tuple[datetime | None, bool]], watermark: datetime
) -> None:
    """The others are never further back for it."""
    awake, asleep = combine([*streams, (watermark, False)]), combine([*streams, (watermark, True)])
    assert awake is None or (asleep is not None and asleep >= awake)


def test_a_stream_is_idle_after_a_while_by_the_clock() -> None:
    assert not is_idle(NOON, NOON + timedelta(minutes=15), 900)
    assert is_idle(NOON, NOON + timedelta(minutes=15, microseconds=1), 900)


@pytest.mark.parametrize(
    ("late", "said"),
    [
        (timedelta(minutes=10), "0:10:00"),
        (timedelta(days=2, seconds=1), "2 days, 0:00:01"),
        (timedelta(milliseconds=1500), "0:00:01.500"),
    ],
)
def test_how_late_is_said_in_words(late: timedelta, said: str) -> None:
    assert by_how_much(NOON - late, NOON) == said


@pytest.mark.parametrize(
    "declared",
    [
        {"late": "drop"},
        {"release": "0 3 * * *"},
        {"late": "hold", "release": "at night"},
        {"lateness": "soon"},
        {"skew": -1},
        {"lateness": "4000d"},
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_when_it_is_declared(declared: dict[str, object]) -> None:
    """With the right way in the message."""
    with pytest.raises(UsageError) as refused:
        hg.EventTime(**declared)  # type: ignore[arg-type]
    assert refused.value.hint


def test_a_pipeline_takes_nothing_else_for_event_time() -> None:
    with pytest.raises(PipelineError, match="event_time='1h'"):
        hg.Pipeline("p", event_time="1h")  # type: ignore[arg-type]
