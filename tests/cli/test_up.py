"""`headgate up`: pipelines run, and what cannot run is named before anything starts."""

from __future__ import annotations

import os
import pty
import signal
import socket
import time
from pathlib import Path

import pytest
from tests.cli.conftest import CLEAN, Headgate, Populated, Zygote, populate

PORT = "HEADGATE_SERVE_PORT"
# Says what its process was given, and of which processes a plugin of pydantic was a part.
CURIOUS = """
import os, subprocess, sys
from typing import TypedDict
import headgate as hg

look = hg.Pipeline("look", sources=[hg.Directory("incoming", settle=0)], store="lake")

class Row(TypedDict):
    name: str

@look.rows("seen", key="name", schema=Row)
def rows(obj):
    list_ = "import os; [print(n, os.path.realpath(f'/proc/self/fd/{n}')) for n in range(3, 200)" \\
        " if os.path.exists(f'/proc/self/fd/{n}')]"
    out = subprocess.run([sys.executable, "-c", list_], capture_output=True, close_fds=False)
    with open("seen", "wb") as file:
        file.write(out.stdout)
    with open("was", "w") as file:
        print(*os.environ, os.readlink("/proc/self/fd/0"), file=file)
        print(sys.modules["__main__"].__spec__.name, len(sys.argv), file=file)
    yield {"name": obj.name}
"""
PLUGIN = """
with open("/proc/self/comm") as comm, open("loaded", "a") as loaded:
    loaded.write(comm.read())

class Plugin:
    def new_schema_validator(self, *args, **kwargs):
        return None, None, None

plugin = Plugin()
"""


def test_until_idle_says_what_came_of_it_and_what_stays(populated: Populated) -> None:
    """Two good files and two bad ones: exit 0, the figures, the reasons, and where to look."""
    done = populated.said
    figures = done.out.splitlines()
    assert figures[0].split()[:4] == ["pipeline", "received", "new", "duplicates"]
    assert figures[1].split() == ["rain", "4", "4", "0", "0", "0", "0", "2", "2"]
    assert "2 entries in quarantine" in done.out
    assert "validation" in done.out
    assert "headgate quarantine list" in done.err
    assert max(len(line) for line in done.out.splitlines()) <= 80


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            {"rain.py": "import headgate\n\nimport nowhere_at_all\n"},
            ["rain.py", "line 3", "nowhere"],
        ),
        ({"rain.py": "def (:\n"}, ["rain.py", "line 1"]),
        ({"rain.py": "x = 1\n"}, ["rain.py", "declares no pipeline"]),
    ],
)
def test_a_pipeline_file_that_cannot_be_used_is_named_with_its_line(
    headgate: Headgate, change: dict[str, str], named: list[str]
) -> None:
    """Exit 2, the file and the line, and nothing was started."""
    for name, text in change.items():
        (headgate.folder / name).write_text(text)
    said = headgate("up", "rain.py", "--until-idle")
    assert said.code == 2, said
    assert all(word in said.err for word in named), said.err
    assert "Traceback" not in said.err


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="elsewhere nobody is forked")
def test_children_are_given_nothing_of_the_command_that_started_them(headgate: Headgate) -> None:
    """They come out of a copy of it: no file of it is open, and nobody else's code ran before."""
    about = headgate.folder / "plugins" / "loud-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[pydantic]\nloud = loud:plugin\n")
    (about.parent / "loud.py").write_text(PLUGIN)
    (headgate.folder / "look.py").write_text(CURIOUS)
    (headgate.folder / "incoming").mkdir()
    (headgate.folder / "incoming" / "a").write_text("1")
    env = {**CLEAN, **headgate.env, "PYTHONPATH": str(about.parent)}
    with (headgate.folder / "log").open("w") as log:  # a launcher may have left it open, too
        args = ("up", "look.py", "--until-idle", "--workers", "1")
        up = headgate.start(*args, env=env, pass_fds=[log.fileno()])
        _, err = up.communicate(timeout=60)
    assert up.returncode == 0, err
    assert (headgate.folder / "seen").read_text() == ""
    was = (headgate.folder / "was").read_text()
    assert "HEADGATE_DATABASE_URL" in was
    assert "HEADGATE_CHILD_JOB" not in was
    assert was.endswith(" /dev/null\nheadgate.runtime.hatch 2\n")
    loaded = (headgate.folder / "loaded").read_text().split()
    ours = [name for name in loaded if name.startswith("hg-")]
    assert sorted(ours) == ["hg-check-1", "hg-watch-2", "hg-work-3"]


def test_a_folder_that_is_not_there_is_named(headgate: Headgate) -> None:
    """The source's folder is missing: exit 2, its path, and the command that makes it."""
    assert headgate("init").code == 0
    (headgate.folder / "incoming").rename(headgate.folder / "elsewhere")
    said = headgate("up", "rain.py", "--until-idle")
    assert said.code == 2
    assert str(headgate.folder / "incoming") in said.err
    assert "mkdir" in said.err


@pytest.mark.parametrize("target", ["nowhere.py", "nowhere.at.all:rain"])
def test_a_target_that_is_not_there_is_named(headgate: Headgate, target: str) -> None:
    """A typo in the target is exit 2."""
    said = headgate("up", target, "--until-idle")
    assert said.code == 2
    assert target in said.err


@pytest.mark.parametrize(
    "args", [["--workers", "0"], ["--max-wait", "soon"], ["--metrics-port", "99999"]]
)
def test_an_option_that_cannot_be_is_named(headgate: Headgate, args: list[str]) -> None:
    """A value out of range is exit 2 and says what is allowed."""
    said = headgate("up", "rain.py", *args)
    assert said.code == 2
    assert args[1] in said.err
    assert "Allowed" in said.err


@pytest.mark.parametrize("word", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_quietly_when_told(headgate: Headgate, word: signal.Signals) -> None:
    """Ctrl-C and SIGTERM end it in good order: exit 0, no traceback."""
    assert headgate("init").code == 0
    running = headgate.start("up", "rain.py", "--workers", "1", "--log-level", "error")
    try:
        _until_taken(headgate)
        running.send_signal(word)
        _, err = running.communicate(timeout=30)
    finally:
        running.kill()
    assert running.returncode == 0, err
    assert "Traceback" not in err


def _until_taken(headgate: Headgate) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        said = headgate("status", "--json")
        if said.code == 0 and any(p["finalized"] == 2 for p in said.json["pipelines"]):
            return
        time.sleep(0.1)
    pytest.fail("the files were not taken in")


def test_on_a_terminal_the_figures_are_live(headgate: Headgate) -> None:
    """Workers' warnings and handlers' prints scroll by above the figures; nothing is garbled."""
    assert headgate("init").code == 0
    pipeline = headgate.folder / "rain.py"
    pipeline.write_text(
        pipeline.read_text().replace("    yield", '    print("a handler")\n    yield')
    )
    shown = _on_a_terminal(headgate, "up", "rain.py", "--until-idle", "--workers", "1")
    assert "a handler\r\n" in shown
    assert "pipeline" in shown
    assert "finalized" in shown
    assert "Traceback" not in shown


def test_on_a_terminal_it_is_said_where_the_console_is(headgate: Headgate) -> None:
    """Nobody looks for a port in a log that is not shown."""
    assert headgate("init").code == 0
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    there = Headgate(headgate.zygote, headgate.folder, {**headgate.env, PORT: port})
    shown = _on_a_terminal(there, "up", "rain.py", "--serve", "--until-idle", "--workers", "1")
    assert f"The console is at http://127.0.0.1:{port};" in shown
    with socket.create_server(("127.0.0.1", int(port))):
        taken = there("up", "rain.py", "--serve", "--until-idle")
    assert taken.code == 2
    assert f"hint: Stop who uses it, or set another port: {PORT}." in taken.err


def _on_a_terminal(headgate: Headgate, *args: str) -> str:
    ours, theirs = pty.openpty()
    env = {**CLEAN, **headgate.env, "TERM": "xterm", "COLUMNS": "80"}
    running = headgate.start(*args, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:  # the last end of the terminal was closed
        pass
    finally:
        os.close(ours)
    assert running.wait(timeout=30) == 0, shown.decode()
    return shown.decode()


def test_without_a_database_of_ones_own_a_server_is_embedded(
    zygote: Zygote, open_folder: Path
) -> None:
    """The two commands of the tutorial, in a fresh folder with nothing set."""
    folder = open_folder / "fresh"
    folder.mkdir()
    here = Headgate(zygote, folder, {})
    populate(here)
    assert (folder / ".headgate").is_dir()
    rows = here("db", "psql", "-At", "-c", "SELECT count(*) FROM reading")
    assert rows.out.strip() == "7"


def test_a_metrics_port_that_is_taken_is_named(headgate: Headgate) -> None:
    """Exit 2 before anything starts."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = headgate("up", "rain.py", "--metrics-port", port)
    assert said.code == 2
    assert port in said.err
