"""`headgate try`: the whole path on one file, with nothing kept.

The path is the real one; what it touches is not. The ledger is an embedded server in a temporary
home, the store is a temporary folder, and the transaction that would finalize is rolled back at its
end, after deferred constraints were checked. The user's database and store are never opened.

Only what a handler does outside of Headgate is real: a foreign call is made, and taken back if it
has an `undo`.
"""

from __future__ import annotations

import asyncio
import copy
import fcntl
import itertools
import os
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path as FilePath
from typing import Any, NamedTuple

import orjson

from headgate.errors import LedgerRefused, UsageError
from headgate.ledger import call, gate, inbox
from headgate.ledger import worker as workers
from headgate.ledger.gate import Claim
from headgate.model.facts import Check
from headgate.model.pipeline import Pipeline
from headgate.model.ports import Chunks, Noticed
from headgate.model.verdict import Quarantine, Release, Retry, Verdict
from headgate.pg import Database, Link
from headgate.pg.database import IDLE_SECONDS
from headgate.pg.driver import PostgresError, sqlstate
from headgate.pipeline import Attempt, Path
from headgate.sources.directory import Directory, hint_of
from headgate.sources.walk import uri_of
from headgate.stores import open_store

from . import station
from .crew import Crew
from .ledger_home import Ledger, connected
from .marker import Marker
from .tuning import Tuning

LEASE_SECONDS = 86_400.0
STOP_SECONDS = 10.0
# What a statement is answered when a table, a schema, a column or a function is not there.
_NOT_THERE = frozenset({"42P01", "3F000", "42703", "42883"})
# Code that is not the user's: ours, the standard library's, and what has no file.
_FOREIGN = (str(FilePath(__file__).parents[1]) + os.sep, os.path.dirname(os.__file__) + os.sep, "<")


class Made(NamedTuple):
    """An artifact that a transform made."""

    name: str
    size: int
    digest: str
    media_type: str


class Rows(NamedTuple):
    """Rows of one table: the first of them, and how many there are."""

    table: str
    total: int
    first: list[dict[str, Any]]


@dataclass(slots=True)
class Rehearsal:
    """What would become of one object. `raised` is what a handler raised, with its traceback."""

    pipeline: str
    uri: str
    size: int | None = None
    digest: str | None = None
    verdict: Verdict | None = None
    raised: BaseException | None = None
    at: str | None = None
    missing: str | None = None
    checks: list[Check] = field(default_factory=list[Check])
    rows: list[Rows] = field(default_factory=list[Rows])
    artifacts: list[Made] = field(default_factory=list[Made])
    calls: list[str] = field(default_factory=list[str])
    undone: list[str] = field(default_factory=list[str])
    seconds: float = 0.0

    @property
    def would_finalize(self) -> bool:
        return not isinstance(self.verdict, Quarantine | Retry | Release)


@asynccontextmanager
async def scratch(setup: str | None = None) -> AsyncGenerator[ScratchDatabase]:
    """A ledger to rehearse on, gone at the end. `setup` is SQL that makes the user's own tables."""
    home = _make_home()
    try:
        async with (
            connected(Ledger(None, home), connections=4) as plain,
            await ScratchDatabase.open(plain.url, max_size=4) as db,
        ):
            assert isinstance(db, ScratchDatabase), "it opens what it is"
            if setup is not None:
                await _set_up(db, setup)
            db.folder = home
            yield db
    finally:
        await asyncio.to_thread(_remove, home)


class ScratchDatabase(Database):
    """A database that can undo every transaction at its end, after checking what COMMIT would."""

    folder: FilePath
    _undoing = False

    @contextmanager
    def undoing(self) -> Generator[None]:
        """In this block no transaction is kept."""
        self._undoing = True
        try:
            yield
        finally:
            self._undoing = False

    @asynccontextmanager
    async def transaction(
        self, *, idle_seconds: float = IDLE_SECONDS, first: Sequence[str] = ()
    ) -> AsyncGenerator[Link]:
        if not self._undoing:
            async with super().transaction(idle_seconds=idle_seconds, first=first) as link:
                yield link
            return
        async with self.connection() as link:
            try:
                await link.execute("; ".join(("BEGIN", *first)))
                yield link
                await link.execute("SET CONSTRAINTS ALL IMMEDIATE")
            finally:
                await link.execute("ROLLBACK")


class _Rehearsed(Path):
    """The path, which remembers what was raised on it and can end an attempt without a trace."""

    raised: BaseException | None = None

    def _judge(
        self, claim: Claim, began: float, error: BaseException
    ) -> Retry | Quarantine | Release:
        self.raised = error
        return super()._judge(claim, began, error)

    async def end(self, attempt: Attempt, db: ScratchDatabase) -> Verdict:
        """Stage and settle; how the attempt would have ended."""
        await self.stager.stage([attempt])
        with db.undoing():
            await self.settler.settle([attempt])
        return attempt.verdict


async def rehearse(
    db: ScratchDatabase, declared: Pipeline, sample: FilePath, tuning: Tuning, *, rows: int = 10
) -> Rehearsal:
    """Take one file down the path of a pipeline. The file is judged alone, on empty tables."""
    sample, source = _locate(sample)
    pipeline = copy.copy(declared)
    pipeline.sources = (source,)
    pipeline.store = str(db.folder / "lake")
    told = Rehearsal(pipeline.name, uri_of(str(sample)))
    began = time.monotonic()
    path = await _path(db, pipeline, tuning)
    claim = await _claim(db, path, source, sample)
    attempt = path.begin(claim)
    try:
        await _prepare(path, attempt, tuning)
        _tell_effects(told, attempt, rows)
        told.verdict = await path.end(attempt, db)
        told.raised = path.raised
        told.at = None if path.raised is None else _where(path.raised)
        told.missing = _missing(path.raised)
        told.calls = [c.name for c in await call.to_undo(db, claim.id)][::-1]
        told.undone = [name for name, error in await attempt.run.undo_calls() if error is None]
    finally:
        path.finish([attempt])
    told.seconds = time.monotonic() - began
    return told


def _locate(sample: FilePath) -> tuple[FilePath, Directory]:
    """The file itself and its folder as a source: a link is followed first."""
    real = sample.resolve()
    return real, Directory(real.parent, settle=0)


def _make_home() -> FilePath:
    home = FilePath(tempfile.mkdtemp(prefix="headgate-try-"))
    # Root's server runs as another user, who must be able to pass through.
    home.chmod(0o711 if os.geteuid() == 0 else 0o700)
    return home


async def _set_up(db: Database, setup: str) -> None:
    try:
        await db.execute(setup)
    except PostgresError as error:
        raise UsageError(
            f"the setup SQL failed: {error}", hint="It runs on an empty database; make it complete."
        ) from error


async def _path(db: ScratchDatabase, pipeline: Pipeline, tuning: Tuning) -> _Rehearsed:
    at = await station.register(db, pipeline)
    store = open_store(pipeline.store, tuning.local)
    path = _Rehearsed(pipeline, db, at, store, apply_seconds=tuning.apply_seconds)
    try:
        await path.open()
    except LedgerRefused as error:
        raise UsageError(
            f"on the scratch database: {error}",
            hint="Make what it needs with --setup FILE.sql, as in CREATE SCHEMA weather;",
        ) from error
    return path


async def _claim(db: Database, path: Path, source: Directory, sample: FilePath) -> Claim:
    status = os.stat(sample)
    now = datetime.now(UTC)
    changed_at = datetime.fromtimestamp(status.st_mtime, UTC)
    change = Noticed(
        uri_of(str(sample)), "created", hint_of(status), "weak", changed_at, 0, status.st_size
    )
    await inbox.receive(db, path.at, source.name, [source.envelope(change, 1, now)])
    worker = await workers.register(db, "try", LEASE_SECONDS)
    (claim,) = await gate.claim(db, path.at.pipeline, worker, 1, floor=0, idle=True)
    return claim


async def _prepare(path: Path, attempt: Attempt, tuning: Tuning) -> None:
    deadline = path.declared.deadline_seconds or tuning.deadline_seconds
    if path.declared.is_async:
        await path.prepare_async(attempt, deadline)
        return
    # In a thread that does not keep an interrupted process alive.
    handled = asyncio.Event()
    crew = Crew(1, Marker.alone(1), 0, path.prepare, lambda _: None, handled.set)
    crew.submit([attempt])
    await handled.wait()
    crew.close()


def _tell_effects(told: Rehearsal, attempt: Attempt, rows: int) -> None:
    if attempt.object is not None:
        told.size, told.digest = attempt.object.size, attempt.object.digest
    told.checks = [] if attempt.checks is None else attempt.checks.said
    made = attempt.rows or {}
    told.rows = [
        Rows(table, count, list(itertools.islice(_decoded(made.get(table, [])), rows)))
        for table, count in (attempt.counts or {}).items()
    ]
    told.artifacts = [
        Made(a["name"], a["size"], a["digest"], a["media_type"]) for a in attempt.artifacts or ()
    ]


def _decoded(chunks: Chunks) -> Iterator[dict[str, Any]]:
    for n in range(len(chunks)):
        yield from orjson.loads(chunks[n])


def _where(error: BaseException) -> str | None:
    """The last line of the user's own code that this error went through."""
    for one in _chain(error):
        for frame in reversed(traceback.extract_tb(one.__traceback__)):
            foreign = frame.filename.startswith(_FOREIGN) or "site-packages" in frame.filename
            if frame.line and not foreign:
                return f"{frame.filename}:{frame.lineno}: {frame.line}"
    return None


def _missing(error: BaseException | None) -> str | None:
    """What the user's SQL asked for that the scratch database does not have."""
    return next((str(e) for e in _chain(error) if sqlstate(e) in _NOT_THERE), None)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _remove(home: FilePath) -> None:
    """End the server of this home, wait until it is gone, and remove it."""
    deadline = time.monotonic() + STOP_SECONDS
    told = False
    with (home / "postgres" / "keeper.lock").open("a+") as lock:
        while time.monotonic() < deadline:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # The lock is held, so its keeper lives and has written its number there. Left
                # alone it would wait a little for another client; there will be none.
                lock.seek(0)
                if not told and (number := lock.read().strip()).isdecimal():
                    os.kill(int(number), signal.SIGTERM)
                    told = True
                time.sleep(0.01)
    shutil.rmtree(home, ignore_errors=True)
