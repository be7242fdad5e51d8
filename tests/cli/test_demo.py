"""`headgate demo`: whatever happens to it, the sum in the table is the sum in the files."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from tests.cli.conftest import CLEAN, Headgate

from headgate.cli.demo.lively import Lively
from headgate.cli.demo.world import World

FIELDS = [
    "deliveries", "new", "duplicates", "unchanged", "published", "retried", "quarantined",
    "double_applied", "truth", "naive_error", "headgate_error", "seconds",
]  # fmt: skip
SMALL = ("--files", "40", "--kills", "2", "--json")
PATIENCE_SECONDS = 100


def _start(folder: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "headgate", "demo", folder.name, *SMALL, *more],
        cwd=folder.parent, env=CLEAN, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def _play(folder: Path) -> dict[str, Any]:
    """Run the demo to its end; the one line it leaves on stdout."""
    out, err = _start(folder).communicate()
    (line,) = out.splitlines()
    answer = json.loads(line)
    assert list(answer) == FIELDS
    assert "equal, to the last digit" in err
    assert answer["headgate_error"] == 0
    assert answer["double_applied"] == 0
    assert answer["truth"] == float(_truth(folder / "incoming"))
    told = answer["new"] + answer["duplicates"] + answer["unchanged"]
    assert answer["deliveries"] == told
    return answer


def _truth(folder: Path) -> Decimal:
    total = Decimal(0)
    for path in folder.glob("*-*.csv"):
        with path.open(newline="") as lines:
            total += sum(Decimal(row["mm"]) for row in csv.DictReader(lines))
    return total


def _wait_until(what: str, holds: Any) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not in {PATIENCE_SECONDS} s"
        time.sleep(0.02)


def _landed(folder: Path) -> int:
    return len(list((folder / "incoming").glob("*.csv")))


def _living(folder: Path) -> list[str]:
    """Processes that work in the folder, or were told its name."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            said = (process / "cmdline").read_text().replace("\0", " ")
            if str(folder) in said or str(folder) in os.readlink(process / "cwd"):
                found.append(said)
        except OSError:
            continue
    return found


@pytest.mark.timeout(300)  # two runs and a half, each of a dozen processes
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at processes by /proc")
def test_a_run_that_was_killed_leaves_no_process_and_the_next_ones_are_exact(
    bare: Headgate, open_folder: Path
) -> None:
    """`kill -9` of the demo itself in the middle: what it had started ends too.

    The next run ends it, and the one after that is all no-ops; the sums are exact both times, and
    the ledger knows each file once.
    """
    folder = open_folder / "killed"
    running = _start(folder)
    _wait_until("half of the files have landed", lambda: _landed(folder) >= 20)
    running.kill()
    running.communicate()
    _wait_until("everything has ended", lambda: not _living(folder))
    answer = _play(folder)
    assert 0 < answer["new"] < 42
    assert answer["quarantined"] == 1
    again = _play(folder)
    assert (again["new"], again["published"], again["quarantined"]) == (0, 0, 0)
    assert again["retried"] == 0
    assert again["truth"] == answer["truth"]
    (rain,) = bare.at(folder)("status", "--json").json["pipelines"]
    assert (rain["finalized"], rain["quarantined"]) == (41, 1)
    # Once more for each time that a run found a file touched.
    assert rain["entries"] == 42 + sum(rain["skipped"].values())


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at processes by /proc")
def test_ctrl_c_ends_everything(open_folder: Path) -> None:
    """Exit code 130, no traceback, and no process is left behind."""
    folder = open_folder / "interrupted"
    running = _start(folder)
    _wait_until("the race has begun", lambda: _landed(folder) >= 5)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate()
    assert running.returncode == 130, err
    assert out == ""
    assert "Traceback" not in err
    _wait_until("everything has ended", lambda: not _living(folder))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at processes by /proc")
def test_a_lively_world_goes_on_with_its_console_until_ctrl_c(open_folder: Path) -> None:
    """The link signs in while files come; at the end the sum is exact, and nothing is left."""
    folder = open_folder / "lively"
    running = _start(folder, "--serve")
    assert running.stderr is not None
    links = (re.search(r"http://\S+ticket=\S+", line) for line in running.stderr)
    link = next(found[0] for found in links if found)
    with urllib.request.urlopen(link) as page:
        assert "text/html" in page.headers["content-type"]
    _wait_until("it is lively", lambda: len(list((folder / "incoming").glob("live-*"))) >= 5)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate()
    assert running.returncode == 0, err
    assert json.loads(out)["headgate_error"] == 0
    assert err.count("equal, to the last digit") == 2
    _wait_until("everything has ended", lambda: not _living(folder))


class _Told:
    """Takes its time to be told, and remembers of what."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.asked = asyncio.Event()

    async def tell(self, files: Sequence[str]) -> None:
        self.asked.set()
        await asyncio.sleep(0.05)
        self.files.update(files)


async def test_what_a_station_has_sent_is_told_before_the_world_ends(tmp_path: Path) -> None:
    """Ctrl-C between a file and the notice of it: the notice is given, so the last sum has it."""
    world = World(tmp_path / "world", 40)
    world.build()
    gate = _Told()
    lively = Lively(world, cast("Any", gate), random.Random(1))
    sending = asyncio.create_task(lively.run())
    await gate.asked.wait()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    sent = {path.name for path in world.incoming.glob("live-*")}
    assert sent
    assert gate.files == sent


def test_a_folder_that_is_a_file_is_refused(bare: Headgate) -> None:
    """Exit 2, and the way out is a command."""
    (bare.folder / "notes").write_text("mine")
    said = bare("demo", "notes", "--json")
    assert (said.code, said.out) == (2, "")
    assert "is a file" in said.err
    assert "headgate demo notes-2" in said.err
    assert (bare.folder / "notes").read_text() == "mine"


@pytest.mark.parametrize("name", ["thesis.tex", "headgate.toml", "rain.py"])
def test_a_folder_with_somebodys_files_is_left_alone(bare: Headgate, name: str) -> None:
    """Exit 2, the files are named, and nothing was written."""
    (bare.folder / "work").mkdir()
    (bare.folder / "work" / name).write_text("mine")
    said = bare("demo", "work")
    assert said.code == 2
    assert name in said.err
    assert "headgate demo work-2" in said.err
    assert [p.name for p in (bare.folder / "work").iterdir()] == [name]
    assert (bare.folder / "work" / name).read_text() == "mine"
