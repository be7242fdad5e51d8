"""`headgate prove` as people run it: what it says, how it ends, and what it leaves behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.cli.conftest import CLEAN, Headgate, Zygote, new_folder
from tests.pg.processes import eventually

FILES = {
    "none.py": "import headgate\n",
    "two.py": """\
import headgate as hg

for name in ("one", "other"):
    globals()[name] = hg.Pipeline(name)
    globals()[name].transform(lambda obj, run: {"x": "y"})
""",
    "tide.py": """\
import headgate as hg

tide = hg.Pipeline("tide")

@tide.apply
def tally(tx: hg.BlockingTransaction, obj: hg.Object, run: hg.Run) -> None:
    tx.execute("INSERT INTO tally (uri, n) VALUES ($1, $2)", obj.uri, obj.size)
""",
    "log.py": """\
import headgate as hg

log = hg.Pipeline("log")

@log.transform
def note(obj, run):
    with open("audit.log", "a") as audit:
        audit.write(f"{obj.name}\\n")
    print("a handler prints")
    return {"noted.txt": obj.name}
""",
    "tables.sql": "CREATE TABLE tally (uri text, n bigint);",
}


@pytest.fixture(scope="module")
def here(zygote: Zygote, open_folder: Path) -> Headgate:
    """A folder with pipelines and samples. Scratch folders go to a place of its own."""
    folder, scratch = new_folder(open_folder, "prove"), new_folder(open_folder, "scratch")
    scratch.chmod(0o711)
    headgate = Headgate(zygote, folder, {"TMPDIR": str(scratch)})
    assert headgate("init").code == 0
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return headgate


def _scratch(here: Headgate) -> Path:
    return Path(here.env["TMPDIR"])


def _files(here: Headgate) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in here.folder.rglob("*") if p.is_file()}


@pytest.mark.timeout(400)  # some forty worlds, on whatever machine
def test_the_first_pipeline_is_proved(here: Headgate) -> None:
    """What `init` writes, killed at every point: one effect each, counted and not claimed."""
    before = _files(here)
    said = here("prove", "rain.py", "incoming/2026-01-05.csv", "--json")
    assert said.code == 0, said.out + said.err
    told = said.json
    crashes = [w for w in told["worlds"] if w["kind"] == "crash" and w["reached"]]
    assert told["ok"] is True
    assert len(crashes) >= 25
    assert {w["effects"] for w in told["worlds"]} == {1}
    assert {"handled", "before:finalize", "before:fail", "collected"} <= set(told["crash_points"])
    assert told["never_passed"] == ["before:call", "after:call"]
    assert _files(here) == before
    assert list(_scratch(here).iterdir()) == []


def test_a_fault_is_told_in_words_and_exits_1(here: Headgate) -> None:
    """The line, what happened how often, and what to write instead; the real file is untouched."""
    said = here("prove", "log.py", "incoming/2026-01-05.csv", "--only", "crash:handled")
    assert said.code == 1, said.err
    assert "log.py:7  appends to audit.log each time it runs" in said.out
    assert 'with open("audit.log", "a") as audit:' in said.out
    assert "audit.log: 2 lines, 1 expected." in said.out
    assert "Fix: " in said.out
    assert "Not proved: 1 fault." in said.out
    assert "a handler prints" not in said.out + said.err
    assert not (here.folder / "audit.log").exists()
    assert list(_scratch(here).iterdir()) == []


def test_tables_of_yours_are_not_looked_for_in_your_database(here: Headgate) -> None:
    """What `apply` needs is made on the scratch one, by --setup."""
    said = here("prove", "tide.py", "incoming/2026-01-05.csv", "--only", "told")
    assert said.code == 2
    assert 'relation "tally" does not exist' in said.err
    assert "--setup" in said.err


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["nowhere.py", "none.py"], ["nowhere.py"]),
        (["rain.py"], ["SAMPLE"]),
        (["rain.py", "nowhere.csv"], ["nowhere.csv"]),
        (["tables.sql", "none.py"], ["tables.sql", "not a Python file"]),
        (["rain.py", "none.py", "--only", "storm"], ["storm", "raced"]),
        (["rain.py", "none.py", "--only", "crash:nowhere"], ["crash:nowhere", "crash:handled"]),
        (["none.py", "none.py"], ["prove/none.py declares no pipeline"]),
        (["two.py", "none.py"], ["one, other", "--pipeline"]),
    ],
)
def test_what_cannot_be_proved_is_named(here: Headgate, args: list[str], named: list[str]) -> None:
    """No such file, no pipeline in it, no sample: exit 2, with its name."""
    said = here("prove", *args)
    assert said.code == 2, said.out
    assert all(word in said.err for word in named), said.err
    assert "Traceback" not in said.err
    assert "headgate-try" not in said.err


@pytest.mark.timeout(300)  # only so that a slow machine is not taken for a broken one
def test_ctrl_c_leaves_nothing_behind(here: Headgate) -> None:
    """In the middle of it: no process, no server and no folder stays, and the exit code says it."""
    samples = [f"incoming/2026-01-0{n}.csv" for n in (5, 6)]
    running = here.start("prove", "rain.py", *samples, env={**CLEAN, **here.env})
    scratch = _scratch(here)
    eventually(lambda: bool(list(scratch.glob("*/world_*/log"))), seconds=100)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=100)
    assert running.returncode == 130, err
    assert list(scratch.iterdir()) == []
    eventually(lambda: not _processes(scratch), seconds=60)


def _processes(folder: Path) -> list[str]:
    """Those that work in this folder, or name it."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes() + os.fsencode(os.readlink(process / "cwd"))
        except OSError:
            continue
        if os.fsencode(folder) in line:
            found.append(line.decode(errors="replace"))
    return found
