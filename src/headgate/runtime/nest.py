"""The nest: children of the supervisor are forked off a process that has imported everything.

To import Headgate takes longer than all else that a child does before it begins, and `up` starts
several. So one process (`hatch.py`) imports it once and waits. It has no user code, no threads and
no connection. A supervisor that has none of these yet either is copied for it; any other starts it
as a process that imports by itself.

For each child it forks a nurse, which forks the child and ends. Left alone, the child is adopted by
the supervisor, who says for that long that it adopts: then it is a child like one that the
supervisor started itself, to be waited for and to be seen stopped. Who kills the nest harms
nobody; the next child comes out of a new one.

Only Linux knows adoption. Elsewhere each child is a Python that imports by itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .job import Job

READY = b"ready"
# To import takes half a second, to fork a few milliseconds; but machines swap.
READY_SECONDS, HATCH_SECONDS = 120.0, 10.0
_SET_ADOPTS, _ADOPTS = 36, 37  # PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER


class NestGone(OSError):
    """Nobody knows whether a child came out of it. The next one comes out of another."""


class Process:
    """A child that was started. Who waits for it says how it `ended`."""

    def __init__(self, pid: int, started: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        self._alive = True
        self._started = started

    def signal(self, number: signal.Signals) -> None:
        """Harmless when it has ended: by then its number may be somebody else's."""
        if self._alive:
            with suppress(ProcessLookupError):  # where SIGCHLD is ignored, nobody waits for it
                os.kill(self.pid, number)

    def ended(self, code: int) -> None:
        """It was waited for."""
        self._alive = False
        if self._started is not None:
            self._started.returncode = code  # or Python would wait for it too


class _Copy:
    """A nest that was forked off its supervisor."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def kill(self) -> None:
        # Where SIGCHLD is ignored nobody waits for it, and its number may be somebody else's.
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> None:
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


class Nest:
    """Where children come from."""

    forks = sys.platform == "linux"

    def __init__(self) -> None:
        self._line: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | _Copy | None = None
        self._ready = False

    def open(self) -> None:
        """Begin to import, and do not wait for it. Harmless when it is open."""
        if not self.forks or self._line is not None:
            return
        with self._laid() as theirs:
            self._process = _python([theirs.fileno()], str(theirs.fileno()))

    def fork(self) -> None:
        """Import what children need here, and open it as a copy of this process.

        That is half the work. Who has threads cannot be copied, and opens it like everybody.
        """
        if not self.forks or self._line is not None or threading.active_count() > 1:
            self.open()
            return
        from .hatch import USUAL, learn, settle

        learn(*USUAL)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # as in `up >&-`
                stream.flush()  # or each child would say it again
        with self._laid() as theirs, _undisturbed():
            if (pid := os.fork()) == 0:
                settle(theirs)
        self._process = _Copy(pid)

    @contextmanager
    def _laid(self) -> Generator[socket.socket]:
        """A line to the nest: its end of it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            yield theirs
        ours.settimeout(READY_SECONDS)
        self._line = ours

    async def ready(self) -> None:
        """Wait until a child could start at once."""
        self.open()
        try:
            await asyncio.to_thread(self._await)
        except NestGone:
            self.close()

    def start(self, job: Job) -> Process:
        """Start a child that has the descriptors of its job. Raises `NestGone`, `OSError`."""
        if not self.forks:
            from .job import VARIABLE

            fds = job.descriptors().values()
            started = _python(fds, env={**os.environ, VARIABLE: job.text()})
            return Process(started.pid, started)
        self.open()
        try:
            self._await()
            pid = self._hatch(job)
            self._check(pid)
        except NestGone:
            self.close()
            raise
        return Process(pid)

    def _await(self) -> None:
        if self._line is not None and not self._ready:
            self._ready = self._hear() == READY
            self._line.settimeout(HATCH_SECONDS)

    def _hatch(self, job: Job) -> int:
        assert self._line is not None
        told = os.memfd_create("job")
        try:
            os.write(told, job.text().encode())
            with _adopting():
                try:
                    socket.send_fds(self._line, [b"!"], [told, *job.descriptors().values()])
                except (ConnectionError, TimeoutError) as error:
                    raise NestGone(str(error)) from error
                said = self._hear()
        finally:
            os.close(told)
        if not said.isdigit():
            raise OSError(f"a child could not be started: {said.decode()}")
        return int(said)

    def _check(self, pid: int) -> None:
        """Is it ours to wait for? Where that is not allowed, nobody is forked from now on."""
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError as error:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self.forks = False
            raise NestGone("this system does not let a process adopt others") from error

    def _hear(self) -> bytes:
        assert self._line is not None
        try:
            said = self._line.recv(1024)
        except (ConnectionError, TimeoutError) as error:  # it may also be stopped
            raise NestGone(str(error)) from error
        if not said:
            raise NestGone("the process that children are forked off has died")
        return said

    def close(self) -> None:
        """Start nobody any more. The children live on."""
        self._ready = False
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._process is not None:
            self._process.kill()  # it may be importing still, and holds nothing of worth
            self._process.wait()
            self._process = None

    def __enter__(self) -> Nest:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _python(
    fds: Iterable[int], *args: str, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        # -P: a queue.py in the current folder must not stand in for Python's own.
        [sys.executable, "-P", "-m", "headgate.runtime.hatch", *args],
        env=env,
        pass_fds=list(fds),
        stdin=subprocess.DEVNULL,
    )


@contextmanager
def _undisturbed() -> Generator[None]:
    """Who asks us to stop meanwhile is heard afterwards: half a copy would not know what to do."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _adopting() -> Generator[None]:
    """Whoever is left alone below us meanwhile becomes our child."""
    import ctypes

    prctl, before = ctypes.CDLL(None).prctl, ctypes.c_int()
    prctl(_ADOPTS, ctypes.byref(before), 0, 0, 0)
    prctl(_SET_ADOPTS, 1, 0, 0, 0)
    try:
        yield
    finally:
        # Not for longer: what handlers leave behind is not ours to wait for.
        prctl(_SET_ADOPTS, before.value, 0, 0, 0)
