"""The supervisor's children: started, watched, stopped. No user code runs here."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from .job import Job, Kind, Lines, Message
from .ledger_home import Ledger
from .marker import Marker, Running
from .nest import Nest, NestGone, Process
from .tuning import Tuning

NEVER_TIGHT_SECONDS = (0.05, 5.0)


@dataclass(slots=True)
class Started:
    """A child process and what is known of it."""

    kind: Kind
    process: Process
    control: int
    life: int
    marker: Marker | None
    began: float
    lines: Lines = field(default_factory=Lines)
    workers: list[int] = field(default_factory=list[int])
    suspended: bool = False
    overdue: int | None = None
    exit_code: int | None = None

    def running(self) -> list[Running]:
        """Entries whose handlers are, or were, at work."""
        return self.marker.running() if self.marker is not None else []

    def close(self) -> None:
        os.close(self.control)
        if self.life >= 0:
            os.close(self.life)
        if self.marker is not None:
            self.marker.close()


class Brood:
    """All children of one supervisor."""

    def __init__(
        self,
        nest: Nest,
        targets: tuple[str, ...],
        ledger: Ledger,
        tuning: Tuning,
        log: tuple[str, str],
        crash_at: str,
        heard: Callable[[Started, Message], None],
        ended: Callable[[], None],
    ) -> None:
        self.children: list[Started] = []
        self.catalogued: tuple[str, ...] = ()  # pipelines whose files a projector writes
        self._nest = nest
        self._targets = targets
        self._ledger = ledger
        self._tuning = tuning
        self._log = log
        self._crash_at = crash_at
        self._heard = heard
        self._ended = ended
        self._number = 0

    def start(self, kind: Kind, *, slots: int = 0) -> Started:
        """Start a child. It stops by itself when we are gone: our end of `life` closes then."""
        self._number += 1
        try:
            return self._start(kind, slots)
        except NestGone:
            # Whoever came out of it without our knowing finds its `life` closed.
            return self._start(kind, slots)

    def _start(self, kind: Kind, slots: int) -> Started:
        without_code = kind == "project"
        control_read, control_write = os.pipe()
        life_read, life_write = os.pipe()
        os.set_blocking(control_read, False)
        marker = Marker.create(slots) if kind == "work" else None
        job = Job(
            kind=kind,
            targets=() if without_code else self._targets,
            ledger=self._ledger,
            tuning=self._tuning,
            control=control_write,
            life=life_read,
            marker=marker.fd if marker else -1,
            slots=slots,
            name=f"{kind}-{self._number}",
            log=self._log,
            crash_at=self._crash_at,
            pipelines=self.catalogued if without_code else (),
        )
        with ExitStack() as unless_started:
            unless_started.callback(os.close, control_read)
            unless_started.callback(os.close, life_write)
            if marker is not None:
                unless_started.callback(marker.close)
            try:
                process = self._nest.start(job)
            finally:
                os.close(control_write)
                os.close(life_read)
            unless_started.pop_all()
        child = Started(kind, process, control_read, life_write, marker, time.monotonic())
        self.children.append(child)
        asyncio.get_running_loop().add_reader(control_read, self._read, child)
        return child

    def _read(self, child: Started) -> None:
        if not self._take(child):  # the last end of the pipe is closed: the process is gone
            asyncio.get_running_loop().remove_reader(child.control)
            self._ended()

    def disarm(self) -> None:
        """The plug is pulled once: whoever is started from now on lives."""
        self._crash_at = ""

    def reap(self) -> list[Started]:
        """Learn what became of the children: those that ended since, and who is stopped."""
        ended: list[Started] = []
        for child in self.children:
            flags = os.WNOHANG | os.WUNTRACED | os.WCONTINUED
            try:
                pid, status = os.waitpid(child.process.pid, flags)
            except ChildProcessError:
                pid, status = child.process.pid, 0
            if pid == 0:
                continue
            if os.WIFSTOPPED(status):
                child.suspended = True
            elif os.WIFCONTINUED(status):
                child.suspended = False
            else:
                child.exit_code = os.waitstatus_to_exitcode(status)
                child.process.ended(child.exit_code)
                ended.append(child)
        for child in ended:
            self._read_rest(child)
            self.children.remove(child)
        return ended

    def _read_rest(self, child: Started) -> None:
        asyncio.get_running_loop().remove_reader(child.control)
        self._take(child)

    def _take(self, child: Started) -> bool:
        """Hear what lies in the pipe; False when it will never hold more."""
        try:
            while data := os.read(child.control, 1 << 16):
                for message in child.lines.feed(data):
                    if message.worker is not None:
                        child.workers.append(message.worker)
                    self._heard(child, message)
        except BlockingIOError:
            return True
        return False

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every child that is left."""
        for child in self.children:
            child.process.signal(number)
            if child.suspended and number != signal.SIGKILL:
                child.process.signal(signal.SIGCONT)
