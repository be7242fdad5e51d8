"""Blocking callers share one event loop per process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from headgate.net import loop


async def where() -> tuple[int, str]:
    return id(asyncio.get_running_loop()), threading.current_thread().name


def test_threads_share_one_loop() -> None:
    """However many threads wait, there is one loop, in a thread of its own."""
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: loop.wait(where()), range(50)))
    assert len(found) == 1
    assert found.pop()[1] == "headgate-net"


def test_what_is_kept_is_made_once() -> None:
    """Threads that come at the same time get the same one; none is made to be dropped."""
    made: list[object] = []

    class Kept:
        def __init__(self) -> None:
            made.append(self)

        async def close(self) -> None: ...

    gate = threading.Barrier(4)

    def ask(_: int) -> Kept:
        gate.wait()
        return loop.keep("asked at once", Kept)

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(ask, range(4))) == set(made)
    assert len(made) == 1


def test_what_a_coroutine_raises_is_raised_here() -> None:
    """Errors and time limits reach the caller."""

    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        loop.wait(fail())
    with pytest.raises(TimeoutError):
        loop.wait(asyncio.sleep(5), 0.01)


def test_waiting_on_the_loop_itself_is_an_error() -> None:
    """A deadlock is said, not suffered."""

    async def wait_inside() -> None:
        loop.wait(where())

    with pytest.raises(RuntimeError, match="cannot wait"):
        loop.wait(wait_inside())


def test_a_forked_child_has_a_loop_of_its_own() -> None:
    """The child works, and the parent's loop goes on as if nothing had been."""
    before = loop.wait(where())
    pid = os.fork()
    if pid == 0:
        ok = loop.wait(asyncio.sleep(0, "child"), 5) == "child"
        os._exit(0 if ok else 1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert loop.wait(where(), 5) == before


def test_it_ends_with_the_process() -> None:
    """What is kept is closed, a call that hangs is cancelled, nothing is said on stderr."""
    script = """
import asyncio, threading
from headgate.net import loop, http
http.shared()
class Kept:
    async def close(self): print("closed")
loop.keep("kept", Kept)
async def hang():
    try: await asyncio.sleep(60)
    finally: print("cancelled")
threading.Thread(target=lambda: loop.wait(hang()), daemon=True).start()
loop.wait(asyncio.sleep(0.05))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=20
    )
    assert done.stdout.split() == ["cancelled", "closed"]
    assert "Unclosed" not in done.stderr
    assert done.returncode == 0
