"""Three accounts of one uri: what they amount to, and on which evidence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from headgate.model.reconcile import Cover, Line, Side, differing, judge

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def side(hint: str = "etag:a 1", **said: object) -> Side:
    told = Side("s3://b/k", 0, hint, "strong", NOON, 1, None, "object", True)
    return msgspec.structs.replace(told, **said)


def state(line: Line, cover: Cover = "covered", since: int = 9) -> tuple[str, str]:
    judged = judge(line, since, ["here"], lambda uri, by: cover)
    return judged.state, judged.by


@pytest.mark.parametrize(
    ("before", "after", "by"),
    [
        ("100-5-7", "200-5-7", "mtime"),
        ("100-5-7", "200-6-7", "size"),
        ("100-5-7", "100-5-8", "inode"),
        ('etag:"a" 5', 'etag:"b" 5', "etag"),
        ('etag:"a" 5', 'etag:"a" 6', "size"),
        ('etag:"a" 5', "version:7 5", "version"),
        (
            "modified:2026-01-01T00:00:00+00:00 5",
            "modified:2026-01-02T00:00:00+00:00 5",
            "modified",
        ),
    ],
)
def test_a_drift_names_its_strongest_evidence(before: str, after: str, by: str) -> None:
    """An operator reads what to look at, not two strings to compare."""
    assert differing(before, after) == by


@pytest.mark.parametrize(
    ("told", "at", "shown", "expected"),
    [
        ({"etag": "a"}, NOON, side('etag:"a" 1'), ("agreed", "")),
        ({"etag": "a"}, NOON, side('etag:"b" 1'), ("drifted", "etag")),
        ({"version_id": "1", "etag": "a"}, NOON, side("version:1 1"), ("agreed", "")),
        ({"version_id": "1", "etag": "a"}, NOON, side("version:2 1"), ("drifted", "version")),
        ({"size": 1}, NOON, side("version:2 1"), ("agreed", "")),
        ({"size": 2}, NOON, side("version:2 1"), ("drifted", "size")),
        ({}, NOON - timedelta(hours=1), side(), ("drifted", "time")),
        ({}, NOON - timedelta(hours=1), side(clock="received"), ("agreed", "")),
        ({}, NOON + timedelta(hours=1), side(), ("agreed", "")),
    ],
)
def test_what_an_event_told_is_compared_by_what_both_name(
    told: dict[str, object], at: datetime, shown: Side, expected: tuple[str, str]
) -> None:
    """The strongest thing in common decides; without one, nothing is said against it."""
    line = Line(
        shown.uri, shown, published=3, version=1, told=msgspec.json.encode(told), told_at=at
    )
    assert state(line) == expected


def test_what_no_source_shows_is_somebodys() -> None:
    """Phantom, orphan, elsewhere, kept: by who would show it, and whether its end was told."""
    known = Line("u", known_by="here", known="h", published=3, version=1)
    assert state(known)[0] == "phantom"
    assert state(known, "nobody")[0] == "orphan"
    assert state(known, "elsewhere")[0] == "elsewhere"
    assert state(msgspec.structs.replace(known, removed=True))[0] == "kept"
    assert state(msgspec.structs.replace(known, removed=True, retired=True))[0] == "gone"
    assert state(Line("u", doing=3))[0] == "gone"
    assert state(known, since=2)[0] == "pending"


def test_a_file_that_is_being_written_is_left_alone() -> None:
    """It is neither missing nor drifted until it is whole."""
    assert state(Line("u", side(settled=False)))[0] == "unsettled"
    assert state(Line("u", side()))[0] == "missing"
