"""What a process of a world does: deliver, work, die where it is told to.

The path is the real one, with a real worker. Only three things are put in its place: where bytes
come from (copies of the samples, under the uris of the originals), where they are kept, and how
long a retry waits.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from headgate.errors import ObjectMissing, UsageError
from headgate.ledger import budget, call, gate, inbox, quarantine
from headgate.ledger.inbox import Registered
from headgate.model import crash
from headgate.model.entry import Point
from headgate.model.envelope import Envelope, ordinal
from headgate.model.pipeline import Pipeline
from headgate.model.ports import Known, Noticed, Scan
from headgate.model.verdict import RetryPlan
from headgate.pg import Database
from headgate.runtime import station
from headgate.runtime.load import load
from headgate.runtime.sweep import Sweeper
from headgate.runtime.tuning import Tuning
from headgate.runtime.work import Worker
from headgate.telemetry.log import configure

from . import failing
from .witness import Conditions, Place, watch

# Enough for every handler to fail once, for a few deaths, and for nobody to wait.
PLAN = RetryPlan("prove", 20, 3600, 0.005, 0.01, "full")
SOON_SECONDS = 30.0
RECEIVED_AT = datetime(2026, 1, 1, tzinfo=UTC)
# Not a point of the path: the one window in which a foreign call may be made again.
CALLED = "called"


class Actor:
    """One process of one world."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self._points: Counter[str] = Counter()
        self._log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        configure("json", "error")
        trace = job["trace"]
        place = Place(
            file=Path(job["target"]),
            work=Path(job["work"]),
            shadow=Path(job["shadow"]),
            real=[Path(folder) for folder in job["real"]],
            dsn=job["dsn"],
            log=Path(job["log"]),
            trace=None if trace is None else Path(trace),
            free=[Path(folder) for folder in job["free"]],
            network=job["network"],
        )
        eye = watch(place, Conditions(job["clock"], job["seed"], job["listing"]))
        self._declared = load(job["target"])
        if job["kind"] == "look":
            return
        self._pipeline = next(p for p in self._declared if p.name == job["pipeline"])
        eye.attach(self._pipeline)
        samples = [Sample(**one) for one in job["samples"]]
        self._pipeline.sources = (Samples(samples),)
        self._pipeline.store = job["store"]
        self._pipeline.retry = PLAN
        # What is late follows from the order of admission, which is what some worlds change.
        self._pipeline.event_time = None
        folder = Path(job["target"]).parent
        failing.prepare(self._pipeline, job["failing"], Path(job["marks"]), folder, self._tell)

    def look(self) -> dict[str, Any]:
        """Which pipelines the file declares, what they would be told about, and what is theirs."""
        return {"pipelines": [_about(p, self.job["uris"]) for p in self._declared]}

    async def play(self) -> dict[str, Any]:
        """Deliver and work until there is nothing left to do; which points were passed."""
        job = self.job
        self._arm(job["crash"])
        # On a server that may lose commits: it is gone in a minute anyway.
        async with await Database.open(job["dsn"], max_size=6, allow_unsafe=True) as db:
            sweeper = Sweeper(db, Tuning(grace_seconds=0))
            if job["again"]:
                await sweeper.sweep()
            tuning = Tuning(concurrency=job["concurrency"], poll_seconds=0.02, drain_seconds=5)
            (path,) = await station.paths(db, [self._pipeline], tuning)
            worker = Worker(db, [path], tuning, name="prove")
            await self._act(db, worker, path.at)
            await sweeper.anchor()
        return {"points": dict(self._points)}

    async def _act(self, db: Database, worker: Worker, to: Registered) -> None:
        working: asyncio.Task[bool] | None = None
        batches = self._batches()
        if self.job["pace"] == "before":  # all is delivered before the work begins
            for batch in batches:
                await inbox.receive(db, to, "prove", batch)
            batches = []
        try:
            working = asyncio.create_task(worker.run())
            for batch in batches:
                await inbox.receive(db, to, "prove", batch)
                if self.job["pace"] == "each":
                    await _idle(db, working)
            await _idle(db, working)
            if self.job["failing"] == "aside":
                await _release(db)
                await _idle(db, working)
        finally:
            worker.stop()
            if working is not None:
                await working

    def _batches(self) -> list[list[Envelope]]:
        samples = [Sample(**one) for one in self.job["samples"]]
        batches: list[list[int]] = self.job["deliver"]
        return [[samples[n].envelope() for n in batch] for batch in batches]

    def _arm(self, crash_at: str) -> None:
        name, _, nth = crash_at.partition("#")
        for point in Point:
            deadly = int(nth) if point.value == name else 0
            crash.arm(point, lambda p=point.value, n=deadly: self._passed(p, n))
        done = call.done

        async def called(*args: Any) -> None:
            self._passed(CALLED, int(nth) if name == CALLED else 0)
            await done(*args)

        call.done = called

    def _passed(self, point: str, deadly: int) -> None:
        self._points[point] += 1
        if self._points[point] == deadly:
            self._tell({"what": "crash", "point": point, "hit": deadly, "detail": {}})
            os.kill(os.getpid(), signal.SIGKILL)

    def _tell(self, record: Mapping[str, Any]) -> None:
        # One write: a kill loses nothing that was told before it.
        os.write(self._log, orjson.dumps(record) + b"\n")


async def _idle(db: Database, working: asyncio.Task[bool]) -> None:
    """Wait until nothing is ready, held or due soon."""
    while not working.done():
        left = await gate.resting(db, SOON_SECONDS)
        if not any(r.ready or r.leased or r.soon for r in left):
            return
        await asyncio.sleep(0.015)
    working.result()


async def _release(db: Database) -> None:
    """Let run again what was set aside on purpose."""
    rows = await db.fetch("SELECT entry FROM headgate.quarantine WHERE reason = $1", failing.REASON)
    entries = [r["entry"] for r in rows]
    # All of many samples failed, which spends the error budget: it allows a few at a time.
    for at in range(0, len(entries), budget.A_TRY):
        await quarantine.release(db, entries[at : at + budget.A_TRY], because="proved")


class Sample:
    """A copy of a sample, told about as the original would be."""

    def __init__(self, uri: str, path: str, event_time: str, size: int, media: str | None) -> None:
        self.uri = uri
        self.path = path
        self._event_time = datetime.fromisoformat(event_time)
        self._size = size
        self._media = media

    def envelope(self) -> Envelope:
        return Envelope(
            event_id=f"1@{self.uri}"[:1024],
            source="file:created",
            provider="file",
            detector="manifest",
            uri=self.uri,
            version_hint="1",
            strength="weak",
            size=self._size,
            content_type=self._media,
            event_time=self._event_time,
            clock="object",
            received_at=RECEIVED_AT,
            sequence=ordinal(1),
            generation=1,
        )


class Samples:
    """The samples as a source: nothing is detected, everything is told by hand."""

    name = "prove"
    every_seconds = 3600.0

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._paths = {sample.uri: sample.path for sample in samples}

    def check(self) -> None:
        """There is nothing to check."""

    def scan(self, known: Mapping[str, Known], now: datetime) -> Scan:
        return Scan([], 0)

    def envelope(self, change: Noticed, generation: int, received_at: datetime) -> Envelope:
        raise UsageError("samples are not scanned for")

    def owns(self, uri: str) -> bool:
        return uri in self._paths

    def fetch(self, envelope: Envelope) -> Iterator[bytes]:
        try:
            with open(self._paths[envelope.uri], "rb") as body:
                while chunk := body.read(1 << 20):
                    yield chunk
        except OSError as error:
            raise ObjectMissing(f"the copy of {envelope.uri} is gone: {error}") from error


def _about(pipeline: Pipeline, uris: Sequence[Sequence[str]]) -> dict[str, Any]:
    """`uris` are the names of each sample: its own, and that of its copy among the others."""
    owned = (any(s.owns(uri) for s in pipeline.sources for uri in names) for names in uris)
    handlers = (pipeline.validators, pipeline.row_steps, pipeline.transforms, pipeline.applies)
    return {
        "name": pipeline.name,
        "owns": all(owned),
        "tables": [r.table.label for r in pipeline.row_steps],
        "handlers": sum(map(len, handlers)) + (pipeline.item_step is not None),
    }
