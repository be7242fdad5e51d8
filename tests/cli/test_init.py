"""`headgate init` writes something that runs, and never over anything."""

from __future__ import annotations

from tests.cli.conftest import Headgate


def test_what_it_writes_runs(headgate: Headgate) -> None:
    """A newcomer types what init says to type, and both samples would be taken in."""
    said = headgate("init", "rain")
    assert said.code == 0
    assert "headgate up rain.py" in said.err
    there = headgate.at(headgate.folder / "rain")
    tried = there("try", "rain.py", "incoming/2026-01-05.csv", "incoming/2026-01-06.csv")
    assert tried.code == 0, tried.err
    assert "reading: 4 rows" in tried.out


def test_nothing_of_yours_is_overwritten(bare: Headgate) -> None:
    """A file that is there stays as it is, and then nothing else is written either."""
    (bare.folder / "rain.py").write_text("mine")
    said = bare("init")
    assert said.code == 2
    assert "rain.py is there already" in said.err
    assert (bare.folder / "rain.py").read_text() == "mine"
    assert [p.name for p in bare.folder.iterdir()] == ["rain.py"]


def test_twice_is_harmless(bare: Headgate) -> None:
    """Running it again finds everything there."""
    assert bare("init").code == 0
    again = bare("init")
    assert again.code == 0
    assert "wrote" not in again.out


def test_a_folder_that_cannot_be_made_is_named(bare: Headgate) -> None:
    """A file in the way is a clear error, not a traceback."""
    (bare.folder / "file").write_text("")
    said = bare("init", "file/below")
    assert said.code == 2
    assert "file/below" in said.err
    assert "Traceback" not in said.err
