"""Asked wrongly: `up` says what is wrong and the way out, and nothing is lost."""

from __future__ import annotations

import pytest
from tests.promises.processes import Place

FOLDER = 'import headgate as hg\np = hg.Pipeline("p", sources=[hg.Directory("nowhere")])\n'


@pytest.mark.parametrize(
    ("text", "error", "said", "hint"),
    [
        ("import headgate\n\nprint(1 / 0)\n", "PipelineError", "line 3 of", "nothing was lost"),
        ("import no_such_module\n", "PipelineError", "no_such_module", "nothing was lost"),
        ("import os\nos._exit(3)\n", "PipelineError", "their process died", "with python itself"),
        (FOLDER, "UsageError", "nowhere is not there", "mkdir -p"),
    ],
    ids=["raises", "lacks a module", "kills its process", "names no folder"],
)
def test_a_pipeline_that_cannot_be_used_is_named(
    place: Place, text: str, error: str, said: str, hint: str
) -> None:
    """The file, the line and what to do about it; exit code 2, and no process stays behind."""
    (place.folder / "wrong.py").write_text(text)
    told = place.up(targets=["wrong.py"]).ends(2)
    assert told["error"] == error
    assert said in told["text"]
    assert hint in told["hint"]
    assert not place.processes()


def test_a_file_that_is_not_there_is_named(place: Place) -> None:
    """A typo on the command line is answered with the path that was looked for."""
    told = place.up(targets=["rian.py"]).ends(2)
    assert told["error"] == "PipelineError"
    assert str(place.folder / "rian.py") in told["text"]


def test_an_older_schema_is_refused_with_the_command_to_run(place: Place) -> None:
    """The ledger was made by an earlier version: nobody works on it until it is migrated."""
    place.put("plain-1")
    place.query("DELETE FROM headgate.schema_version WHERE version > 1")
    told = place.up().ends(2)
    assert told["error"] == "LedgerRefused"
    assert "headgate db migrate" in told["hint"]
    assert place.query("SELECT * FROM headgate.entry") == []
    assert (place.incoming / "plain-1").exists()


def test_a_pipeline_broken_while_it_runs_stops_up_and_loses_nothing(place: Place) -> None:
    """A worker that is started anew finds the file broken: `up` ends and says so."""
    place.put("kill_once-1", "plain-1")
    good = (place.folder / "load.py").read_text()
    broken = good + "\nimport os\nif os.path.exists('notes/once-kill_once-1'):\n    1 / 0\n"
    (place.folder / "load.py").write_text(broken)
    told = place.up().ends(2)
    assert told["error"] == "PipelineError"
    assert f"line {len(broken.splitlines())}" in told["text"]
    (place.folder / "load.py").write_text(good)
    place.run()
    place.is_exact(["kill_once-1", "plain-1"])


def test_workers_that_cannot_begin_are_not_started_for_ever(place: Place) -> None:
    """The file imports once and never again: `up` gives up and says so, and nothing is lost."""
    good = (place.folder / "load.py").read_text()
    once = "import os\nif os.path.exists('seen'):\n    os._exit(3)\nopen('seen', 'w').close()\n"
    (place.folder / "load.py").write_text(once + good)
    place.put("plain-1")
    told = place.up().ends(2)
    assert told["error"] == "UsageError"
    assert "exit code 3" in told["text"]
    (place.folder / "load.py").write_text(good)
    place.run()
    place.is_exact(["plain-1"])
