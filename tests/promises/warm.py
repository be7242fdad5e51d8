"""`up` as a process of its own, without waiting for an interpreter: forked off one that is warm.

One process for all tests imports Headgate and waits. For each `up` it forks a nurse, which forks
the `up` and ends; left alone, it is adopted by the tests and is a child of theirs, as one that they
started themselves would be. What `up` is told comes as JSON; what became of it goes to stdout as
JSON. Only Linux knows adoption: elsewhere each is a Python of its own.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from headgate.runtime import nest

# -P: beside this file is a queue.py, which must not stand in for Python's own.
PYTHON = [sys.executable, "-P", __file__]
MOST_BYTES = 1 << 17


class Forked:
    """A child that was adopted: what tests need of a `Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ends = os.pidfd_open(pid)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float) -> int:
        if self.returncode is None:
            if not select.select([self._ends], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("up", timeout)
            os.close(self._ends)
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


def start(told: dict[str, Any], folder: Path, out: int, err: int) -> Forked | subprocess.Popen[str]:
    """`up` in this folder, as the environment is now."""
    request = json.dumps({"told": told, "folder": str(folder), "environ": dict(os.environ)})
    if sys.platform != "linux":
        command = [*PYTHON, request]
        null = subprocess.DEVNULL
        return subprocess.Popen(command, stdin=null, stdout=out, stderr=err, text=True)
    line = _warm()
    with nest._adopting():
        socket.send_fds(line, [request.encode()], [out, err])
        return Forked(int(line.recv(32)))


@cache
def _warm() -> socket.socket:
    """The line to a process that has imported everything. It ends with us."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_BYTES)
    with theirs:
        fd = theirs.fileno()
        subprocess.Popen([*PYTHON, "--serve", str(fd)], pass_fds=[fd], cwd="/")
    return ours


def _serve(line: socket.socket) -> None:
    from headgate.runtime.hatch import USUAL, learn

    learn(*USUAL, "headgate.runtime.supervise")
    gc.freeze()
    while True:
        request, fds, _, _ = socket.recv_fds(line, MOST_BYTES, 2)
        if not request:
            return
        read, write = os.pipe()
        if (nurse := os.fork()) == 0:
            if (child := os.fork()) == 0:
                os.close(read)
                os.close(write)
                line.close()
                _become(request, fds)
            os.write(write, str(child).encode())
            os._exit(0)
        os.waitpid(nurse, 0)
        line.send(os.read(read, 32))
        for fd in (read, write, *fds):
            os.close(fd)


def _become(request: bytes, fds: list[int]) -> NoReturn:
    code = 70
    try:
        for number, fd in enumerate([os.open(os.devnull, os.O_RDONLY), *fds]):
            os.dup2(fd, number)
            os.close(fd)
        code = _run(request)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run(request: str | bytes) -> int:
    asked = json.loads(request)
    os.environ.clear()
    os.environ.update(asked["environ"])
    os.chdir(asked["folder"])
    return _up(asked["told"])


def _up(told: dict[str, Any]) -> int:
    """The process under test."""
    from headgate.errors import HeadgateError
    from headgate.ledger import quarantine
    from headgate.model import crash
    from headgate.model.entry import Point
    from headgate.runtime.ledger_home import Ledger, connected
    from headgate.runtime.loop import run
    from headgate.runtime.supervise import up
    from headgate.runtime.tuning import Tuning
    from headgate.telemetry.log import configure
    from headgate.telemetry.metrics import Metrics

    ledger = Ledger(told["url"], Path(told["home"]))
    if told["deaf"]:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    brooding = nest.Nest()
    if not told["release"]:
        brooding.fork()  # as `headgate up` does
    if told["die_at"]:
        point, _, nth = told["die_at"].partition("#")
        times = iter(range(1, int(nth or 1)))

        def die() -> None:
            if next(times, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)

        crash.arm(Point(point), die)

    async def release() -> list[Any]:
        async with connected(ledger) as db:
            rows = await db.fetch("SELECT entry FROM headgate.quarantine")
            await quarantine.release(db, [r["entry"] for r in rows], because="republished")
        return []

    async def work() -> list[Any]:
        left = await up(
            told["targets"],
            ledger,
            Tuning(**told["tuning"]),
            until_idle=told["until_idle"],
            metrics=metrics,
            log_to=("json", "info"),
            crash_at=told["crash_at"],
            nest=brooding,
        )
        return [(r.pipeline, r.ready, r.leased, r.soon, r.later) for r in left]

    metrics = Metrics()
    configure("json", "info")
    try:
        left = run(release if told["release"] else work)
        said = {"left": left, "metrics": metrics.text().decode()}
        code = 0
    except HeadgateError as error:
        said = {"error": type(error).__name__, "text": str(error), "hint": error.hint}
        code = 2
    print(json.dumps(said), flush=True)
    return code


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        _serve(socket.socket(fileno=int(sys.argv[2])))
    else:
        sys.exit(_run(sys.argv[1]))
