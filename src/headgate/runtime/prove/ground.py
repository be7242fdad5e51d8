"""The ground that worlds are played on: a private server, and processes that play.

All of it lies in one temporary folder and is gone at the end, however that comes. Several proofs
may share it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from headgate.errors import HeadgateError, UsageError
from headgate.ledger import FUNCTIONS, MIGRATIONS
from headgate.pg import Database, migrate, queries
from headgate.pg.driver import PostgresError
from headgate.runtime.rehearse import scratch

Q = queries.load(__file__)
SEED = 0  # of hashes, where nothing else is asked for
KEPT = 2  # stages with other seeds
OLD = 40  # databases of worlds that are over, some 9 MB each
# Nothing here has to survive a power cut, and a database is made and dropped for each world.
_CARELESS = ("fsync", "full_page_writes", "synchronous_commit", "autovacuum")


class TooLong(HeadgateError):
    """A process of a world did not come to its end."""


@asynccontextmanager
async def ground() -> AsyncGenerator[Ground]:
    """A fresh one, for the length of the block."""
    async with scratch() as db:
        for setting in _CARELESS:
            await db.execute(f"ALTER SYSTEM SET {setting} = off")
        await db.execute("SELECT pg_reload_conf()")
        await db.execute("CREATE DATABASE ledger")
        async with await _open(db.url, "ledger") as ledger:
            await migrate.migrate(ledger, MIGRATIONS, FUNCTIONS)
            await ledger.execute(Q.ground)
        reading, writing = os.pipe()
        made = Ground(db, db.folder, reading)
        try:
            yield made
        finally:
            os.close(writing)  # whoever still plays ends with this
            os.close(reading)
            await made.close()


async def _open(url: str, name: str) -> Database:
    return await Database.open(address(url, name), max_size=2, allow_unsafe=True)


def address(url: str, name: str) -> str:
    """The same server, another database."""
    return url.replace("@/postgres?", f"@/{name}?")


@dataclass(eq=False)
class Ground:
    """A server whose databases cost nothing, a folder, and stages."""

    db: Database
    folder: Path
    life: int
    _number: int = 0
    _old: list[str] = field(default_factory=list[str])
    _stages: dict[int, Stage] = field(default_factory=dict[int, "Stage"])

    def number(self) -> int:
        """One that nobody else has."""
        self._number += 1
        return self._number

    async def template(self, setup: str | None, uris: list[str]) -> str:
        """A database with an empty ledger, the user's own tables, and the samples' numbers."""
        name = f"proof_{self.number()}"
        await self.db.execute(f"CREATE DATABASE {name} TEMPLATE ledger STRATEGY FILE_COPY")
        async with await _open(self.db.url, name) as db:
            if setup is not None:
                try:
                    await db.execute(setup)
                except PostgresError as error:
                    raise UsageError(
                        f"the setup SQL failed: {error}",
                        hint="It runs on an empty database; make it complete.",
                    ) from error
            await db.execute(Q.samples, uris)
        return name

    async def database(self, template: str) -> str:
        """A copy of a template: its name."""
        name = f"world_{self.number()}"
        await self.db.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return name

    async def drop(self, name: str) -> None:
        """It is not needed any more; it goes when there are many, or with all the rest.

        Some file systems are slow to make files where many were just removed, and a database is
        three hundred of them.
        """
        self._old.append(name)
        if len(self._old) > OLD:
            await self.db.execute(f"DROP DATABASE {self._old.pop(0)} WITH (FORCE)")

    def address(self, name: str) -> str:
        return address(self.db.url, name)

    async def run(self, job: Mapping[str, Any], seed: int, patience_seconds: float) -> int:
        """How the process of a job ended, in an interpreter that hashes by `seed`."""
        stage = self._stages.setdefault(seed, Stage(seed, self.life))
        try:
            return await stage.run({**job, "number": self.number()}, patience_seconds)
        finally:
            await self._retire()

    async def _retire(self) -> None:
        """Close interpreters that are not likely to be asked for again: each costs memory."""
        strange = [s for s in self._stages.values() if s.seed != SEED and not s.at_work]
        for stage in strange[:-KEPT]:
            del self._stages[stage.seed]
            await stage.close()

    async def close(self) -> None:
        for stage in self._stages.values():
            await stage.close()


class Stage:
    """A process that forks for each job (stage.py)."""

    def __init__(self, seed: int, life: int) -> None:
        self.seed = seed
        self.at_work: dict[int, asyncio.Queue[dict[str, int]]] = {}
        self._life = life
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._hearing: asyncio.Task[None] | None = None

    async def run(self, job: Mapping[str, Any], patience_seconds: float) -> int:
        """How the process of this job ended. Whatever happens, nothing of it is left."""
        answers = self.at_work[job["number"]] = asyncio.Queue[dict[str, int]]()
        pid = 0
        try:
            async with self._starting:
                process = self._process or await self._start()
            assert process.stdin is not None
            process.stdin.write(orjson.dumps(job) + b"\n")
            pid = (await answers.get())["pid"]
            async with asyncio.timeout(patience_seconds):
                return (await answers.get())["code"]
        except TimeoutError:
            _kill(pid, os.kill)
            await answers.get()
            raise TooLong(f"it did not end within {patience_seconds:g} s") from None
        except asyncio.CancelledError:
            if pid:
                _kill(pid, os.kill)
            raise
        except KeyError:
            raise HeadgateError(
                "the stage of the proof ended", hint="Run it again with --debug."
            ) from None
        finally:
            del self.at_work[job["number"]]
            if pid:
                _kill(pid, os.killpg)  # what its handlers started

    async def _start(self) -> asyncio.subprocess.Process:
        # A session of its own: Ctrl-C is for whoever started the proof.
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # the folder we are in is the user's own, not a copy
            "-m",
            "headgate.runtime.prove.stage",
            str(self._life),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": str(self.seed)},
            pass_fds=(self._life,),
            start_new_session=True,
        )
        self._hearing = asyncio.create_task(self._hear(self._process))
        return self._process

    async def _hear(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            said: dict[str, int] = orjson.loads(line)
            if (answers := self.at_work.get(said["job"])) is not None:
                answers.put_nowait(said)
        for answers in self.at_work.values():
            answers.put_nowait({})

    async def close(self) -> None:
        if self._process is None or self._hearing is None:
            return
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        self._hearing.cancel()


def _kill(number: int, kill: Callable[[int, int], None]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        kill(number, signal.SIGKILL)
