"""The demo's third consumer: `headgate up rain.py`, told the same, killed at the same moments.

Most kills hit the worker that has the file, and its supervisor starts another. Some hit all of it
at once, as when a machine goes down, and we start it again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from headgate.errors import HeadgateError
from headgate.ledger import inbox
from headgate.ledger.inbox import Registered
from headgate.model.ports import Known, Noticed, Polled
from headgate.pg import Database
from headgate.runtime import station
from headgate.runtime.intake import count
from headgate.runtime.load import load
from headgate.sources.directory import hint_of
from headgate.sources.walk import uri_of

from .post import Kill, Post
from .standing import ZERO, Standing
from .world import STATIONS, Truth, World

LOOK_EVERY_SECONDS = 0.1
# About what it takes from a claim to its commit.
USUAL_SECONDS = 0.004
PATIENCE_SECONDS = 120.0

WHO = """
SELECT o.pid FROM headgate.entry e JOIN headgate.work w ON w.id = e.id
LEFT JOIN headgate.worker o ON o.id = w.worker WHERE e.uri = $1 ORDER BY e.id DESC LIMIT 1"""
WORKERS = "SELECT pid FROM headgate.worker WHERE buried_at IS NULL ORDER BY id"
PENDING = "SELECT count(*) FROM headgate.work"
# Without what a lively world sent in an earlier run: the others do not get that.
SUM = "SELECT coalesce(sum(mm), 0), count(*) FROM reading WHERE station = ANY($1)"


@dataclass(slots=True)
class Headgate:
    """The pipeline, its processes, and the wire over which it is told."""

    world: World
    truth: Truth
    db: Database
    env: dict[str, str]
    standing: Standing
    _process: Process | None = None
    _to: Registered | None = None
    _source: Polled | None = None
    _known: dict[str, Known] = field(default_factory=dict[str, Known])
    _told: set[str] = field(default_factory=set[str])

    @asynccontextmanager
    async def started(self) -> AsyncGenerator[None]:
        """It runs and is ready to work. However this ends, no process is left behind."""
        (pipeline,) = load(str(self.world.folder / "rain.py"))
        (source,) = [s for s in pipeline.sources if isinstance(s, Polled)]
        self._source = source
        self._to = at = await station.register(self.db, pipeline)
        self._known = await inbox.known(self.db, at.pipeline, source.name)
        # What it was told in an earlier run it has to have from the start.
        self._told = {f for f in self.world.files if self._uri(f) in self._known}
        self._log.unlink(missing_ok=True)
        try:
            await self._start()
            await self._begun("")
            yield
        finally:
            await self._end()

    async def run(self, post: Post) -> None:
        """Take all deliveries in."""
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(self._keep_looking())
            killing = group.create_task(self._kill_as_planned(post))
            await self._tell_all(post)
            await killing
            await self._until_done()
            looking.cancel()

    async def _tell_all(self, post: Post) -> None:
        """Its being down keeps nobody from telling it: what is received is durable."""
        n, deliveries = 0, post.plan.deliveries
        while n < len(deliveries):
            await post.wait_for(n)
            upto = post.released
            await self.tell(deliveries[n:upto])
            self.standing.delivered = n = upto

    async def _kill_as_planned(self, post: Post) -> None:
        for n, file in enumerate(post.plan.deliveries):
            await post.wait_for(n)
            if (kill := post.plan.kills.get(n)) is not None:
                await self._kill(n, file, kill)

    async def look(self) -> None:
        """Read its table and what is still to be done."""
        self.standing.pending = await self.db.fetchval(PENDING)
        if await self.db.fetchval("SELECT to_regclass('reading') IS NOT NULL"):
            row = await self.db.fetchrow(SUM, STATIONS)
            assert row is not None
            self.standing.sum, self.standing.rows = row
        self.standing.true_rows = sum(self.truth.rows[file] for file in self._told)
        self.standing.truth = sum((self.truth.sums[file] for file in self._told), ZERO)

    async def _start(self) -> None:
        with self._log.open("a") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "headgate.cli.demo.held", "up", "rain.py",
                cwd=self.world.folder, env=self.env, stdin=PIPE, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    async def _end(self) -> None:
        """End all of it at once. Nothing is lost: that is the point."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
            self._process = None

    async def tell(self, files: Sequence[str]) -> None:
        """Deliver, in this order. The ledger numbers what it did not know; the rest it counts."""
        source, to, now = self._source, self._to, datetime.now(UTC)
        assert source is not None
        assert to is not None
        fresh: list[Noticed] = []
        again: list[Noticed] = []
        for file in files:
            change = self._change(file, now)
            known = self._known.get(change.uri)
            if known is not None and known.hint == change.hint and not known.removed:
                again.append(change)
            else:
                fresh.append(change)
                # A second notice of it in this batch is one of what the first has told.
                self._known[change.uri] = Known(change.hint, change.expected + 1)
        if fresh:
            receipt = await inbox.poll(
                self.db, to, source.name, fresh, lambda c, g: source.envelope(c, g, now)
            )
            count(source.name, receipt)
            if receipt.admitted < len(fresh):  # its own watcher was quicker
                self._known = await inbox.known(self.db, to.pipeline, source.name)
        if again:
            told = [source.envelope(c, self._known[c.uri].generation, now) for c in again]
            count(source.name, await inbox.receive(self.db, to, source.name, told))
        self._told.update(files)

    def _change(self, file: str, now: datetime) -> Noticed:
        status, uri = (self.world.incoming / file).stat(), self._uri(file)
        known = self._known.get(uri)
        expected = known.generation if known is not None else 0
        return Noticed(uri, "created", hint_of(status), "weak", now, expected, status.st_size)

    @property
    def _log(self) -> Path:
        return self.world.folder / "up.log"

    def _uri(self, file: str) -> str:
        return uri_of(str(self.world.incoming / file))

    async def _kill(self, n: int, file: str, kill: Kill) -> None:
        """Wait until it has begun with the file, or needs not; then, from outside, `kill -9`."""
        victim = await self._begun(file, n)
        await asyncio.sleep(kill.share * USUAL_SECONDS)
        self.standing.kills += 1
        if kill.whole:
            await self._end()
            await self._start()
        elif self._is_ours(victim):
            os.kill(victim, signal.SIGKILL)

    async def some_worker(self) -> int | None:
        """A worker process of ours, if there is one just now."""
        pids = [row["pid"] for row in await self.db.fetch(WORKERS)]
        return next((pid for pid in pids if self._is_ours(pid)), None)

    async def _begun(self, file: str, n: int = -1) -> int:
        """The worker process that has the file, or any of ours when there is nothing to do.

        It is looked for before delivery `n` is told: when that is known, it may be done already.
        """
        uri = self._uri(file)
        async with self._patience():
            while True:
                self._check_it_lives()
                told = self.standing.delivered > n
                row = await self.db.fetchrow(WHO, uri)
                pids = [row[0]] if row is not None else []
                if row is None and told:
                    pids = [r["pid"] for r in await self.db.fetch(WORKERS)]
                for pid in pids:
                    if pid is not None and self._is_ours(pid):
                        return pid
                await asyncio.sleep(0.0005)

    def _is_ours(self, pid: int) -> bool:
        """A process of our own `up`, and of no other."""
        with suppress(ProcessLookupError):
            return self._process is not None and os.getpgid(pid) == self._process.pid
        return False

    async def until_idle(self) -> None:
        """Until its work and its sources are quiet: nothing was left to do for a second."""
        async with self._patience():
            quiet = 0
            while quiet < 10:
                self._check_it_lives()
                quiet = 0 if await self.db.fetchval(PENDING) else quiet + 1
                await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def _until_done(self) -> None:
        async with self._patience():
            while True:
                self._check_it_lives()
                await self.look()
                if not self.standing.pending:
                    return
                await asyncio.sleep(0.05)

    async def _keep_looking(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    @asynccontextmanager
    async def _patience(self) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                yield
        except TimeoutError as error:
            raise HeadgateError(
                f"headgate up rain.py has not done its work in {PATIENCE_SECONDS:.0f} s",
                hint=f"Look at {self._log}. Run the demo again: it goes on from here.",
            ) from error

    def _check_it_lives(self) -> None:
        if self._process is None or self._process.returncode is not None:
            raise HeadgateError(
                "headgate up rain.py ended by itself",
                hint=f"Its last words are in {self._log}.",
            )
