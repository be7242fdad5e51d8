"""A child of the supervisor: the process that has user code in it.

`check` imports the pipelines and says what they are; `watch` looks at their sources; `work` runs
their handlers. `project` writes files from the ledger, and has no user code. A child whose
supervisor is gone stops by itself.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn, cast

from headgate.errors import HeadgateError, LedgerUnavailable, UsageError
from headgate.model import crash, trace
from headgate.model.entry import Point
from headgate.model.pipeline import Pipeline
from headgate.model.ports import Pushed
from headgate.model.signal import listen
from headgate.net.guard import Guard, install
from headgate.telemetry.log import Format, configure, get_logger
from headgate.telemetry.relay import Collector
from headgate.telemetry.spans import Gathered

from . import station
from .hear import Listener, listeners
from .job import LEDGER_AWAY, Job, Message
from .ledger_home import connected
from .load import load
from .loop import run
from .marker import Marker
from .project import Projector
from .replays import pins_of
from .work import Worker

SIGNALS_EVERY_SECONDS = 0.5
KILLED_AT_ONCE = 70


class Child:
    """One process's life, from its job to its exit code."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.stopping = asyncio.Event()
        self._collector = Collector()
        self._spans = Gathered()

    async def main(self) -> int:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._asked_to_stop)
        loop.add_signal_handler(signal.SIGINT, lambda: None)  # the supervisor decides
        loop.add_reader(self.job.life, self._supervisor_is_gone)
        stop_listening = listen(self._collector.hear)
        if self.job.tuning.otlp_endpoint:
            trace.export_to(self._spans.hear, self.job.tuning.trace_share)
        telling = asyncio.create_task(self._tell_signals())
        try:
            pipelines = [p for target in self.job.targets for p in load(target)]
            # What lives for one batch need not be looked at by the cycle collector again and again.
            gc.freeze()
            gc.set_threshold(20_000, 20, 100)
            return await self.do(pipelines)
        except UsageError as error:
            self._say(
                Message(fatal={"text": str(error), "hint": error.hint, "reason": error.reason})
            )
            return 2
        except LedgerUnavailable as error:
            get_logger("headgate").warning("ledger away", why=str(error))
            return LEDGER_AWAY
        finally:
            telling.cancel()
            stop_listening()
            self._flush_signals()

    async def do(self, pipelines: list[Pipeline]) -> int:
        """The task of this child; its exit code."""
        match self.job.kind:
            case "check":
                self._check(pipelines)
            case "watch":
                await self._watch(pipelines)
            case "work":
                return 0 if await self._work(pipelines) else KILLED_AT_ONCE
            case "project":
                await self._project()
            case other:
                raise UsageError(f"this child cannot {other}")
        return 0

    def _check(self, pipelines: list[Pipeline]) -> None:
        station.check_sources(pipelines)
        known = [
            {
                "name": p.name,
                "deadline_seconds": p.deadline_seconds,
                "sources": len(p.sources),
                "pushed": any(isinstance(s, Pushed) for s in p.sources),
                "catalogued": p.collection is not None,
                "pins": pins_of(p).digest.hex(),
            }
            for p in pipelines
        ]
        self._say(Message(pipelines=known))

    async def _watch(self, pipelines: list[Pipeline]) -> None:
        async with connected(self.job.ledger, connections=4) as db:
            hearing: list[Listener] = []
            for pipeline in pipelines:
                at = await station.register(db, pipeline)
                hearing += listeners(db, pipeline, at, self.job.tuning)

            def told() -> None:
                quiet = all(h.quiet.scanned and not h.quiet.unsettled for h in hearing)
                failing = next((h.quiet.failing for h in hearing if h.quiet.failing), None)
                self._say(Message(quiet=quiet, failing=failing))

            tasks = [asyncio.create_task(h.run(told)) for h in hearing]
            if not hearing:
                self._say(Message(quiet=True))
            stopped = asyncio.create_task(self.stopping.wait())
            done, _ = await asyncio.wait({stopped, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in [stopped, *tasks]:
                task.cancel()
            # A listener may have something in hand that it has to give back.
            await asyncio.gather(stopped, *tasks, return_exceptions=True)
            for task in done - {stopped}:
                task.result()

    async def _project(self) -> None:
        # The thread that names files lets go for each of them, and the one that renders never does:
        # at a millisecond, 2,000 names took half a second instead of 60 ms.
        sys.setswitchinterval(0.00005)
        async with connected(self.job.ledger, connections=4) as db:
            projector = Projector(db, self.job.tuning, self.job.pipelines)

            def told() -> None:
                self._say(Message(lag=projector.failing or ""))

            projecting = asyncio.create_task(projector.run(told))
            stopped = asyncio.create_task(self.stopping.wait())
            await asyncio.wait({projecting, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            projecting.cancel()
            with suppress(asyncio.CancelledError):
                await projecting

    async def _work(self, pipelines: list[Pipeline]) -> bool:
        job = self.job
        marker = Marker(job.marker, job.slots)
        # A handler's thread gives way to the loop this often; the default makes every commit wait.
        sys.setswitchinterval(0.001)
        async with connected(job.ledger) as db:
            paths = await station.paths(db, pipelines, job.tuning)
            worker = Worker(
                db,
                paths,
                job.tuning,
                name=job.name,
                marker=marker,
                registered=lambda number: self._say(Message(worker=number)),
            )
            working = asyncio.create_task(worker.run())
            stopped = asyncio.create_task(self.stopping.wait())
            await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
            worker.stop()
            stopped.cancel()
            return await working

    def _asked_to_stop(self) -> None:
        if self.stopping.is_set():
            os._exit(KILLED_AT_ONCE)
        self.stopping.set()

    def _supervisor_is_gone(self) -> None:
        asyncio.get_running_loop().remove_reader(self.job.life)
        self.stopping.set()

    async def _tell_signals(self) -> None:
        while True:
            await asyncio.sleep(SIGNALS_EVERY_SECONDS)
            self._flush_signals()

    def _flush_signals(self) -> None:
        for line in self._spans.drain():
            self._say(Message(spans=line.decode()))
        if (line := self._collector.drain()) is not None:
            self._say(Message(signals=line.decode()))

    def _say(self, message: Message) -> None:
        try:
            os.write(self.job.control, message.line())
        except OSError:
            self.stopping.set()  # nobody listens any more


def _arm(crash_at: str) -> None:
    """Pull the plug at a named point, the n-th time it is reached (tests and `prove`)."""
    name, _, nth = crash_at.rpartition("#") if "#" in crash_at else (crash_at, "", "1")
    left = int(nth)

    def die() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    crash.arm(Point(name), die)


def main(child: type[Child], job: Job) -> int:
    """Do the job of this process; the exit code."""
    for fd in job.descriptors().values():
        os.set_inheritable(fd, False)
    configure(cast("Format", job.log[0]), job.log[1])
    install(Guard(job.tuning.egress_allow))
    if job.crash_at:
        _arm(job.crash_at)
    try:
        return run(child(job).main)
    except HeadgateError as error:
        get_logger("headgate").error(str(error), hint=error.hint)
        return 1


def end(code: int) -> NoReturn:
    """Handlers may have left threads behind that would keep the process alive."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def begin(job: Job) -> NoReturn:
    """What a process of its own does (`hatch.py`)."""
    end(main(Child, job))
