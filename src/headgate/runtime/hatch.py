"""What the nest runs: import once, then fork a child for each job it is sent (`nest.py`).

It is also how a child begins where nobody forks: with its job in the environment.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from headgate.runtime.job import MODULES, VARIABLE, Job
from headgate.runtime.nest import READY

# What every child needs sooner or later, named as it may be above us. No user code is among it.
USUAL = (
    "headgate.runtime.child",
    "headgate.stores.files",
    "headgate.sources.directory",
    "headgate.library.pipeline",
    "uvloop",
)
MOST_DESCRIPTORS = 8


def learn(*modules: str) -> None:
    """Import with no more than is needed.

    structlog takes rich along wherever there is rich, for tracebacks that we print plainly; and
    nothing of what is imported is garbage.
    """
    gc.disable()
    hidden = "rich" not in sys.modules
    if hidden:
        sys.modules["rich"] = None  # pyright: ignore[reportArgumentType]  (so that importing it fails)
    try:
        for module in modules:
            try:
                import_module(module)
            except ImportError:  # not every machine has uvloop, or one that can be loaded
                if module.startswith("headgate."):
                    raise
    finally:
        if hidden:
            del sys.modules["rich"]  # a handler may want it
        gc.enable()


def serve(line: socket.socket) -> NoReturn:
    """Fork a child for every job that comes, until the supervisor is gone."""
    try:
        while True:
            said, fds, _, _ = socket.recv_fds(line, 16, MOST_DESCRIPTORS)
            if not said:
                break
            try:
                answer = _hatch(line, fds)
            except OSError as error:
                answer = str(error)
            for fd in fds:
                os.close(fd)
            line.send(answer.encode())
    except ConnectionError:
        pass
    os._exit(0)  # without a supervisor, its children end by themselves too


def _hatch(line: socket.socket, fds: list[int]) -> str:
    """Fork a nurse that forks a child; the number of the child, when the nurse is gone."""
    read, write = os.pipe()
    with open(read, "rb") as said:
        try:
            nurse = os.fork()
            if nurse == 0:
                try:
                    child = os.fork()
                    if child == 0:
                        for fd in (read, write, line.fileno()):
                            os.close(fd)
                        _begin(fds)
                    os.write(write, str(child).encode())
                except BaseException as error:  # nothing of this may go on as if it were the nest
                    os.write(write, str(error).encode())
                finally:
                    os._exit(0)
        finally:
            os.close(write)
        os.waitpid(nurse, 0)
        return said.read().decode()


def _begin(fds: list[int]) -> NoReturn:
    """From here on this process is a child."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # SIGINT is the supervisor's
        told, *theirs = fds
        job = Job.parse(os.pread(told, os.fstat(told).st_size, 0)).holding(theirs)
        os.close(told)
        _be_called(job.name)
        become(job)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(1)


def _be_called(name: str) -> None:
    """What `top` and `ps -o comm` show: those of one nest are all started by the same words."""
    with suppress(OSError), open("/proc/self/comm", "w", encoding="utf-8") as comm:
        comm.write(f"hg-{name}")


def become(job: Job) -> NoReturn:
    """Do a job, and end."""
    learn(MODULES[job.kind])
    import_module(MODULES[job.kind]).begin(job)
    raise AssertionError("a child ends by itself")


def sit(line: socket.socket) -> NoReturn:
    """Be the nest."""
    # It ends with its supervisor and not before: Ctrl-C reaches everybody at a terminal. SIGTERM is
    # blocked, not ignored: a child that is asked to stop before it has begun hears of it then.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGTERM})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # who ignores it cannot wait for anybody
    _be_called("nest")
    learn(*USUAL)
    gc.freeze()
    with suppress(ConnectionError):  # then there is nobody to serve
        line.send(READY)
    serve(line)


def settle(line: socket.socket) -> NoReturn:
    """Be the nest in a copy of its supervisor: nothing that is open there is open here."""
    try:
        kept = line.fileno()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for fd in map(int, os.listdir("/proc/self/fd")):
            if fd > 2 and fd != kept:
                with suppress(OSError):  # one was open only to look
                    os.close(fd)
        # Like `python -P -m headgate.runtime.hatch`.
        sys.modules["__main__"] = sys.modules[__name__]
        sys.argv = [__file__, str(kept)]
        if not sys.flags.safe_path:
            del sys.path[:1]
        sit(line)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def main() -> NoReturn:
    """The nest, on the line that the command names; or, without one, a child."""
    if len(sys.argv) < 2:
        become(Job.parse(os.environ.pop(VARIABLE)))
    sit(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
