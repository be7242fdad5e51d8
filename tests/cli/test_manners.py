"""How the command behaves whatever it is asked: quick, honest exit codes, words on stderr."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Headgate

from headgate import __version__
from headgate.cli.root import SECTIONS


def _milliseconds(*command: str) -> float:
    """The processor time it takes. It waits for nothing, so on a free machine that is all of it;
    on one that others keep busy, time on the wall would measure the others.
    """
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return (used.ru_utime + used.ru_stime) * 1000


def test_help_is_there_at_once() -> None:
    """`headgate --help` takes at most 100 ms more than a Python that does nothing."""
    bare = min(_milliseconds("-c", "pass") for _ in range(8))
    help = min(_milliseconds("-m", "headgate", "--help") for _ in range(8))
    assert help - bare < 100, f"{help - bare:.0f} ms more than {bare:.0f} ms"


@pytest.mark.parametrize("args", [["--help"], ["entry", "--help"], ["up", "--help"]])
def test_help_imports_nothing_heavy(args: list[str]) -> None:
    """Help needs no driver, no validation library and no terminal library."""
    code = (
        "import sys\n"
        "from headgate.cli.ending import run\n"
        f"run({args!r})\n"
        "heavy = {'rich', 'pydantic', 'asyncpg', 'structlog', 'orjson', 'asyncio'}\n"
        "print(sorted(heavy & sys.modules.keys()), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("name", [name for table in SECTIONS.values() for name in table])
def test_every_command_explains_itself(bare: Headgate, name: str) -> None:
    """Each command in the list is there and has help, in 80 columns."""
    said = bare(name, "--help") if name != "demo" else bare("--help")
    assert said.code == 0, said.err
    assert said.out.startswith("Usage: headgate")
    assert max(len(line) for line in said.out.splitlines()) <= 80


def test_it_says_which_version_it_is(bare: Headgate) -> None:
    """`headgate --version` is one line."""
    assert bare("--version").out == f"headgate {__version__}\n"


@pytest.mark.parametrize(
    "args", [["frobnicate"], ["status", "--frob"], ["up"], ["entry", "show", "x"], []]
)
def test_asking_wrongly_exits_2_and_says_so_on_stderr(bare: Headgate, args: list[str]) -> None:
    """A typo is an exit code of its own, and stdout stays clean for programs."""
    said = bare(*args)
    assert said.code == 2
    assert said.out == ""
    assert said.err


def test_a_setting_that_cannot_be_is_named_with_its_origin(bare: Headgate) -> None:
    """A bad variable stops the command before it does anything, and says which one it was."""
    said = bare("status", HEADGATE_WORKERS="many")
    assert said.code == 2
    assert "HEADGATE_WORKERS" in said.err
    assert "hint: " in said.err


def test_a_database_that_is_down_exits_1_with_a_hint(bare: Headgate) -> None:
    """Nothing listens there: no traceback, one line of what, one line of what to do."""
    said = bare("status", HEADGATE_DATABASE_URL="postgresql://nobody@127.0.0.1:1/ledger")
    assert said.code == 1
    assert said.err.startswith("error: cannot reach ")
    assert "hint: " in said.err
    assert "Traceback" not in said.err


def test_debug_shows_the_traceback(bare: Headgate) -> None:
    """With --debug, before or behind the command, the traceback is there too."""
    url = "postgresql://nobody@127.0.0.1:1/ledger"
    for args in (["--debug", "status"], ["status", "--debug"]):
        said = bare(*args, HEADGATE_DATABASE_URL=url)
        assert said.code == 1
        assert "Traceback" in said.err


def test_looking_for_a_ledger_makes_none(bare: Headgate) -> None:
    """`status` in a folder without a ledger says so and leaves the folder empty."""
    said = bare("status")
    assert said.code == 2
    assert "there is no ledger" in said.err
    assert list(bare.folder.iterdir()) == []


def test_the_shared_options_may_stand_behind_the_command(bare: Headgate, tmp_path: Path) -> None:
    """`headgate config show --home x` is the same as `headgate --home x config show`."""
    before = bare("--home", "elsewhere", "config", "show", "--json")
    behind = bare("config", "show", "--json", "--home", "elsewhere")
    assert before.json == behind.json
    assert before.json["home"]["value"] == str(tmp_path / "elsewhere")
    assert before.json["home"]["origin"] == "option"


def test_passwords_are_masked_in_the_settings(bare: Headgate) -> None:
    """`config show` can be pasted into a ticket."""
    url = "postgresql://me:s3cr3t-word@db.example/ledger"
    for args in (["config", "show"], ["config", "show", "--json"]):
        said = bare(*args, HEADGATE_DATABASE_URL=url)
        assert said.code == 0
        assert "s3cr3t-word" not in said.out + said.err
        assert "db.example" in said.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_complete(bare: Headgate, shell: str) -> None:
    """The script is printed, and asking as it would gets the commands."""
    script = bare("completion", shell)
    assert script.code == 0
    assert "_HEADGATE_COMPLETE" in script.out
    asked = bare(
        _HEADGATE_COMPLETE=f"{shell}_complete",
        COMP_WORDS="headgate qua",
        COMP_CWORD="qua" if shell == "fish" else "1",  # fish hands over the word itself
    )  # fmt: skip
    assert "quarantine" in asked.out


def test_a_reader_that_went_away_is_no_error(bare: Headgate) -> None:
    """`headgate config show | head -1` prints its line and no complaint."""
    done = subprocess.run(
        f"{sys.executable} -m headgate config show | head -1",
        shell=True, cwd=bare.folder, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.startswith("setting")
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
