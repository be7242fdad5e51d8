"""`headgate reconcile`: counts and a table for people, a line each for programs, an exit code."""

from __future__ import annotations

import json

import pytest
from tests.cli.conftest import Headgate

PIPELINE = """
import headgate as hg

rain = hg.Pipeline("rain", sources=[hg.Directory("incoming", settle=0)], store="lake")
tide = hg.Pipeline("tide", sources=[hg.Schedule("0 3 * * *")], store="lake")
"""


@pytest.fixture
def rain(headgate: Headgate) -> Headgate:
    """A folder with three files that were taken in."""
    (headgate.folder / "rain.py").write_text(PIPELINE)
    (headgate.folder / "incoming").mkdir()
    for name in "abc":
        (headgate.folder / "incoming" / name).write_text(name)
    assert headgate("up", "rain.py", "--until-idle", "--workers", "1").code == 0
    return headgate


def test_what_differs_is_shown_and_fixed_and_the_exit_code_says_what_is_left(
    rain: Headgate,
) -> None:
    """0 when nothing differs, 1 when something does, and after a fix only for what it leaves."""
    quiet = rain("reconcile", "rain.py")
    assert quiet.code == 0, quiet.err
    assert "Nothing differs" in quiet.out
    assert "tide: left out, none of its sources can be listed" in quiet.err
    incoming = rain.folder / "incoming"
    (incoming / "a").write_text("longer than it was")
    (incoming / "b").unlink()
    for n in range(4):
        (incoming / f"new{n}").write_text("new")
    words = rain("reconcile", "rain.py", "rain", "--limit", "2")
    assert words.code == 1
    assert "incoming/a" in words.out
    assert "another size than the ledger knows" in words.out
    assert "and 4 more" in words.err
    lines = [json.loads(x) for x in rain("reconcile", "rain.py", "--json").out.splitlines()]
    assert [x["finding"] for x in lines[:-1]] == ["drifted", "phantom"] + ["missing"] * 4
    assert lines[0]["by"] == "size"
    counts = {name: n for name, n in lines[-1]["counts"].items() if n}
    assert counts == {"missing": 4, "drifted": 1, "phantom": 1, "agreed": 1}
    fixed = rain("reconcile", "rain.py", "--fix", "--because", "it was down")
    assert fixed.code == 1, fixed.err
    assert "5 changes admitted." in fixed.out
    again = rain("reconcile", "rain.py", "--json").out.splitlines()
    counts = {name: n for name, n in json.loads(again[-1])["counts"].items() if n}
    assert counts == {"pending": 5, "phantom": 1, "agreed": 1}
    (entry,) = [x for x in rain("entry", "list", "--json").json["entries"] if "new0" in x["uri"]]
    assert "it was down" in rain("entry", "explain", str(entry["entry"])).out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("tide",), "it has Schedule, and only a Directory, a Prefix or a Manifest can say"),
        (("fog",), "declares no pipeline 'fog'"),
        (("--fix",), "--fix needs a reason"),
        (("--because", "why"), "--because goes with --fix"),
    ],
)
def test_who_asks_wrongly_is_told_how(headgate: Headgate, args: tuple[str, ...], said: str) -> None:
    """Exit 2, and nothing was looked at."""
    (headgate.folder / "rain.py").write_text(PIPELINE)
    done = headgate("reconcile", "rain.py", *args)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
