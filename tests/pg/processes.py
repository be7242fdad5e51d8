"""Clients of an embedded server as processes of their own, and ways to look at processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import headgate.pg
from headgate.pg.keeper import is_postmaster, read_postmaster

SOURCE = Path(headgate.pg.__file__).parents[2]

_CLIENT = """
import sys
from pathlib import Path
from headgate.pg import embedded
server = embedded.start(Path(sys.argv[1]))
print(server.url, flush=True)
sys.stdin.read()
"""


class Client:
    """A process that holds a server until it is told to go, or is killed."""

    def __init__(self, home: Path, *, python: str = sys.executable, **options: Any) -> None:
        packages = Path(asyncpg.__file__).parents[1]
        self.process = subprocess.Popen(
            [python, "-c", _CLIENT, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PYTHONPATH": f"{SOURCE}:{packages}", "PATH": os.environ["PATH"]},
            cwd="/",
            text=True,
            **options,
        )

    def url(self) -> str:
        """Wait until it is attached."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        line = self.process.stdout.readline().strip()
        assert line, self.process.stderr.read()
        return line

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.communicate()

    def leave(self) -> None:
        """End in good order."""
        self.process.communicate("")


def python_for(uid: int) -> str:
    """A Python of this version that the user may run: this one may be in root's home."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/python{version}"):
        try:
            subprocess.run([python, "-c", ""], user=uid, check=True, cwd="/", capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    pytest.skip(f"NOT TESTED: uid {uid} may run no Python {version} here")


def keeper_pid(home: Path) -> int:
    return int((home / "postgres" / "keeper.lock").read_text())


def server_pid(data: Path) -> int:
    found = read_postmaster(data)
    assert found is not None
    return found.pid


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def settled(home: Path) -> None:
    """Wait until neither server nor keeper of this home is there."""
    pid = keeper_pid(home)
    eventually(lambda: not is_running(pid) and not is_serving(home / "postgres" / "data"))


def eventually(what: Callable[[], object], *, seconds: float = 10.0) -> None:
    """Wait for something that only shows in the process table or the file system."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """True for a process that is there and not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def is_serving(data: Path) -> bool:
    found = read_postmaster(data)
    return found is not None and found.ready and is_postmaster(found.pid, data)
