"""`up`: a supervisor without user code starts the loops, beats for them, and buries the dead.

It survives whatever a handler does: holding the GIL, eating the memory, killing its process. It
does not beat for a child that is stopped or dead, nor past a handler's deadline; a dead child's
work is free at once. SIGTERM drains and releases; a second one stops at once.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from headgate.errors import ConfigError, LedgerRefused, LedgerUnavailable, PipelineError, UsageError
from headgate.ledger import gate, redrive, replay
from headgate.ledger import worker as workers
from headgate.model.signal import OUTAGE, emit, listen
from headgate.pg import Database
from headgate.telemetry import relay
from headgate.telemetry.log import get_logger
from headgate.telemetry.metrics import Metrics
from headgate.telemetry.otlp import Exporter

from . import project
from .brood import NEVER_TIGHT_SECONDS, Brood, Started
from .job import LEDGER_AWAY, Message
from .lane import slots
from .ledger_home import Ledger, connected
from .nest import Nest
from .patience import Patience
from .sweep import Sweeper
from .tuning import Tuning

log = get_logger("headgate.up")

DEADLINE_GRACE_SECONDS = 1.0
STILLBORN_SECONDS = 10.0
STILLBORN_AT_MOST = 8
_FATAL = {e.reason: e for e in (PipelineError, ConfigError, LedgerRefused, UsageError)}

Tick = Callable[[Database], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Known:
    """A pipeline as the check child described it."""

    name: str
    deadline_seconds: float | None
    sources: int
    pushed: bool
    catalogued: bool
    pins: str


async def up(
    targets: Sequence[str],
    ledger: Ledger,
    tuning: Tuning,
    *,
    until_idle: bool = False,
    metrics: Metrics | None = None,
    log_to: tuple[str, str] = ("auto", "info"),
    crash_at: str = "",
    on_tick: Tick | None = None,
    serve_only: bool = False,
    nest: Nest | None = None,
) -> list[gate.Resting]:
    """Run everything until stopped, or until idle; what stays to be done.

    Children come out of the `nest`, which a caller in a hurry opens early.

    With `serve_only`, webhooks and pushes are taken in, and the console, the API and the catalog
    are served, which needs no pipeline at all: others watch and work.

    Raises `UsageError` when the pipelines or the database cannot be used as they are.
    """
    exporter: Exporter | None = None
    if tuning.otlp_endpoint:
        metrics = metrics or Metrics(tuning.env)
        exporter = Exporter(tuning.otlp_endpoint, metrics, tuning.env)
    with nest or Nest() as nest:
        async with connected(ledger) as db:
            supervisor = Supervisor(
                tuple(targets), db, ledger, tuning, metrics, log_to, crash_at, nest
            )
            supervisor.serve_only = serve_only
            supervisor.exporter = exporter
            stop_listening = listen(metrics.hear) if metrics is not None else lambda: None
            try:
                return await supervisor.run(until_idle=until_idle, on_tick=on_tick)
            finally:
                stop_listening()
                if exporter is not None:
                    await asyncio.to_thread(exporter.close)


class Supervisor:
    """One `up`."""

    def __init__(
        self,
        targets: tuple[str, ...],
        db: Database,
        ledger: Ledger,
        tuning: Tuning,
        metrics: Metrics | None,
        log_to: tuple[str, str],
        crash_at: str,
        nest: Nest,
    ) -> None:
        self._db = db
        self._tuning = tuning
        self._metrics = metrics
        self.exporter: Exporter | None = None
        self._pipelines: list[Known] = []
        self._fatal: UsageError | None = None
        self._quiet = False
        self._failing: str | None = None
        self._lag: str | None = None
        self._stops = 0
        self._changed = asyncio.Event()
        self._unburied: list[Started] = []
        self._pause = NEVER_TIGHT_SECONDS[0]
        self._targets = targets
        self._nest = nest
        self._brood = Brood(
            nest, targets, ledger, tuning, log_to, crash_at, self._heard, self._changed.set
        )
        self._sweeper = Sweeper(db, tuning, self._own_workers)
        self._stillborn = 0
        self.serve_only = False

    async def run(self, *, until_idle: bool, on_tick: Tick | None) -> list[gate.Resting]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_stop)
        await self._check()
        if self._tuning.layout:
            from .placed import lay_out

            await lay_out(self._db, self._tuning)
        await workers.bury_dead_here(self._db)
        beside: list[asyncio.Task[object]] = [
            asyncio.create_task(self._sweeper.run()),
            asyncio.create_task(self._beat()),
        ]
        if on_tick is not None:
            beside.append(asyncio.create_task(self._tick(on_tick)))
        left: list[gate.Resting] = []
        try:
            self._start_all()
            idle = asyncio.create_task(self._idle()) if until_idle else None
            if idle is not None:
                beside.append(idle)
            while not self._stops and self._fatal is None:
                await self._wait()
                await self._mourn()
                _raise_from(beside)
                if idle is not None and idle.done():
                    left = idle.result()
                    break
        finally:
            await self._stop_all()
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
        if self._fatal is not None:
            raise self._fatal
        with suppress(LedgerUnavailable):  # it is done at the next start
            await self._sweeper.leave()
        return left

    async def _check(self) -> None:
        """Import the pipelines once, in a child: what they are, and whether they can be used."""
        await self._nest.ready()
        child = self._brood.start("check")
        while child in self._brood.children:
            await self._wait()
            self._brood.reap()
        child.close()
        if self._fatal is not None:
            raise self._fatal
        if not self._pipelines and self._targets:
            raise PipelineError(
                "the pipelines could not be imported: their process died",
                hint="import the file with python itself and look at what it prints",
            )

    def _start_all(self) -> None:
        if self.serve_only or self._tuning.serve or any(p.pushed for p in self._pipelines):
            self._brood.start("serve")
        if self.serve_only:
            return
        if any(p.sources for p in self._pipelines):
            self._brood.start("watch")
        else:
            self._quiet = True
        for _ in range(self._tuning.workers):
            self._start_worker()
        self._brood.catalogued = tuple(p.name for p in self._pipelines if p.catalogued)
        if self._brood.catalogued:
            self._brood.start("project")

    def _start_worker(self) -> None:
        self._brood.start("work", slots=len(self._pipelines) * slots(self._tuning))

    def _heard(self, child: Started, message: Message) -> None:
        if message.pipelines is not None:
            self._pipelines = [Known(**p) for p in message.pipelines]
        if message.quiet is not None:
            self._quiet, self._failing = message.quiet, message.failing
        if message.lag is not None:
            self._lag = message.lag or None
        if message.fatal is not None:
            kind = _FATAL.get(message.fatal["reason"], UsageError)
            self._fatal = kind(message.fatal["text"], hint=message.fatal["hint"])
            self._changed.set()
        if message.signals is not None and self._metrics is not None:
            relay.apply(message.signals.encode(), self._metrics)
        if message.spans is not None and self.exporter is not None:
            self.exporter.take(message.spans.encode())

    async def _mourn(self) -> None:
        """Bury children that ended, free what they held, and start others in their place."""
        self._kill_overdue()
        ended = self._missed()
        await self._bury()
        if not ended or self._stops or self._fatal is not None:
            return
        self._give_up_on(ended)
        if self._fatal is not None:
            return
        # Children that die as soon as they live are started ever more slowly.
        lived = min(time.monotonic() - c.began for c in ended)
        least, most = NEVER_TIGHT_SECONDS
        self._pause = least if lived > 5.0 else min(self._pause * 2, most)
        await asyncio.sleep(self._pause)
        self._brood.disarm()
        for child in ended:
            if child.kind == "work":
                self._start_worker()
            else:
                self._quiet = self._quiet and child.kind != "watch"
                self._brood.start(child.kind)

    def _give_up_on(self, ended: list[Started]) -> None:
        """Children that cannot even begin: say so instead of trying for ever."""
        for child in ended:
            began = child.workers or time.monotonic() - child.began > STILLBORN_SECONDS
            if began or child.exit_code == LEDGER_AWAY:
                self._stillborn = 0
            else:
                self._stillborn += 1
            if self._stillborn >= STILLBORN_AT_MOST:
                self._fatal = UsageError(
                    f"processes end before they begin (exit code {child.exit_code})",
                    hint="Their last words are above. `headgate doctor` looks at the rest.",
                )

    def _own_workers(self) -> set[int]:
        return {w for c in [*self._brood.children, *self._unburied] for w in c.workers}

    async def _bury(self, *, innocent: bool = False) -> None:
        for child in list(self._unburied):
            running = {r.entry for r in child.running()}
            if child.overdue is not None:
                running = {child.overdue}
            try:
                for worker in child.workers:
                    await workers.bury(
                        self._db,
                        worker,
                        "deadline" if child.overdue is not None else "process died",
                        running=running,
                        innocent=innocent,
                        overdue=child.overdue is not None,
                    )
            except LedgerUnavailable:
                emit(OUTAGE)
                return  # tried again with the next change; the lease would free it in any case
            self._unburied.remove(child)
            child.close()

    def _kill_overdue(self) -> None:
        for child in self._brood.children:
            for r in child.running():
                pipeline = self._pipelines[r.slot // slots(self._tuning)]
                deadline = pipeline.deadline_seconds or self._tuning.deadline_seconds
                if r.seconds > deadline + DEADLINE_GRACE_SECONDS and child.overdue is None:
                    log.warning(
                        "handler past its deadline", entry=r.entry, seconds=round(r.seconds)
                    )
                    child.overdue = r.entry
                    child.process.signal(signal.SIGKILL)

    async def _beat(self) -> None:
        while True:
            alive = [
                worker
                for child in self._brood.children
                if not child.suspended and child.overdue is None
                for worker in child.workers[-1:]
            ]
            try:
                await workers.beat(self._db, alive, self._tuning.lease_seconds)
                await asyncio.sleep(self._tuning.heartbeat_seconds)
            except LedgerUnavailable:
                emit(OUTAGE)
                await asyncio.sleep(min(1.0, self._tuning.heartbeat_seconds))

    async def _idle(self) -> list[gate.Resting]:
        # A ledger may hold other pipelines too: their work is shown, and left to their own `up`.
        ours = {p.name for p in self._pipelines}
        pinned = [bytes.fromhex(p.pins) for p in self._pipelines]
        patience = Patience(self._tuning.max_wait_seconds)
        while True:
            # In this order: what a source admits after it said so would show in the ledger.
            quiet, failing, behind = self._quiet, self._failing, False
            try:
                replays = await replay.left(self._db, pinned)
                left = await gate.resting(self._db, self._tuning.max_wait_seconds)
                busy = any(r.ready or r.leased or r.soon for r in left if r.pipeline in ours)
                busy = busy or await redrive.is_busy(self._db, ours)
                busy = busy or any(replays.get(name) for name in ours)
                if quiet and not busy:
                    behind = await project.is_behind(self._db, self._brood.catalogued)
                    failing = self._lag
            except LedgerUnavailable:
                quiet, left, busy = None, [], False
            if quiet and not busy and not behind:
                self._changed.set()
                return left
            patience.wait(None if busy or quiet is None else failing)
            await asyncio.sleep(0.05)

    async def _tick(self, on_tick: Tick) -> None:
        while True:
            with suppress(LedgerUnavailable):  # the loops report it
                await on_tick(self._db)
            await asyncio.sleep(0.5)

    async def _wait(self) -> None:
        """Until something changed; now and then in any case, for deadlines."""
        try:
            async with asyncio.timeout(0.25):
                await self._changed.wait()
        except TimeoutError:
            pass
        self._changed.clear()

    def _asked_to_stop(self) -> None:
        self._stops += 1
        self._changed.set()
        if self._stops == 1:
            log.warning(
                "stopping: running handlers finish, the rest is given back; again stops at once",
                seconds_at_most=self._tuning.drain_seconds,
            )

    def _missed(self, asked: Collection[signal.Signals] = ()) -> list[Started]:
        """Children that ended, to be buried. Who ended without being asked to is said.

        Who was `asked` by these signals may end as it likes, but for another signal.
        """
        ended = self._brood.reap()
        for child in ended:
            code = child.exit_code or 0
            if not asked or (code < 0 and -code not in asked):
                log.warning("child ended", kind=child.kind, pid=child.process.pid, code=code)
        self._unburied += ended
        return ended

    async def _stop_all(self) -> None:
        """Let the children finish or give back what they hold; kill those that do not in time."""
        self._missed()  # also who died right after the last commit, when all was done
        loop = asyncio.get_running_loop()
        until = loop.time() + self._tuning.drain_seconds + 5.0
        asked = {signal.SIGTERM}
        self._brood.signal(signal.SIGTERM)
        while self._brood.children:
            if loop.time() > until or self._stops > 1:
                asked.add(signal.SIGKILL)
                self._brood.signal(signal.SIGKILL)
            await self._wait()
            self._missed(asked)
        await self._bury(innocent=True)


def _raise_from(tasks: Sequence[asyncio.Task[object]]) -> None:
    """An `up` whose beat or sweeper has ended must not look as if it were well."""
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error
