"""Processes that begin together and report once. One that fails ends the run, in its own words."""

from __future__ import annotations

import multiprocessing
import queue
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier, Event
from typing import Any

# Children come from a server that has imported the code and done nothing else: they begin at once,
# and what the parent did is not in them.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["bench.gate", "bench.latency", "bench.files", "bench.backfill"])
READY_SECONDS = 120.0

Report = dict[str, float]


class Failed(RuntimeError):
    """A run failed, or is not valid; the text says which and why."""


class Together:
    """What the processes of one run share."""

    def __init__(self, size: int) -> None:
        self._barrier: Barrier = SERVER.Barrier(size)
        self.received: Event = SERVER.Event()  # the receiver has told everything

    def begin(self) -> None:
        """Wait until everybody is ready."""
        self._barrier.wait(READY_SECONDS)

    def abort(self) -> None:
        self._barrier.abort()


Main = Callable[..., Report]


def _child(main: Main, together: Together, out: Any, name: str, args: tuple[Any, ...]) -> None:
    try:
        out.put((name, main(together, *args)))
    except BaseException:
        together.abort()
        out.put((name, traceback.format_exc()))


def run(
    mains: Mapping[str, tuple[Main, tuple[Any, ...]]],
    timeout: float,
    leaving: Sequence[Connection] = (),
) -> dict[str, Report]:
    """Run them all; what each reported, by name. `leaving` are ends of pipes that only they use."""
    together, out = Together(len(mains)), SERVER.Queue()
    children = {
        name: SERVER.Process(target=_child, args=(main, together, out, name, args), daemon=True)
        for name, (main, args) in mains.items()
    }
    for child in children.values():
        child.start()
    for line in leaving:
        line.close()
    reports: dict[str, Report] = {}
    try:
        while len(reports) < len(children):
            name, report = out.get(timeout=timeout)
            if isinstance(report, str):
                raise Failed(f"{name} failed:\n{report}")
            reports[name] = report
    except queue.Empty:
        silent = sorted(children.keys() - reports.keys())
        raise Failed(f"no word from {', '.join(silent)} within {timeout:g} s") from None
    finally:
        for child in children.values():
            child.join(10 if len(reports) == len(children) else 1)
            if child.is_alive():
                child.kill()
                child.join()
    return reports
