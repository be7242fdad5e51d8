"""Durations as people write them."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import UsageError
from headgate.model.duration import seconds


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("500ms", 0.5), ("1s", 1), ("1.5s", 1.5), ("15m", 900), ("6h", 21600), ("2d", 172800),
        (" 1 s ", 1), (0, 0), (2.5, 2.5), ("0s", 0),
    ],
)  # fmt: skip
def test_a_duration_is_read_as_written(written: str | float, meant: float):
    """A number with a unit, or seconds as a number."""
    assert seconds(written) == meant


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "s",
        "15",
        "1x",
        "-1s",
        "1h30m",
        "1e3s",
        "١s",
        "1s\0",
        -1,
        float("nan"),
        float("inf"),
        True,
    ],
)
def test_a_duration_that_is_none_is_refused_with_an_example(wrong: str | float):
    """The message names the setting and what was written; the hint shows how to write it."""
    with pytest.raises(UsageError, match="settle is ") as refused:
        seconds(wrong, "settle")
    assert '"15m"' in refused.value.hint


@given(st.text())
def test_no_text_does_anything_but_mean_a_duration_or_be_refused(text: str):
    """Whatever stands in a pipeline file, the answer is a number or a clear error."""
    with suppress(UsageError):
        assert seconds(text) >= 0
