"""The words of a proof: the figures are counted, the line is shown, the fix is concrete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headgate.runtime.prove import words
from headgate.runtime.prove import world as worlds
from headgate.runtime.prove.finding import Cause, Finding, Line
from headgate.runtime.prove.fixes import fix, title
from headgate.runtime.prove.notes import Note
from headgate.runtime.prove.play import Played
from headgate.runtime.prove.proof import Proof
from headgate.runtime.prove.state import Ending, State

SOURCE = 'import x\n\n\ndef f(obj, run):\n    with open("audit.log", "a") as a:\n        pass\n'
AT = Line("rain.py", 5, 'with open("audit.log", "a") as a:')
CAUSES: tuple[Cause, ...] = Cause.__args__


def ended(world: worlds.World, *killed: str) -> Played:
    return Played(world, State(endings={"file:///a": Ending("finalized")}), killed=list(killed))


@pytest.fixture
def proof(tmp_path: Path) -> Proof:
    """Two kills at one point, one that was not reached, and the reference."""
    (tmp_path / "rain.py").write_text(SOURCE)
    plain = worlds.reference(1)
    played = [
        ended(plain),
        *(ended(worlds.crash(plain, name), name) for name in ("handled#1", "handled#2")),
        ended(worlds.crash(plain, "handled#3")),
    ]
    file = tmp_path / "rain.py"
    return Proof("rain", file, tmp_path, [tmp_path / "a"], played[0], played, seconds=1.23)


def test_what_was_not_reached_is_not_counted(proof: Proof) -> None:
    """The figures say what happened, not what was planned."""
    said = words.said(proof)
    assert "2 worlds, 1 crash point" in said
    assert "1 effect each" in said
    assert "Proved: one change, one effect.   2 kills, 3 worlds, 1.2 s" in said
    assert "handled#3" not in said
    assert "not reached, and not counted" in words.said(proof, verbose=True)


def test_a_fault_is_shown_with_its_line_its_count_and_its_fix(proof: Proof) -> None:
    """Everything a reader needs to repair it, without opening another window."""
    world = proof.played[1].world
    found = Finding("file", "audit.log", "audit.log: 2 lines, 1 expected", world, AT, mode="a")
    found.worlds |= {end.world.name for end in proof.played[1:3]}
    proof.findings.append(found)
    said = words.said(proof)
    assert "rain.py:5  appends to audit.log each time it runs" in said
    assert re.search(r'▸ +5 │ +with open\("audit.log", "a"\) as a:\n +│ +\^{33}\n', said)
    assert "audit.log: 2 lines, 1 expected." in said
    assert "Seen when killed at handled, and in 1 other world." in said
    assert "Fix: " in said
    assert "2 of 2 differ" in said
    assert "Not proved: 1 fault." in said


def test_quiet_notes_are_only_told_when_asked_for(proof: Proof) -> None:
    """A clean proof is short."""
    proof.notes += [Note("loud"), Note("quiet", quiet=True)]
    assert "quiet" not in words.said(proof)
    assert "quiet" in words.said(proof, verbose=True)
    assert "loud" in words.said(proof)


def test_the_user_cannot_write_to_the_terminal(proof: Proof) -> None:
    """What comes from a handler is shown, and not obeyed."""
    world = proof.played[1].world
    proof.findings.append(Finding("file", "x", "x: says \x1b[2J, 1 expected", world, AT))
    assert "\x1b" not in words.said(proof)


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_has_a_name_and_a_way_out(cause: Cause) -> None:
    """No fault is told without saying what to write instead."""
    found = Finding(cause, "thing", "table thing: 2 rows, 1 expected", worlds.reference(1), AT)
    assert "{" not in title(found)
    assert fix(found, "rain")[0].endswith((".", ")", "time", "as in", "SECONDS"))


@pytest.mark.parametrize("world", [worlds.reference(2), *worlds.calm(2, 1)], ids=lambda w: w.name)
def test_every_world_says_what_is_different_in_it(world: worlds.World) -> None:
    """A name alone helps nobody."""
    assert len(world.changed.split()) >= 3


def test_programs_get_the_same(proof: Proof) -> None:
    """The document has the line, the cause and the worlds."""
    world = proof.played[1].world
    proof.findings.append(Finding("file", "audit.log", "2 lines", world, AT, worlds={world.name}))
    told = words.plain(proof)
    assert told["ok"] is False
    assert told["kills"] == 2
    assert told["crash_points"] == ["handled"]
    (found,) = told["findings"]
    assert (found["file"], found["line"], found["cause"]) == ("rain.py", 5, "file")
    assert found["worlds"] == ["crash:handled#1"]
