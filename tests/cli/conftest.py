"""The command as people run it: a process, an exit code, what it says where.

One server serves all tests; each one that changes something has a database of its own in it.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests import scratch

from headgate.pg import Server, embedded

_NUMBERS = itertools.count(1)
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("HEADGATE_", "PG", "COLUMNS", "FORCE_COLOR"))
}


@dataclass(frozen=True)
class Said:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Zygote:
    """Where commands are forked from (zygote.py)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("zygote.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=CLEAN,
            text=True,
        )

    def run(self, args: tuple[str, ...], cwd: Path, env: dict[str, str]) -> Said:
        out, err = self._folder / "out", self._folder / "err"
        request = {"args": args, "cwd": str(cwd), "env": env, "out": str(out), "err": str(err)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        code = json.loads(self._process.stdout.readline())
        return Said(code, out.read_text(), err.read_text())

    def close(self) -> None:
        self._process.communicate()


@dataclass(frozen=True)
class Headgate:
    """The command, in a folder, with an environment of its own."""

    zygote: Zygote
    folder: Path
    env: dict[str, str]

    def __call__(self, *args: str, **env: str) -> Said:
        return self.zygote.run(args, self.folder, {**CLEAN, **self.env, **env})

    def start(self, *args: str, **options: Any) -> subprocess.Popen[str]:
        """Start it with an interpreter of its own, and do not wait."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [sys.executable, "-m", "headgate", *args],
            cwd=self.folder,
            text=True,
            **{"env": {**CLEAN, **self.env}, **pipes, **options},
        )

    def at(self, folder: Path, **env: str) -> Headgate:
        """The same command in another folder."""
        return Headgate(self.zygote, folder, env or self.env)


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Path]:
    """A folder that the server's user may pass through, unlike pytest's own."""
    with scratch.open_folder("hg-cli-") as folder:
        yield folder


@pytest.fixture(scope="session")
def zygote(open_folder: Path) -> Iterator[Zygote]:
    """One for all of these tests."""
    zygote = Zygote(open_folder)
    yield zygote
    zygote.close()


@pytest.fixture(scope="session")
def server(open_folder: Path) -> Iterator[Server]:
    """One server for all of these tests."""
    with embedded.start(open_folder / "shared") as server:
        yield server


def new_folder(open_folder: Path, name: str) -> Path:
    """A folder of this name that nobody used before: a module may begin twice in one process."""
    folder = open_folder / str(next(_NUMBERS)) / name
    folder.mkdir(parents=True)
    return folder


def new_database(server: Server, template: str = "template1") -> str:
    """The address of a new database, empty or a copy of another."""
    return scratch.create(server.url, f"cli_{next(_NUMBERS)}", template)


@pytest.fixture
def headgate(zygote: Zygote, tmp_path: Path, server: Server) -> Iterator[Headgate]:
    """The command, in an empty folder, on an empty database."""
    url = new_database(server)
    yield Headgate(zygote, tmp_path, {"HEADGATE_DATABASE_URL": url})
    scratch.drop(url)


@pytest.fixture
def bare(zygote: Zygote, tmp_path: Path) -> Headgate:
    """The command, in an empty folder, with nothing set."""
    return Headgate(zygote, tmp_path, {})


@dataclass(frozen=True)
class Populated:
    """A folder where a pipeline has run, and what `up` said at its end."""

    headgate: Headgate
    said: Said


@pytest.fixture(scope="session")
def populated(zygote: Zygote, open_folder: Path, server: Server) -> Populated:
    """A pipeline that has taken in two good files and two bad ones."""
    folder = open_folder / "world"
    headgate = Headgate(zygote, folder, {"HEADGATE_DATABASE_URL": new_database(server)})
    folder.mkdir()
    return Populated(headgate, populate(headgate))


@pytest.fixture(scope="session")
def world(populated: Populated) -> Headgate:
    """The command there. Look, but change nothing."""
    return populated.headgate


@pytest.fixture
def copied(world: Headgate, server: Server) -> Iterator[Headgate]:
    """The same on a copy of the database: change what you like."""
    with copy_of(world, server) as copy:
        yield copy


@contextmanager
def copy_of(headgate: Headgate, server: Server) -> Iterator[Headgate]:
    """The command in the same folder, on a copy of its database."""
    original = headgate.env["HEADGATE_DATABASE_URL"].partition("@/")[2].partition("?")[0]
    copy = new_database(server, original)
    yield headgate.at(headgate.folder, HEADGATE_DATABASE_URL=copy)
    scratch.drop(copy)


def populate(headgate: Headgate) -> Said:
    """Take in two good files and two bad ones."""
    assert headgate("init").code == 0
    pipeline = headgate.folder / "rain.py"
    pipeline.write_text(pipeline.read_text().replace('"incoming/")', '"incoming/", settle=0)'))
    (headgate.folder / "incoming" / "empty.csv").write_text("")
    (headgate.folder / "incoming" / "bad.csv").write_text("station,at,mm\noslo-1,yesterday,1\n")
    done = headgate("up", "rain.py", "--until-idle", "--workers", "1")
    assert done.code == 0, done.err
    return done
