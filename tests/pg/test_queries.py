"""SQL files: what is written beside a module is what it gets, and mistakes show at import."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.pg import queries


def write(folder: Path, text: str) -> str:
    (folder / "gate.sql").write_text(text)
    return str(folder / "gate.py")


def test_blocks_are_read_by_name_with_their_comments(tmp_path: Path) -> None:
    """A query, its explanation and a function of the same name live together in one file."""
    q = queries.load(
        write(
            tmp_path,
            "-- The gate.\n\n-- name: claim\n-- Take over work that is due.\nSELECT 1;\n\n"
            "-- function: claim\nCREATE OR REPLACE FUNCTION headgate.claim() ...\n\n"
            "-- name: renew\nSELECT 2\n",
        )
    )
    assert q.claim == "-- Take over work that is due.\nSELECT 1;"
    assert q["renew"] == "SELECT 2"
    assert dict(q.functions) == {"claim": "CREATE OR REPLACE FUNCTION headgate.claim() ..."}


def test_an_unknown_name_says_which_file_lacks_it(tmp_path: Path) -> None:
    """A misspelt query is found with its file, not as a bare key."""
    q = queries.load(write(tmp_path, "-- name: claim\nSELECT 1\n"))
    with pytest.raises(AttributeError, match=r"gate\.sql has no query called 'clam'"):
        _ = q.clam


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("-- name: a\nSELECT 1\n-- name: a\nSELECT 2\n", "line 3: a second name block called 'a'"),
        ("SELECT 1\n", "line 1: SQL before the first"),
        ("-- name: functions\nSELECT 1\n", "cannot be the name"),
        ("-- name: Bad-Name\nSELECT 1\n", "cannot be the name"),
        ("-- name: a\n-- nothing\n-- name: b\nSELECT 1\n", "'a' holds no SQL"),
    ],
)
def test_a_faulty_file_fails_when_it_is_loaded(tmp_path: Path, text: str, complaint: str) -> None:
    """Nobody has to run every query to find out that a file is wrong."""
    with pytest.raises(ValueError, match=complaint):
        queries.load(write(tmp_path, text))
