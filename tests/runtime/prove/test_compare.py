"""What counts as a difference between two worlds, and what does not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from headgate.runtime.prove import world as worlds
from headgate.runtime.prove.compare import Spared, differences, made_up
from headgate.runtime.prove.play import Played
from headgate.runtime.prove.state import Ending, File, Record, State

PLAIN = worlds.reference(2)
URI = "file:///in/a.csv"


def ended(**changes: Any) -> Played:
    """The end of a world in which one file became one row, an artifact and a line."""
    state = State(
        endings={URI: Ending("finalized", artifacts=(("a.txt", "1f"),))},
        rows={"reading": Counter({'{"id": 1, "mm": "2"}': 1})},
        files={"audit.log": File("aa", "one\n")},
    )
    return Played(PLAIN, replace(state, **changes))


NOTHING = Spared()


def said(spared: Spared = NOTHING, **changes: Any) -> list[str]:
    return [d.said for d in differences(ended(), ended(**changes), spared)]


def record(what: str, line: int = 3, in_call: str | None = None, **detail: Any) -> Record:
    return {
        "what": what, "file": "rain.py", "line": line, "code": "", "handler": "f", "uri": URI,
        "in_call": in_call, "detail": detail,
    }  # fmt: skip


def test_the_same_end_has_no_differences() -> None:
    """A world that ended as the reference did is not mentioned."""
    assert said() == []


def test_a_file_is_told_by_its_lines() -> None:
    """A reader sees how often, not only that."""
    assert said(files={"audit.log": File("bb", "one\none\n")}) == ["audit.log: 2 lines, 1 expected"]
    assert said(files={"audit.log": File("bb", "two\n")}) == ["audit.log: says two, one expected"]
    assert said(files={}) == ["audit.log: not there, and expected"]


def test_a_file_that_a_call_writes_is_the_calls_affair() -> None:
    """A call is at least once in one window, and says so; it is no fault."""
    again = {"audit.log": File("bb", "one\none\n")}
    writes = record("file", in_call="note", path="audit.log", mode="a")
    assert said(files=again, records=[writes]) == []
    assert said(files=again, records=[writes, record("file", path="audit.log", mode="a")])


def test_a_file_that_may_differ_is_not_compared() -> None:
    """A log is appended to, and its user said so."""
    again = {"audit.log": File("bb", "one\none\n")}
    assert said(Spared(ignored=("*.log",)), files=again) == []
    assert said(Spared(ignored=("*.txt",)), files=again) != []


def test_rows_are_told_by_number_or_by_column() -> None:
    """Two rows where one was expected, or one row with another value."""
    twice = {"reading": Counter({'{"id": 1, "mm": "2"}': 1, '{"id": 2, "mm": "2"}': 1})}
    assert said(rows=twice) == ["table reading: 2 rows, 1 expected"]
    other = {"reading": Counter({'{"id": 1, "mm": "9"}': 1})}
    assert said(rows=other) == ["table reading: 1 row with other values in mm (9, 2 expected)"]


def test_a_column_that_changes_by_itself_is_not_compared() -> None:
    """SQL may say now(): what differs between two equal runs is nobody's fault."""
    other = {"reading": Counter({'{"id": 1, "mm": "9"}': 1})}
    by_itself = made_up(ended().state, ended(rows=other).state, frozenset())
    assert by_itself == {"reading": frozenset({"mm"})}
    assert said(Spared(by_itself), rows=other) == []


def test_a_declared_row_may_not_change_by_itself() -> None:
    """A handler that yields something else in every run is at fault."""
    other = {"reading": Counter({'{"id": 1, "mm": "9"}': 1})}
    assert made_up(ended().state, ended(rows=other).state, frozenset({"reading"})) == {}


def test_outcomes_and_artifacts_are_compared() -> None:
    """An entry that is set aside where it should be finalized; an artifact with other bytes."""
    aside = {URI: Ending("quarantined", "schema: x", "no such row")}
    assert said(endings=aside) == ["quarantined (no such row), finalized expected"]
    other = {URI: Ending("finalized", artifacts=(("a.txt", "2f"),))}
    assert said(endings=other) == ["artifact a.txt: other bytes than expected"]
    assert said(endings={}) == [f"was never admitted: {URI}"]


def test_what_is_sent_is_counted_by_sample_and_line() -> None:
    """An e-mail that goes out again is a fault; a question to somebody is none."""
    mail = record("connect", kind="smtp", to="127.0.0.1:25")
    asks = record("connect", kind="http GET", to="127.0.0.1:80")
    before, after = ended(records=[mail, asks]), ended(records=[mail, asks, mail, asks])
    (found,) = differences(before, after, NOTHING)
    assert found.said == "an e-mail was sent to 127.0.0.1:25: twice for one sample, once expected"
    assert found.record == mail


def test_a_call_may_be_made_again_in_its_one_window_only() -> None:
    """Killed after the call and before its record, it is made again with the same key."""
    made = record("call", name="ring", ran=True)
    before = ended(records=[made])
    after = ended(records=[made, made])
    assert [d.what for d in differences(before, after, NOTHING)] == ["call"]
    after.killed = ["called#1"]
    assert differences(before, after, NOTHING) == []
