"""Worlds are played: with real processes that really die, on copies that are gone afterwards."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.errors import UsageError
from headgate.runtime.prove import copying
from headgate.runtime.prove import world as worlds
from headgate.runtime.prove.ground import Ground, ground
from headgate.runtime.prove.play import Script, look, play
from headgate.runtime.prove.proof import Request, prove

PIPELINE = """\
import os, time
import headgate as hg

p = hg.Pipeline("p", sources=[hg.Directory("incoming/")], store="lake/")

@p.transform
def f(obj, run):
    if obj.name == "slow":
        time.sleep(600)
    if obj.name == "deadly":
        os._exit(3)
    assert not any("only-the-users" in value for value in os.environ.values())
    assert os.getcwd() != obj.uri.removeprefix("file://").rpartition("/incoming/")[0]
    return {"out.txt": obj.name}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "p.py").write_text(PIPELINE)
    (tmp_path / "incoming").mkdir()
    for name in ("a", "b", "slow", "deadly"):
        (tmp_path / "incoming" / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGPASSWORD", "only-the-users")
    monkeypatch.setenv("MY_DATABASE", "postgresql://me:only-the-users@db.example.org/production")
    return tmp_path


async def script_of(made: Ground, place: Path, *names: str) -> Script:
    folder = made.folder / f"request_{made.number()}"
    samples = copying.copy_samples([place / "incoming" / n for n in names], folder / "samples")
    root = copying.copy_around(place / "p.py", folder / "base", ())
    template = await made.template(None, [s["uri"] for s in samples])
    real = (str(place),)
    return Script(folder / "base", root, "p.py", "p", tuple(samples), template, real, False, 30)


async def test_a_process_dies_where_it_is_told_to_and_the_next_one_finishes(place: Path) -> None:
    """One kill, at that point and no other; the samples have their effect; nothing stays behind."""
    plain = worlds.reference(2)
    async with ground() as made:
        script = await script_of(made, place, "a", "b")
        (declared,) = await look(made, script)
        assert (declared["name"], declared["owns"], declared["handlers"]) == ("p", True, 1)
        before = await play(made, script, plain)
        assert (before.killed, before.state.effects) == ([], 2)
        after = await play(made, script, worlds.crash(plain, "handled#2"))
        assert (after.killed, after.state.effects, after.reached) == (["handled#2"], 2, True)
        never = await play(made, script, worlds.crash(plain, "handled#9"))
        assert (never.killed, never.reached) == ([], False)
        assert not list(made.folder.glob("world_*"))
        await _hangs_and_exits(made, place)
    assert not made.folder.exists()


async def _hangs_and_exits(made: Ground, place: Path) -> None:
    slow = replace(await script_of(made, place, "slow"), patience_seconds=1)
    ended = await play(made, slow, worlds.reference(1))
    assert ended.trouble == "it did not end within 1 s"
    ended = await play(made, await script_of(made, place, "deadly"), worlds.reference(1))
    assert ended.trouble.startswith("a process ended with code 3")
    with pytest.raises(UsageError, match="did not finish its samples"):
        await prove(made, Request(place / "p.py", [place / "incoming" / "deadly"]))


def test_what_belongs_to_tools_is_not_copied(tmp_path: Path) -> None:
    """A virtual environment, a store and a repository stay where they are."""
    for name in (
        "p.py",
        "deep/er.txt",
        ".git/x",
        "env/pyvenv.cfg",
        "env/y",
        "lake/staging/sha256/z",
    ):
        (tmp_path / "here" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "here" / name).write_text("x")
    (tmp_path / "here" / "big").mkdir()
    (tmp_path / "here" / "big" / "data").write_text("x")
    to = tmp_path / "to"
    copying.copy_around(tmp_path / "here" / "p.py", to, ("big",))
    found = {str(Path(at, n).relative_to(to)) for at, _, names in os.walk(to) for n in names}
    assert found == {"p.py", "deep/er.txt"}


def test_a_folder_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so before anything is started, and what to do about it."""
    monkeypatch.setattr(copying, "MOST_FILES", 2)
    for n in range(3):
        (tmp_path / f"{n}.py").write_text("")
    with pytest.raises(UsageError, match="too much to be copied") as error:
        copying.copy_around(tmp_path / "1.py", tmp_path / "to", ())
    assert "--skip" in error.value.hint
