"""A naive consumer of the demo: a real process with databases of its own, killed and restarted.

It is handed one delivery after the other, as by a queue. What it did not acknowledge before it
died is delivered again: at least once.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from asyncio.subprocess import PIPE, Process
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from statistics import median

from headgate.errors import HeadgateError

from .post import Kill, Post
from .standing import ZERO, Standing
from .world import Truth, World

LOOK_EVERY_SECONDS = 0.2


@dataclass(slots=True)
class Naive:
    """One of the two scripts."""

    world: World
    truth: Truth
    stem: str
    standing: Standing
    _process: Process | None = None
    _taken: set[str] = field(default_factory=set[str])
    _seconds: list[float] = field(default_factory=lambda: [0.003])

    async def run(self, post: Post) -> None:
        """Take all deliveries in. However it ends, no process is left behind."""
        looked = 0.0
        try:
            for n, file in enumerate(post.plan.deliveries):
                await post.wait_for(n)
                kill = post.plan.kills.get(n)
                while not await self._deliver(file, kill):
                    kill = None
                self._taken.add(file)
                if time.monotonic() - looked > LOOK_EVERY_SECONDS:
                    self.look()
                    looked = time.monotonic()
                self.standing.delivered = n + 1
            self.look()
        finally:
            await self._end()

    def look(self) -> None:
        """Read its table. Only between deliveries: what is half done is no error yet."""
        with closing(sqlite3.connect(self._warehouse, timeout=30)) as db:
            there = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'reading'").fetchone()
            rows = db.execute("SELECT mm FROM reading").fetchall() if there else []
        self.standing.rows = len(rows)
        self.standing.sum = sum((Decimal(mm) for (mm,) in rows), ZERO)
        self.standing.true_rows = sum(self.truth.rows[file] for file in self._taken)
        self.standing.truth = sum((self.truth.sums[file] for file in self._taken), ZERO)

    async def _deliver(self, file: str, kill: Kill | None) -> bool:
        """Hand over one delivery; True when it was acknowledged."""
        process = self._process = self._process or await self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        began = time.monotonic()
        process.stdin.write(f"{file}\n".encode())
        answer = asyncio.create_task(process.stdout.readline())
        if kill is not None:
            # From outside, and blind: so far into the time that a delivery usually takes.
            # In a thread: the loop's clock knows milliseconds only.
            await asyncio.to_thread(time.sleep, kill.share * median(self._seconds[-30:]))
            process.kill()
            self.standing.kills += 1
        acknowledged = await answer == f"{file}\n".encode()
        if kill is not None:
            await self._end()
        elif not acknowledged:
            raise HeadgateError(
                f"naive_{self.stem}.py ended by itself",
                hint=f"Its last words are in {self._last_words}.",
            )
        elif file not in self._taken:
            self._seconds.append(time.monotonic() - began)
        return acknowledged

    async def _start(self) -> Process:
        with self._last_words.open("w") as words:
            # When we are gone its standard input ends, and so does it.
            return await asyncio.create_subprocess_exec(
                sys.executable, f"naive_{self.stem}.py",
                cwd=self.world.folder, stdin=PIPE, stdout=PIPE, stderr=words,
                start_new_session=True,
            )  # fmt: skip

    async def _end(self) -> None:
        if self._process is not None:
            if self._process.returncode is None:
                self._process.kill()
            await self._process.wait()
            self._process = None

    @property
    def _warehouse(self) -> str:
        return str(self.world.folder / "naive" / f"{self.stem}.db")

    @property
    def _last_words(self) -> Path:
        return self.world.folder / "naive" / f"{self.stem}.err"
